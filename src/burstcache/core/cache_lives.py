"""Lives of cache functions under each policy. Only the function itself sees its requests, so it decides when to end."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Protocol

from burstcache.core import policy
from burstcache.core.key_use import KeyRule, KeyUse
from burstcache.core.node_use import decode, encode, interrupted
from burstcache.core.parameters import Parameters
from burstcache.core.policies import LivePolicy
from burstcache.core.policy import LambdaLife, RecordedRequest
from burstcache.core.rows import KeyRow, NodeRow
from burstcache.core.table import KeyColumns
from burstcache.core.worth import MICRO, Worth


class CacheLife(Protocol):
    """A cache function's life, which ends as idle at its deadline (exclusive)."""

    @property
    def deadline_us(self) -> int:
        """The time at which the life ends without further requests [us]."""

    @property
    def is_promoted(self) -> bool:
        """Whether the function has requested Redis. Its life then only bridges the boot."""

    @property
    def kept_requests(self) -> int:
        """The number of recent requests that are stored in the row at the end."""

    @property
    def is_reported(self) -> bool:
        """Whether the life's requests are reported for the key's node. Such a life ends once the node runs."""

    def begin(self, row: KeyRow, now_us: int) -> None:
        """Restore the state from the key's row when the function announces itself."""

    def serve(self, request: RecordedRequest) -> None:
        """Count a request that the function served."""

    def wants_promotion(self) -> bool:
        """Return whether the function should request Redis now."""

    def promote(self) -> None:
        """Extend the life to bridge the boot of Redis."""

    def unpromote(self) -> None:
        """Revert a promotion whose report failed."""

    def bridges(self, node: NodeRow, now_us: int) -> bool:
        """Return whether the life continues past its deadline to bridge its node's boot. If so, extend the deadline."""

    def columns(self) -> KeyColumns:
        """Return the columns to store in the row, without the recent requests."""


@dataclass(slots=True)
class LeasedLife:
    """A life under the thesis policy, extended by each request until the function requests Redis."""

    parameters: Parameters
    life: LambdaLife = field(default_factory=lambda: LambdaLife(deadline_us=0, count=0))
    _newest_at_us: int = 0  # time of the newest request; at least the life's start, as readers' clocks may be wrong
    is_reported = False

    @property
    def deadline_us(self) -> int:
        """The time at which the life ends [us]."""
        return self.life.deadline_us

    @property
    def is_promoted(self) -> bool:
        """Whether the function has requested Redis."""
        return self.life.is_promoted

    @property
    def kept_requests(self) -> int:
        """The number of requests in the policy's window."""
        return self.parameters.window_length

    def begin(self, row: KeyRow, now_us: int) -> None:
        """Count the requests since the trigger, and keep an extension that an earlier invocation has stored."""
        assert row.trigger is not None, "every life has a trigger"
        life = policy.lambda_ready(now_us, policy.count_since(row.trigger, row.window), self.parameters)
        self.life = replace(life, deadline_us=max(life.deadline_us, row.lives_until_us))
        self._newest_at_us = now_us

    def serve(self, request: RecordedRequest) -> None:
        """Count a request, and extend the life unless it is promoted."""
        self._newest_at_us = max(self._newest_at_us, request.at_us)
        served = policy.lambda_serves(self.life, self.parameters)
        self.life = policy.lambda_bounded(served, newest_at_us=self._newest_at_us, parameters=self.parameters)

    def wants_promotion(self) -> bool:
        """Return whether the load has lasted long enough for Redis."""
        return policy.wants_promotion(self.life, self.parameters)

    def promote(self) -> None:
        """Extend the life once, for the boot of Redis."""
        self.life = policy.promote(self.life, self.parameters)

    def unpromote(self) -> None:
        """Revert the extension."""
        self.life = policy.unpromote(self.life, self.parameters)

    def bridges(self, node: NodeRow, now_us: int) -> bool:
        """Return False, because the promotion has already extended the life."""
        return False

    def columns(self) -> KeyColumns:
        """Return the deadline, the policy's only state apart from the requests."""
        return KeyColumns(lives_until_us=self.life.deadline_us)


@dataclass(slots=True)
class LifeByUse:
    """A life under a policy with read-through entries, which ends when the key's use no longer pays for it."""

    rule: KeyRule
    worth: Worth
    deadline_us: int = 0
    _weight: int = MICRO  # weight per request [millionths]
    _use: KeyUse = field(default_factory=KeyUse)
    _is_bridging: bool = False
    is_promoted = False
    is_reported = True
    kept_requests = 1

    def begin(self, row: KeyRow, now_us: int) -> None:
        """Restore the key's use, and set a deadline that is not in the past.

        A crashed cache function leaves no record of its requests, so its successor assumes one request now.
        """
        self._weight = self.worth.weight_of(row.size_bytes)
        stored = decode(row.use) if row.use else self.rule.first()
        self._use = stored if self.rule.knows(stored) else self.rule.first()
        self.deadline_us = self._lives_until_us()
        if self.deadline_us <= now_us and row.attempt:
            self._use = interrupted(self._use)
            assumed = self.rule.observe(self._use, now_us)
            self.deadline_us = self.rule.lives_until_us(assumed, is_booting=False)
        self.deadline_us = max(now_us, self.deadline_us)

    def serve(self, request: RecordedRequest) -> None:
        """Add a request to the key's use."""
        self._use = self.rule.observe(self._use, request.at_us, self._weight)
        self.deadline_us = self._lives_until_us()

    def wants_promotion(self) -> bool:
        """Return False, because the combined use of all of a node's keys decides the boot."""
        return False

    def promote(self) -> None:
        """Do nothing."""

    def unpromote(self) -> None:
        """Do nothing."""

    def bridges(self, node: NodeRow, now_us: int) -> bool:
        """Return whether bridging the boot still pays. At least one request must have arrived since the boot began."""
        if node.phase_at(now_us) != "booting" or self._use.last_us < node.booted_at_us:
            return False
        self._is_bridging = True
        self.deadline_us = self._lives_until_us()
        return self.deadline_us > now_us

    def columns(self) -> KeyColumns:
        """Return the key's use."""
        return KeyColumns(use=encode(self._use))

    def _lives_until_us(self) -> int:
        return self.rule.lives_until_us(self._use, is_booting=self._is_bridging)


def new_life(policy_: LivePolicy) -> CacheLife:
    """Create a life under a policy, to be started by `begin`."""
    return LeasedLife(policy_.parameters) if policy_.use is None else LifeByUse(policy_.use.key, policy_.use.worth)
