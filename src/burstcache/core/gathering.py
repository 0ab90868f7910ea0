"""How long a reader gathers what it reports: until what the report may decide is worth much more than the report.

A report costs the same however much is in it. What waits would have saved some amount if all of it had been hits of a
node, and that is the most that a boot loses by waiting for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from burstcache.core.messages.events import ObjectRequested, RequestsServed
from burstcache.core.parameters import US_PER_S
from burstcache.core.worth import MICRO, Worth

AT_LEAST_US = 10 * US_PER_S  # a report costs as much as a second or two of a small node, which boots for half a minute
AT_MOST_US = 300 * US_PER_S  # keys that are asked for rarely are seen, too, and a reader that ends has little to lose
_TIMES_ITS_PRICE = 10  # with one request in eight seconds and a hit worth 10 USD per million, a report in 19 s


@dataclass(frozen=True, slots=True)
class GatherRule:
    """When a report is due."""

    worth: Worth
    enough: int  # weight of requests whose hits would save so much [millionths]

    def weight_of(self, event: ObjectRequested | RequestsServed) -> int:
        """Return what an event adds [millionths]."""
        if "keys" not in event:
            return self.worth.weight_of(event["size_bytes"])
        return sum(
            (len(served["requests"]) + served.get("left_out", 0)) * self.worth.weight_of(served["size_bytes"])
            for served in event["keys"]
        )

    def is_due(self, *, age_us: int, weight: int) -> bool:
        """Whether what has gathered is sent.

        Args:
            age_us: How long ago the first of the requests came [us].
            weight: The sum of their weights [millionths].
        """
        return age_us >= AT_MOST_US or (age_us >= AT_LEAST_US and weight >= self.enough)


def gather_rule(worth: Worth) -> GatherRule:
    """Return the rule for readers of a stack."""
    return GatherRule(worth, ceil(MICRO * _TIMES_ITS_PRICE * worth.prices.report_usd / worth.hit_usd))
