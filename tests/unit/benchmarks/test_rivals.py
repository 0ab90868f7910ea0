"""The comparison with rivals: its page has the bills that the simulator computes, and a source for each citation."""

from __future__ import annotations

import re

import pytest

from benchmarks import rivals, rivals_month
from support.project import ROOT

PAGE = (ROOT / "docs/understand/comparison.md").read_text()
# On one machine, memory and local disk serve what unbounded readers' memory serves.
AS_READERS_MEMORY = (
    "s3fs, `simplecache::`, `blockcache::`",
    "Mountpoint, local cache",
    "Powertools, parameters",
    "cashews, aiocache, memory",
)


def _rows() -> dict[str, list[str]]:
    """Return the cells of the first table behind the system, by system."""
    table = PAGE.partition("## What fits")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if line[:1] == "|"]
    return {name: cells for name, *cells in rows[2:]}


@pytest.mark.slow
def test_the_page_has_the_bills_that_the_simulator_computes() -> None:
    months, rows = rivals_month.months(), _rows()

    shown = {
        name: (f"{rivals_month.usd_text(of.usd)} ({of.hits_pct:.0f} %)", of.idle_usd) for name, of in months.items()
    }
    shown |= dict.fromkeys(AS_READERS_MEMORY, shown["Burstcache, library, `immutable`"])

    assert {name: rows[name][1].partition(";")[0] for name in shown} == {
        name: month for name, (month, _) in shown.items()
    }
    assert {name: rows[name][2] for name in shown} == {
        name: rivals_month.usd_text(idle) for name, (_, idle) in shown.items()
    }
    assert f"free tier: {rivals_month.usd_text(months['CloudFront'].free_usd)}" in rows["CloudFront"][1]


def test_the_page_and_the_sample_of_advise_have_the_same_bill() -> None:
    advised = re.search(
        r"^burstcache \[1\] +(\S+) +\S+ +(\S+)", (ROOT / "docs/use/advise.md").read_text(), re.MULTILINE
    )
    assert advised is not None
    hits_pct, usd = advised.groups()

    assert _rows()["Burstcache, Fargate node while it pays"][1] == f"{usd} ({float(hits_pct):.0f} %)"


def test_every_citation_has_a_source_and_every_source_is_cited() -> None:
    text, _, sources = PAGE.partition("## Sources")

    assert set(re.findall(r"\[(\d+)\]", text)) == set(re.findall(r"^(\d+)\. ", sources, re.MULTILINE))


def test_the_page_is_short() -> None:
    assert len(PAGE.replace("|", " ").split()) <= 1_200


def test_ratios_are_to_boto3_alone_and_requests_are_per_thousand_reads() -> None:
    took_us = {rivals.ALONE: [100.0] * 10, "a cache": [4.0] * 10}

    rows = rivals.rows_of(took_us, {rivals.ALONE: 200, "a cache": 1})

    assert rows == [(rivals.ALONE, "100.0", "1.0", "1,000.0"), ("a cache", "4.0", "25.0", "5.0")]
