"""Pending reports come back as they were added, and take little room however many repeats they have."""

from __future__ import annotations

import itertools

import pytest

from burstcache.core.pending_reports import PendingReport, decode_report, encode_report, uncounted


@pytest.mark.parametrize(
    "report",
    [
        PendingReport(b"12345678"),
        PendingReport(b"12345678", ((0, 1), (5, 2**40))),
        PendingReport(b"12345678", missed=7),
        PendingReport(b"12345678", tuple((at_us, 3) for at_us in range(16)), missed=9),
    ],
)
def test_a_report_comes_back_as_it_was(report: PendingReport) -> None:
    assert decode_report(encode_report(report)) == report


@pytest.mark.parametrize("repeats", [17, 33, 1000])
def test_many_repeats_are_merged_with_their_neighbours(repeats: int) -> None:
    given = [(at_us, 2) for at_us in range(repeats)]

    encoded = encode_report(PendingReport(b"12345678", given))

    found = decode_report(encoded).repeats
    assert len(encoded) <= 8 + 16 * 16
    assert sum(weight for _, weight in found) == 2 * repeats
    assert found[-1][0] == repeats - 1
    assert all(later - earlier <= repeats / 16 + 1 for (earlier, _), (later, _) in itertools.pairwise(found))


def test_a_report_is_counted_once() -> None:
    twice = [PendingReport(b"b", ((1, 1),)), PendingReport(b"b", ((2, 1),)), PendingReport(b"a"), PendingReport(b"c")]

    assert [report.id for report in uncounted(twice, {b"c"})] == [b"a", b"b"]
