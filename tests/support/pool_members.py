"""Pool members on a virtual clock: one environment per member (Lambda tenant), and its faults."""

from __future__ import annotations

import itertools

from burstcache.core.errors import ServiceTransientError
from burstcache.core.messages.pool import MemberState
from support.roles import check
from support.virtual_time import VirtualClock


class PoolMembers:
    """Environments of pool members by name, each created at its member's first invocation."""

    def __init__(self, clock: VirtualClock) -> None:
        self.silent: set[str] = set()  # members whose every invocation fails
        self.invoked: list[str] = []
        self._clock, self._numbers = clock, itertools.count(1)
        self._environments: dict[str, MemberState] = {}

    def warm(self, name: str) -> MemberState:
        """Answer a warm-up."""
        check("lambda", "Invoke", {"FunctionName": "pool_member"})
        self.invoked.append(name)
        if name in self.silent:
            raise ServiceTransientError("Rate exceeded", code="TooManyRequestsException")
        return self.environment(name)

    def environment(self, name: str) -> MemberState:
        """Return the state of a member's environment."""
        if name not in self._environments:
            self._environments[name] = MemberState(
                environment=f"environment-{next(self._numbers)}",
                born_us=self._clock.now_us(),
                chunks=0,
                stored_bytes=0,
                served=0,
                billed_ms=2,
            )
        return self._environments[name]

    def store(self, name: str, stored_bytes: int) -> None:
        """Make a member hold one chunk of that length, or none if it is 0."""
        state = self.environment(name)
        state["stored_bytes"], state["chunks"] = stored_bytes, int(stored_bytes > 0)

    def reclaim(self, *names: str) -> None:
        """Lose environments and their contents."""
        for name in names:
            self._environments.pop(name, None)  # a member not invoked since has none to lose
