"""Pending reports about a node: reports that lost a race for the node's use, until the next writer counts them.

A report is added to the node's use item without a condition, so it is never lost. Adding it twice has no effect.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from struct import Struct

REPORT_BYTES = 8
_MOST_REPEATS = 16  # in one item's report: 8 + 16 * 16 bytes. Above that, neighbours are merged
_REPEAT = Struct("<qq")
_MISSED_US = -1  # in place of a time

Repeat = tuple[int, int]  # time and weight of a repeated request [us, millionths]


@dataclass(frozen=True, slots=True)
class PendingReport:
    """A report that is not counted yet."""

    id: bytes  # the report's idempotency key, `REPORT_BYTES` long
    repeats: Sequence[Repeat] = ()  # oldest first
    missed: int = 0  # weight of the repeats that a full running node missed [millionths]


def encode_report(report: PendingReport) -> bytes:
    """Encode a report for the node's use item.

    Of many repeats, neighbours are merged into one repeat at the time of the newest, with the sum of their weights.
    """
    repeats = list(_merged(report.repeats))
    if report.missed:
        repeats.append((_MISSED_US, report.missed))
    return report.id + b"".join(_REPEAT.pack(*repeat) for repeat in repeats)


def decode_report(data: bytes) -> PendingReport:
    """Decode a report that `encode_report` wrote."""
    repeats = [_REPEAT.unpack_from(data, at) for at in range(REPORT_BYTES, len(data), _REPEAT.size)]
    missed = sum(weight for at_us, weight in repeats if at_us == _MISSED_US)
    return PendingReport(data[:REPORT_BYTES], tuple(each for each in repeats if each[0] != _MISSED_US), missed)


def uncounted(pending: Iterable[PendingReport], counted: Collection[bytes]) -> tuple[PendingReport, ...]:
    """Return each pending report once, except those that a writer has counted meanwhile."""
    by_id = {report.id: report for report in pending if report.id not in counted}
    return tuple(by_id[id_] for id_ in sorted(by_id))


def _merged(repeats: Sequence[Repeat]) -> Iterator[Repeat]:
    size = -(-len(repeats) // _MOST_REPEATS) or 1
    for at in range(0, len(repeats), size):
        group = repeats[at : at + size]
        yield group[-1][0], sum(weight for _, weight in group)
