"""Environments of pool members, in this process. As on Lambda, a busy member's next invocation gets a new one."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from dataclasses import dataclass, field

from burstcache.adapters.clock import SystemClock
from burstcache.core.messages.pool import MemberState, ServeChunks
from burstcache.core.pool.chunk_store import ChunkStore
from burstcache.core.pool.keep_alive import KeepAlive, KeepAlivePrices
from burstcache.pool.environment import MemberEnvironment
from support.waiting import LIMIT_S

_CLOCK = SystemClock()


@dataclass
class Environment:
    """Execution environment of a member."""

    store: ChunkStore
    member: MemberEnvironment
    invocation: asyncio.Task[None] | None = None

    @property
    def is_busy(self) -> bool:
        """Return whether an invocation runs."""
        return self.invocation is not None and not self.invocation.done()

    async def finished(self) -> None:
        """Wait until no invocation runs."""
        if self.invocation:
            await self.invocation


@dataclass
class Members:
    """The member function, with its environments.

    Attributes:
        environments: Environments by member, the most recently created last.
        invocations: All invocations in order: member and event.
    """

    capacity_bytes: int = 64_000_000
    stay_ms: float = LIMIT_S * 1000  # until their hub is gone
    environments: defaultdict[str, list[Environment]] = field(default_factory=lambda: defaultdict(list))
    invocations: list[tuple[str, ServeChunks]] = field(default_factory=list)

    async def invoke(self, member: str, event: ServeChunks) -> MemberState:
        """Run an event in a free environment or a new one, and return the member's state."""
        self.invocations.append((member, event))
        free = [each for each in self.environments[member] if not each.is_busy]
        environment = free[-1] if free else self._made(member)
        began_s = _CLOCK.monotonic_s()
        until_s = began_s + LIMIT_S
        environment.invocation = asyncio.create_task(
            environment.member.serve(member, event["hub"], until_s=until_s, is_replica=event["peer"])
        )
        await asyncio.shield(environment.invocation)
        return environment.member.state(began_s)

    async def asleep(self, member: str) -> None:
        """Wait until no environment of a member runs."""
        for each in self.environments[member]:
            await each.finished()

    async def settle(self) -> None:
        """Wait until no invocation runs."""
        for member in self.environments:
            await self.asleep(member)

    def _made(self, member: str) -> Environment:
        store = ChunkStore(self.capacity_bytes)
        stay = KeepAlive.initial(KeepAlivePrices(idle_usd_per_ms=1.0, wake_usd=self.stay_ms))
        environment = Environment(store, MemberEnvironment(store, stay, _CLOCK, demands_tls=False))
        self.environments[member].append(environment)
        return environment
