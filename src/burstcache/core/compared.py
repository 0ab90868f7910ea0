"""The numbers that a rule compares, for those who want to see why it decides as it does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Measure = Literal[
    "window_span_s",  # of a key's newest requests: below the limit it is hot
    "requests_since_start",  # above the limit Redis is asked for
    "queue_span_s",  # from the fifth newest request to a check: above the limit the key is given back
    "arrivals_span_s",  # of the newest arrivals: below the limit memory is bought
    "expected_usd_per_h",  # what the rates that pay earn; at least the limit, what the other rates lose
    "tick_s",  # what each request adds to the life of a cache function
    "size_bytes",  # of the object; up to the limit
]


@dataclass(frozen=True, slots=True)
class Compared:
    """One comparison. The value is None while there is too little to measure."""

    measure: Measure
    value: float | None
    limit: float
