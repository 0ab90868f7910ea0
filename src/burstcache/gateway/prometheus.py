"""Prometheus metrics of a gateway, in memory that its processes share: a scrape of any process shows the sum of all.

Each process increments counters of its own, which needs no lock between processes and survives a killed process.

Source:
    Prometheus documentation, "Exposition formats": text format 0.0.4.
"""

from __future__ import annotations

import itertools
import math
import mmap
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
OPERATIONS = ("get", "head", "write", "other")
TIERS = ("memory", "disk", "lambda", "redis", "express", "pool", "s3", "none")
OUTCOMES = ("ok", "client_error", "server_error", "aborted")
S3_OUTCOMES = ("ok", "client_error", "server_error", "unreachable")
REFUSAL_CODES = (
    "SignatureDoesNotMatch", "InvalidAccessKeyId", "RequestTimeTooSkewed", "ExpiredToken", "InvalidToken",
    "AccessDenied", "other",
)  # fmt: skip
_BOUNDS_S = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_BOUNDS_NS = tuple(round(1e9 * bound_s) for bound_s in _BOUNDS_S)
_NS_PER_S = 1e9
_COUNTER_BYTES = 8
_PREFIX = "burstcache_gateway_"
_START = "process_start_time_seconds"  # a name that Prometheus's own libraries have

Kind = Literal["counter", "gauge", "histogram"]
Values = memoryview  # of one process, 64 bits each


@dataclass(frozen=True)
class Family:
    """A metric, with one value per combination of its labels' values.

    Attributes:
        name: Its name without the prefix of all metrics.
        kind: The Prometheus type.
        help: What it counts.
        labels: The possible values of its labels.
        first: Index of its first value.
        is_shared: Whether each process has the same value, which is not added up.
    """

    name: str
    kind: Kind
    help: str
    labels: Mapping[str, Sequence[str]]
    first: int
    is_shared: bool = False

    @property
    def width(self) -> int:
        """The number of values per combination of labels. A histogram has its buckets and its sum [ns]."""
        return len(_BOUNDS_NS) + 2 if self.kind == "histogram" else 1

    @property
    def end(self) -> int:
        """The index after its last value."""
        return self.first + self.width * math.prod(len(values) for values in self.labels.values())

    def index(self, *values: str) -> int:
        """Return the index of the value for a combination of labels."""
        place = 0
        for value, possible in zip(values, self.labels.values(), strict=True):
            place = place * len(possible) + possible.index(value)
        return self.first + self.width * place

    def describe(self, value_of: Callable[[int], int]) -> Iterator[str]:
        """Yield the lines of the text format."""
        name = self.name if self.name == _START else _PREFIX + self.name
        yield f"# HELP {name} {self.help}\n# TYPE {name} {self.kind}\n"
        for place, values in enumerate(itertools.product(*self.labels.values())):
            pairs = [f'{label}="{value}"' for label, value in zip(self.labels, values, strict=True)]
            first = self.first + self.width * place
            if self.kind != "histogram":
                yield f"{name}{_braces(pairs)} {value_of(first)}\n"
                continue
            count = 0
            for bound, index in zip([*map(str, _BOUNDS_S), "+Inf"], itertools.count(first), strict=False):
                count += value_of(index)
                buckets = _braces([*pairs, f'le="{bound}"'])
                yield f"{name}_bucket{buckets} {count}\n"
            yield f"{name}_sum{_braces(pairs)} {value_of(first + self.width - 1) / _NS_PER_S}\n"
            yield f"{name}_count{_braces(pairs)} {count}\n"


def observe(values: Values, first: int, elapsed_ns: int) -> None:
    """Add a duration to a histogram."""
    values[first + bisect_left(_BOUNDS_NS, elapsed_ns)] += 1
    values[first + len(_BOUNDS_NS) + 1] += elapsed_ns


def _braces(pairs: Sequence[str]) -> str:
    return f"{{{','.join(pairs)}}}" if pairs else ""


def _families() -> Iterator[Family]:
    first = 0
    for name, kind, help_, labels in (
        (
            "requests_total", "counter", "Requests answered, by what answered.",
            {"operation": OPERATIONS, "tier": TIERS, "outcome": OUTCOMES},
        ),
        ("request_seconds", "histogram", "Time from a request to the last byte of its response.", {"tier": TIERS}),
        ("sent_bytes_total", "counter", "Bytes of response bodies sent to clients.", {"tier": TIERS}),
        ("refused_requests_total", "counter", "Requests that failed authentication.", {"code": REFUSAL_CODES}),
        (
            "s3_requests_total", "counter", "Requests sent to S3.",
            {"operation": OPERATIONS, "outcome": S3_OUTCOMES},
        ),
        ("s3_request_seconds", "histogram", "Time until S3's response begins.", {"operation": OPERATIONS}),
        ("s3_received_bytes_total", "counter", "Bytes of response bodies received from S3.", {}),
        ("failed_invalidations_total", "counter", "Writes after which the stack's copies could not be dropped.", {}),
        ("lost_log_lines_total", "counter", "Lines of the access log that could not be written.", {}),
        ("process_starts_total", "counter", "Starts of the gateway's processes.", {}),
        ("connections", "gauge", "Open connections of clients.", {}),
        ("memory_bytes", "gauge", "Bytes that the caches in memory hold.", {}),
        ("memory_limit_bytes", "gauge", "Limit of the caches in memory.", {}),
        ("disk_bytes", "gauge", "Bytes that the directory on disk holds.", {}),
        (_START, "gauge", "Start time of the gateway since the Unix epoch.", {}),
    ):  # fmt: skip
        family = Family(name, kind, help_, labels, first, is_shared=name in _OF_THE_MACHINE)  # type: ignore[arg-type]
        yield family
        first = family.end


_OF_THE_MACHINE = ("disk_bytes", _START)
FAMILIES = {family.name: family for family in _families()}
_GAUGES = [family for family in FAMILIES.values() if family.kind == "gauge"]
_COUNT = max(family.end for family in FAMILIES.values())


class GatewayMetrics:
    """The values of all processes. Create it before the processes fork."""

    def __init__(self, processes: int, *, started_s: float) -> None:
        """Create the values, all zero.

        Args:
            processes: Number of processes.
            started_s: Start time of the gateway since the epoch [s].
        """
        self._started_s = int(started_s)
        self._values = memoryview(mmap.mmap(-1, _COUNTER_BYTES * _COUNT * processes)).cast("Q")
        self._columns = range(0, _COUNT * processes, _COUNT)

    def start_process(self, process: int) -> Values:
        """Return the values of a process that starts. A former one under this index leaves its counters, no gauges."""
        first = self._columns[process]
        values = self._values[first : first + _COUNT]
        for family in _GAUGES:
            for index in range(family.first, family.end):
                values[index] = 0
        values[FAMILIES[_START].first] = self._started_s
        values[FAMILIES["process_starts_total"].first] += 1
        return values

    def text(self) -> str:
        """Return all metrics in Prometheus's text format."""
        return "".join(
            line
            for family in FAMILIES.values()
            for line in family.describe(self._newest if family.is_shared else self._sum)
        )

    def _sum(self, index: int) -> int:
        return sum(self._values[column + index] for column in self._columns)

    def _newest(self, index: int) -> int:
        return max(self._values[column + index] for column in self._columns)
