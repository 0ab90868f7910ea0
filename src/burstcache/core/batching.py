"""Batching of readers' reports: a reader sends a batch once its potential savings far exceed the report's cost.

A report costs the same regardless of the number of requests in it. Waiting for a batch delays a boot. The delay costs
at most the amount that a node would have saved on the batched requests.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from burstcache.core.messages.events import ObjectRequested, RequestsServed
from burstcache.core.parameters import US_PER_S
from burstcache.core.worth import MICRO, Worth

# A report costs as much as one or two seconds of a small node, which takes half a minute to boot.
MIN_BATCH_AGE_US = 10 * US_PER_S
# This age limits the loss when a reader terminates, and lets the scheduler record rarely read keys.
MAX_BATCH_AGE_US = 300 * US_PER_S
# Savings that trigger a report, as a multiple of the report's price. With a request every 8 s and 10 USD per million
# hits, a reader reports every 19 s.
_WORTH_MULTIPLE = 10


@dataclass(frozen=True, slots=True)
class BatchRule:
    """The rule that decides when a reader sends a batch."""

    worth: Worth
    threshold: int  # minimum weight of a due batch: its hits would pay for `_WORTH_MULTIPLE` reports [millionths]

    def weight_of(self, event: ObjectRequested | RequestsServed) -> int:
        """Return the weight that an event adds to a batch [millionths]."""
        if "keys" not in event:
            return self.worth.weight_of(event["size_bytes"])
        return sum(
            (len(served["requests"]) + served.get("left_out", 0)) * self.worth.weight_of(served["size_bytes"])
            for served in event["keys"]
        )

    def is_due(self, *, age_us: int, weight: int) -> bool:
        """Return whether a batch is due.

        Args:
            age_us: Time since the batch's first request [us].
            weight: Sum of its requests' weights [millionths].
        """
        return age_us >= MAX_BATCH_AGE_US or (age_us >= MIN_BATCH_AGE_US and weight >= self.threshold)


def batch_rule(worth: Worth) -> BatchRule:
    """Return the batching rule for a stack's readers."""
    return BatchRule(worth, ceil(MICRO * _WORTH_MULTIPLE * worth.prices.report_usd / worth.hit_usd))
