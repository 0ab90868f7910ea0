"""The result of a simulated run in exact integers; money comes later."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import Literal

Tier = Literal["S", "X", "L", "R"]  # S3, a copy in Express, a cache function, a Redis node


@dataclass(frozen=True, slots=True)
class ExpressUse:
    """What a run takes of S3 Express; all 0 without it."""

    asks: int = 0  # GETs: whatever no memory served, also where there is no copy
    copies: int = 0  # PUTs
    copied_bytes: int = 0
    read_bytes: int = 0
    byte_s: int = 0  # bytes by the seconds that they are billed for, each copy for at least an hour


NO_EXPRESS = ExpressUse()


@dataclass(frozen=True, slots=True)
class GuestUse:
    """What guests of nodes and the statistics that boot nodes take; all 0 under a policy whose keys have leases."""

    fills: int = 0  # objects that a reader put into a running node after a miss
    loads: int = 0  # objects that were put into a node when it got ready, an S3 GET each
    told: int = 0  # requests that readers told: those that no node served
    told_batches: int = 0  # in which one reader tells them: at most one begins in ten seconds
    seen_writes: int = 0  # rows of keys seen, at most one an hour and key


NO_GUESTS = GuestUse()


@dataclass(frozen=True, slots=True)
class RunResult:
    """One run of one policy over one trace (`docs/understand/simulation.md`, "Billing")."""

    n: int  # requests up to the horizon
    n_s3: int
    n_lambda: int
    n_redis: int  # guests included
    lambda_ms: int  # billed, each invocation rounded up
    invocations: int  # one per life of a cache function; those that follow within it are `handovers`
    cold_starts: int
    redis_s: int  # billed, at least 60 s a run; those of all nodes, always-on ones included
    redis_starts: int  # boots begun; an always-on node has none
    s3_requests: int  # served by S3, cold starts, boots (with many keys: objects put into Redis at joins and boots)
    lambda_us_exact: int
    redis_us_exact: int
    end_us: int
    handovers: int = 0  # from one invocation to the next: a life may outlast Lambda's quarter of an hour
    n_express: int = 0
    n_memory: int = 0  # answered by the readers' own memory, before anything here was asked
    express: ExpressUse = NO_EXPRESS
    guests: GuestUse = NO_GUESTS
    checks: int = 0  # looks at running nodes: the thesis policy's ticker, the use of a node
    tiers: str = ""  # per request S, X, L or R
    log: tuple[tuple[int, str, str], ...] = ()  # time [us], state, what happened (thesis policy)
    lambda_spans_us: tuple[tuple[int, int], ...] = ()  # ready to end, per invocation that became ready
    redis_spans_us: tuple[tuple[int, int], ...] = ()  # ready to stop

    @property
    def in_memory_pct(self) -> float:
        """Share of requests that a cache served, rounded to six decimals [%]."""
        return round(100 * (self.n_memory + self.n_lambda + self.n_redis) / self.n, 6) if self.n else 0.0

    @property
    def tiers_rle(self) -> str:
        """The tiers as run-length code: `S2L5R3`."""
        return "".join(f"{tier}{sum(1 for _ in run)}" for tier, run in groupby(self.tiers))
