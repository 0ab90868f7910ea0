"""The result of a simulated run in exact integers, without money."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import Literal

Tier = Literal["S", "X", "L", "R"]  # S3, a copy in Express, a cache function, a Redis node


@dataclass(frozen=True, slots=True)
class ExpressUse:
    """A run's use of S3 Express. All fields are 0 without S3 Express."""

    asks: int = 0  # GETs: all requests not served from memory, with or without a copy
    copies: int = 0  # PUTs
    copied_bytes: int = 0
    read_bytes: int = 0
    byte_s: int = 0  # bytes times billed seconds, at least an hour per copy


NO_EXPRESS = ExpressUse()


@dataclass(frozen=True, slots=True)
class GuestUse:
    """A run's use of read-through entries and of reports that boot nodes. All fields are 0 for a policy with leases."""

    fills: int = 0  # objects that a reader put into a running node after a miss
    loads: int = 0  # objects loaded into a node at a boot, with one S3 GET each
    told: int = 0  # reported requests, which no node served
    told_batches: int = 0  # reports by a single reader, at most one every ten seconds
    seen_writes: int = 0  # writes that record a key as seen, at most one per key and hour


NO_GUESTS = GuestUse()


@dataclass(frozen=True, slots=True)
class RunResult:
    """The result of running a policy on a trace (`docs/understand/simulation.md`, "Billing")."""

    n: int  # requests up to the horizon
    n_s3: int
    n_lambda: int
    n_redis: int  # including read-through entries
    lambda_ms: int  # billed, each life of a cache function rounded up
    invocations: int  # one per life of a cache function, not counting `handovers`
    cold_starts: int
    redis_s: int  # billed, at least 60 s a run, for all nodes including always-on ones
    redis_starts: int  # boots (always-on nodes have none)
    s3_requests: int  # served by S3, cold starts, objects put into Redis at joins and boots
    lambda_us_exact: int
    redis_us_exact: int
    end_us: int
    handovers: int = 0  # further invocations within a life longer than Lambda's 15 minutes
    range_gets: int = 0  # further GETs of requests for slices, whose missing slices are several ranges
    largest_hit_bytes: int = 0  # the longest response that slices in a reader's memory may serve (0: no slices)
    n_express: int = 0
    n_memory: int = 0  # answered from the readers' own memory, before any tier of this run
    express: ExpressUse = NO_EXPRESS
    guests: GuestUse = NO_GUESTS
    checks: int = 0  # checks of running nodes: ticks of the thesis policy, or utilisation checks
    tiers: str = ""  # S, X, L or R per request
    log: tuple[tuple[int, str, str], ...] = ()  # time [us], state, event (thesis policy)
    lambda_spans_us: tuple[tuple[int, int], ...] = ()  # from ready to end, per invocation that became ready
    redis_spans_us: tuple[tuple[int, int], ...] = ()  # from ready to stop

    @property
    def in_memory_pct(self) -> float:
        """Share of requests that a cache served, rounded to six decimals [%]."""
        return round(100 * (self.n_memory + self.n_lambda + self.n_redis) / self.n, 6) if self.n else 0.0

    @property
    def tiers_rle(self) -> str:
        """The tiers as a run-length code, such as `S2L5R3`."""
        return "".join(f"{tier}{sum(1 for _ in run)}" for tier, run in groupby(self.tiers))
