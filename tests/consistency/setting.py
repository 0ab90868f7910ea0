"""The setting of a recorded history, and the list of all settings."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from burstcache.core.parameters import parameters_from_text
from burstcache.core.policies import LivePolicy, thesis
from consistency.history import Way
from support.policies import policy_named

_SHORT = "lambda_threshold_s=2,tick_s=3,redis_threshold=20,redis_utilization_s=5,redis_check_s=5"


@dataclass(frozen=True, slots=True)
class Setting:
    """The setting of a history: policy, S3 Express, the way of writes, faults, and the queue of S3's events."""

    policy: str
    has_express: bool
    way: Way
    has_faults: bool = True
    has_queue: bool = True

    def live_policy(self) -> LivePolicy:
        """Return the policy. The thesis's has short times, so that keys pass all states many times."""
        if self.policy == "thesis":
            return thesis(parameters_from_text(rate="9", sensitivity="4", overrides=_SHORT))
        return policy_named(self.policy, has_express=self.has_express)


# Direct writes run without faults, too: the baseline of staleness.
_WAYS: tuple[tuple[Way, bool], ...] = (("api", True), ("direct", False), ("direct", True))
# Half of the histories have a queue, the first ones.
SETTINGS = [
    Setting(policy, has_express, *way, has_queue)
    for has_queue, policy, has_express, way in itertools.product(
        (True, False), ("thesis", "breakeven"), (False, True), _WAYS
    )
]
