"""One comparison of a measured value with a rule's limit, to explain the rule's decision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Measure = Literal[
    "window_span_s",  # span of a key's newest requests: below the limit the key is hot
    "requests_since_start",  # above the limit the cache function requests Redis
    "queue_span_s",  # time from the fifth newest request to a check: above the limit the node releases the key
    "arrivals_span_s",  # span of the newest arrivals: below the limit a node boots or a cache function starts
    "expected_usd_per_h",  # expected gain: it must reach the limit, which is the expected loss
    "tick_s",  # extension of a cache function's life per request
    "size_bytes",  # size of the object: at most the limit
]


@dataclass(frozen=True, slots=True)
class Comparison:
    """One comparison. The value is None if there are too few measurements."""

    measure: Measure
    value: float | None
    limit: float
