"""What a running cache function knows of its own end, under each kind of policy. Nothing else sees its requests."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Protocol

from burstcache.core import policy
from burstcache.core.key_use import KeyRule, KeyUse
from burstcache.core.node_use import decode, encode, interrupted
from burstcache.core.parameters import Parameters
from burstcache.core.policies import LivePolicy
from burstcache.core.policy import LambdaLife, Request
from burstcache.core.rows import KeyRow, NodeRow
from burstcache.core.table import KeyColumns
from burstcache.core.worth import MICRO, Worth


class CacheLife(Protocol):
    """One life. It ends as idle at its deadline, which no longer belongs to it."""

    @property
    def deadline_us(self) -> int:
        """Return when it ends if nothing else happens [us]."""

    @property
    def is_promoted(self) -> bool:
        """Whether Redis is asked for, so that the life only bridges its boot."""

    @property
    def keeps(self) -> int:
        """How many of the newest requests it leaves in the row."""

    @property
    def is_reported(self) -> bool:
        """Whether its requests count for the key's node, which ends it when it runs."""

    def begin(self, row: KeyRow, now_us: int) -> None:
        """Take over what the key's row has, at the announcement."""

    def serve(self, request: Request) -> None:
        """Count a request that it served."""

    def wants_promotion(self) -> bool:
        """Whether it asks for Redis now."""

    def promote(self) -> None:
        """Bridge the boot of Redis."""

    def unpromote(self) -> None:
        """Take a promotion back that could not be reported."""

    def bridges(self, node: NodeRow, now_us: int) -> bool:
        """Whether it goes on past its deadline because its node boots; the deadline is a later one then."""

    def columns(self) -> KeyColumns:
        """Return what it leaves in the row, its newest requests apart."""


@dataclass(slots=True)
class LeasedLife:
    """A life under the thesis policy: extended by each request, until Redis is asked for."""

    parameters: Parameters
    life: LambdaLife = field(default_factory=lambda: LambdaLife(deadline_us=0, count=0))
    _newest_at_us: int = 0  # of requests, and not before it began: a reader's clock may be wrong
    is_reported = False

    @property
    def deadline_us(self) -> int:
        """Return when it ends [us]."""
        return self.life.deadline_us

    @property
    def is_promoted(self) -> bool:
        """Whether Redis is asked for."""
        return self.life.is_promoted

    @property
    def keeps(self) -> int:
        """How many requests the policy looks back on."""
        return self.parameters.window_length

    def begin(self, row: KeyRow, now_us: int) -> None:
        """Count what came since the trigger; an invocation before this one may have prolonged the life."""
        assert row.trigger is not None, "every life has a trigger"
        life = policy.lambda_ready(now_us, policy.count_since(row.trigger, row.window), self.parameters)
        self.life = replace(life, deadline_us=max(life.deadline_us, row.lives_until_us))
        self._newest_at_us = now_us

    def serve(self, request: Request) -> None:
        """Count a request, which extends the life unless it is promoted."""
        self._newest_at_us = max(self._newest_at_us, request.at_us)
        served = policy.lambda_serves(self.life, self.parameters)
        self.life = policy.lambda_bounded(served, newest_at_us=self._newest_at_us, parameters=self.parameters)

    def wants_promotion(self) -> bool:
        """Whether the load lasts."""
        return policy.wants_promotion(self.life, self.parameters)

    def promote(self) -> None:
        """Prolong the life once."""
        self.life = policy.promote(self.life, self.parameters)

    def unpromote(self) -> None:
        """Shorten it again."""
        self.life = policy.unpromote(self.life, self.parameters)

    def bridges(self, node: NodeRow, now_us: int) -> bool:
        """Return False: what it asked for has prolonged it already."""
        return False

    def columns(self) -> KeyColumns:
        """Return until when requests have prolonged the life; they themselves are all else that the policy knows."""
        return KeyColumns(lives_until_us=self.life.deadline_us)


@dataclass(slots=True)
class LifeByUse:
    """A life under a policy whose nodes take guests: it ends when the key's use no longer pays for it."""

    rule: KeyRule
    worth: Worth
    deadline_us: int = 0
    _weight: int = MICRO  # of each request
    _use: KeyUse = field(default_factory=KeyUse)
    _is_bridging: bool = False
    is_promoted = False
    is_reported = True
    keeps = 1

    def begin(self, row: KeyRow, now_us: int) -> None:
        """Take over the use; the life lasts at least until now.

        A cache function that has died leaves nothing of what it served: the next one lives as if a request came now.
        """
        self._weight = self.worth.weight_of(row.size_bytes)
        stored = decode(row.use) if row.use else self.rule.first()
        self._use = stored if self.rule.knows(stored) else self.rule.first()
        self.deadline_us = self._lives_until_us()
        if self.deadline_us <= now_us and row.attempt:
            self._use = interrupted(self._use)
            asked = self.rule.observe(self._use, now_us)
            self.deadline_us = self.rule.lives_until_us(asked, is_booting=False)
        self.deadline_us = max(now_us, self.deadline_us)

    def serve(self, request: Request) -> None:
        """Learn a request."""
        self._use = self.rule.observe(self._use, request.at_us, self._weight)
        self.deadline_us = self._lives_until_us()

    def wants_promotion(self) -> bool:
        """Return False: its node boots by the use of all its keys."""
        return False

    def promote(self) -> None:
        """Do nothing."""

    def unpromote(self) -> None:
        """Do nothing."""

    def bridges(self, node: NodeRow, now_us: int) -> bool:
        """Whether bridging pays that long: for a boot that the newest request fell into."""
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
    """Return a life that has not begun."""
    return LeasedLife(policy_.parameters) if policy_.use is None else LifeByUse(policy_.use.key, policy_.use.worth)
