"""Advice names its assumptions, and resolves ties without a purchase."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from typing import Any

import numpy as np
import pytest

from burstcache.core.prices import price_sheet
from burstcache_sim.bill.latency_model import LatencyModel
from burstcache_sim.bill.setup import Setup
from burstcache_sim.choose.advise.advice import Advice, advise
from burstcache_sim.choose.advise.fields import advice_fields
from burstcache_sim.choose.advise.page import advice_page
from burstcache_sim.choose.advise.reassessment import spans_by_processes
from burstcache_sim.choose.advise.text import advice_text, month_text
from burstcache_sim.choose.advise.verdict import change_lines, verdict_lines
from burstcache_sim.choose.advise.worth import Span, Value
from burstcache_sim.choose.tune.workload import workload_of
from burstcache_sim.traces.addresses import has_public_clients
from burstcache_sim.traces.tiling import tiled
from burstcache_sim.traces.trace import Trace

PRICES = price_sheet("today-us-east-1")
MIB = 1024**2
DAY_US = 86_400_000_000


def ranged(*, sizes_mb: int = 64, requests: int = 2_000) -> Trace:
    """Return a day of reads of 1 MiB from four objects, without offsets."""
    ids = (np.arange(requests) % 4).astype(np.int32)
    return Trace(
        np.arange(requests) * (DAY_US // requests),
        ids,
        np.full(requests, MIB),
        tuple(f"{name} [{MIB} bytes]" for name in "abcd"),
        object_bytes=np.full(requests, sizes_mb * MIB),
        objects=tuple("abcd"),
        assumed_ranges=requests,
    )


def whole(*, objects: int = 500, requests: int = 6_000, size_bytes: int = 30_000) -> Trace:
    """Return a day of requests for objects at random."""
    ids = np.random.default_rng(1).integers(objects, size=requests).astype(np.int32)
    times_us = np.arange(requests) * (DAY_US // requests)
    return Trace(times_us, ids, np.full(requests, size_bytes), tuple(map(str, range(objects))))


def advice(trace: Trace, usd_per_hit: float = 1e-5, **setup: Any) -> Advice:
    workload = workload_of(trace, PRICES, Setup(**setup))
    return advise(workload, Value(usd_per_hit=usd_per_hit), LatencyModel(), candidates=8)


@cache
def without_offsets() -> Advice:
    return advice(ranged())


@cache
def with_readers(processes: int) -> Advice:
    return advice(whole(), reader_processes=processes)


def net_usd(found: Advice, name: str) -> float:
    return next(one.gain.net_usd(found.value) for one in found.others if one.name == name)


# Ranges without offsets


def test_tiled_ranges_follow_each_other_through_their_object_and_begin_again() -> None:
    found = tiled(ranged(sizes_mb=2, requests=12))

    assert found.key_ids is not None
    read = [found.keys[id_] for id_ in found.key_ids[::4]]
    assert read == [f"a [bytes 0-{MIB - 1}]", f"a [bytes {MIB}-{2 * MIB - 1}]", f"a [bytes 0-{MIB - 1}]"]
    assert set(found.objects) == set("abcd")
    assert found.assumed_ranges == 0


def test_tiled_ranges_of_objects_without_a_size_never_come_back() -> None:
    found = tiled(replace(ranged(sizes_mb=1, requests=12), unsized_ranges=12))

    assert len(found.keys) == 12


def test_tiling_leaves_whole_objects_and_known_ranges_as_they_are() -> None:
    keys = ("a", "a [bytes 5-9]", "b [part 2]", f"b [{MIB} bytes]")
    trace = replace(ranged(requests=8), keys=keys, objects=("a", "a", "b", "b"))

    assert set(tiled(trace).keys) == {*keys[:3], f"b [bytes 0-{MIB - 1}]", f"b [bytes {MIB}-{2 * MIB - 1}]"}


def test_hits_that_rest_on_lengths_alone_have_a_bracket_and_no_small_error() -> None:
    found = without_offsets()

    said = " ".join(verdict_lines(found))
    fields = advice_fields(found)["confidence"]
    least, most = fields["hits_pct_between"]
    assert most == found.winner.in_memory_pct > 90 > 10 > least
    assert f"How sure: {least:.1f} to {most:.1f} % of the requests" in said
    assert "2,000 of 2,000 requests read parts of objects" in said
    assert "+/-" not in said
    assert {share["sure_within_points"] for share in fields["shares"]} == {None}
    assert fields["net_usd_between"] is None
    assert "How sure: " in advice_page(found, "s3.log")


def test_lengths_do_not_matter_for_objects_that_readers_keep_whole() -> None:
    found = advice(ranged(sizes_mb=2))

    assert found.winner.name.startswith("reader-memory:")
    assert "+/-" in " ".join(verdict_lines(found))


def test_ranges_and_objects_are_counted_apart() -> None:
    assert month_text(without_offsets()).startswith("2,000 requests for 4 ranges of 4 objects in ")
    assert month_text(with_readers(1)).startswith("6,000 requests for 500 objects in ")


# Readers


def test_a_search_names_the_numbers_at_which_the_kind_of_system_changes() -> None:
    def name_at(processes: int) -> str:
        return "a:1" if processes < 4 else "b" if processes < 38 else "c"

    def kind_of(name: str) -> str:
        return name.partition(":")[0]

    assert spans_by_processes(name_at, kind_of, 7) == (Span("a:1", 1, 4), Span("b", 4, 38), Span("c", 38, None))
    assert spans_by_processes(name_at, kind_of, 1) == (Span("a:1", 1, 4), Span("b", 4, None))
    assert spans_by_processes(lambda _: "b", kind_of, 7) == (Span("b", 1, None),)


@pytest.mark.slow
def test_the_verdict_changes_at_the_number_of_readers_that_it_names() -> None:
    spans = with_readers(1).sensitivity.by_processes
    last = spans[0].to
    assert last is not None

    before, after = with_readers(int(last) - 1), with_readers(int(last))

    assert before.verdict_if_it_lasts == "use the library"
    assert after.verdict_if_it_lasts != "use the library"
    assert after.winner.name == spans[1].name
    (line,) = [line for line in change_lines(with_readers(1)) if line.startswith("Reader processes")]
    assert f"up to {int(last) - 1}, then " in line


def test_memory_of_several_readers_is_added_up() -> None:
    one, several = (verdict_lines(with_readers(count))[0] for count in (1, 3))

    assert "64 MB of memory per reader. " in one
    assert "64 MB of memory per reader (192 MB in all)" in several


def test_readers_are_assumed_in_aws_and_public_addresses_are_named() -> None:
    found = with_readers(1)
    workload = replace(found.workload, trace=replace(found.workload.trace, has_public_clients=True))

    said, public = (verdict_lines(one)[-1] for one in (found, replace(found, workload=workload)))

    assert "in AWS, in the bucket's region (--readers)." in said
    assert "public" not in said
    assert "Most addresses at the start of the log are public: --readers internet" in public
    assert any(line.startswith("Readers on the internet: often CloudFront") for line in change_lines(found))


@pytest.mark.parametrize(
    ("line", "is_public"),
    [
        (b'52.95.3.9 - - [01/Nov/2026:12:00:00 +0000] "GET /a HTTP/1.1" 200 5 "-" "Chrome/120.0.0.0"', True),
        (b'10.0.3.9 - - [01/Nov/2026:12:00:00 +0000] "GET /a HTTP/1.1" 200 5 "-" "Chrome/120.0.0.0"', False),
        (b"owner bucket [01/Nov/2026:12:00:00 +0000] 2600:1f18::5 arn", True),
        (b"https 2026-11-01T12:00:00.123456Z app/lb/5 8.8.8.8:2817 10.0.0.1:80 0.0", True),
        (b'2026-11-01T12:00:00Z,key,5,"Mozilla/5.0 Chrome/120.0.0.0"', False),
        (b"time,key,size", False),
    ],
)
def test_the_first_address_of_a_line_is_the_clients(line: bytes, is_public: bool) -> None:
    assert has_public_clients([line]) == is_public
    assert not has_public_clients([line, b"10.0.0.1", b"10.0.0.2"])


# Ties


@pytest.mark.slow
def test_a_tie_goes_to_what_needs_no_purchase() -> None:
    last = with_readers(1).sensitivity.by_processes[0].to
    assert last is not None
    found = with_readers(int(last) - 1)

    lead_usd = found.highest.gain.net_usd(found.value) - found.net_usd
    assert 0 < lead_usd < max(0.01, 0.01 * found.highest.gain.net_usd(found.value))
    assert found.verdict_if_it_lasts == "use the library"
    assert f"A tie: {found.highest.name} has a net value of " in verdict_lines(found)[1]


def test_a_library_with_hardly_any_hit_and_no_gain_is_not_recommended() -> None:
    rare = whole(objects=1_000_000, requests=2_000)
    assert rare.key_ids is not None
    rare.key_ids[1_000:1_002] = rare.key_ids[:2]

    found = advice(rare, usd_per_hit=1e-6)

    library = max(net_usd(found, one.name) for one in found.others if one.kind == "reader-memory")
    assert 0 < library < 0.01
    assert found.verdict_if_it_lasts == "s3 alone"


def test_a_library_with_many_hits_is_recommended_even_if_it_saves_less_than_a_cent() -> None:
    workload = workload_of(whole(requests=600), PRICES, Setup(), period_us=30 * DAY_US)

    found = advise(workload, Value(), LatencyModel(), candidates=8)

    assert found.net_usd < 0.01
    assert found.verdict_if_it_lasts == "use the library"


# Money, page, languages


def test_an_error_of_the_hit_ratio_is_worth_its_hits() -> None:
    found = with_readers(1)
    points = found.confidence.shares[0].sure_points
    assert points is not None

    least, most = advice_fields(found)["confidence"]["net_usd_between"]

    usd_per_point = 6_000 * float(found.workload.repeats_per_month) / 100 * (1e-5 + 0.4e-6)
    assert found.net_usd - least == pytest.approx(points * usd_per_point, rel=1e-3)
    assert most - found.net_usd == pytest.approx(
        min(points, 100 - found.winner.in_memory_pct) * usd_per_point, rel=1e-3
    )
    assert f"The net value is between {least:.2f} and {most:.2f} USD a month." in " ".join(verdict_lines(found))


def test_the_page_names_the_log_its_dates_and_prices_and_marks_the_verdict() -> None:
    found = with_readers(1)
    origin_us = int(datetime(2026, 11, 1, tzinfo=UTC).timestamp()) * 1_000_000
    trace = replace(found.workload.trace, origin_us=origin_us)

    page = advice_page(replace(found, workload=replace(found.workload, trace=trace)), "access.log")

    assert "<h1>What to use for access.log</h1>" in page
    assert '<p class="lead">2026-11-01 to 2026-11-01, prices: today-us-east-1. 6,000 requests for ' in page
    bold = re.findall(r'<tr class="strong"><th scope="row">(\S+?)</th>', page)
    assert set(bold) == {found.winner.name}
    assert "burstcache gateway --bucket your-bucket-name \\\n#   --memory-mib 64 --freshness immutable" in page


def test_the_verdict_is_in_the_table() -> None:
    found = with_readers(1)

    rows = advice_text(found).partition("net USD\n")[2].splitlines()

    assert any(row.startswith(found.winner.name) for row in rows)
