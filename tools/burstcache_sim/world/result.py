"""The result of a simulated run in exact integers; money comes later."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import Literal

Tier = Literal["S", "L", "R"]


@dataclass(frozen=True, slots=True)
class RunResult:
    """One run of one policy over one trace (`docs/understand/simulation.md`, "Billing")."""

    n: int  # requests up to the horizon
    n_s3: int
    n_lambda: int
    n_redis: int
    lambda_ms: int  # billed, each invocation rounded up
    invocations: int
    cold_starts: int
    redis_s: int  # billed, at least 60 s a run
    redis_starts: int  # boots begun
    s3_requests: int  # served by S3, cold starts, boots (with many keys: objects put into Redis)
    lambda_us_exact: int
    redis_us_exact: int
    end_us: int
    checks: int = 0  # ticker checks evaluated (thesis policy)
    tiers: str = ""  # per request S, L or R
    log: tuple[tuple[int, str, str], ...] = ()  # time [us], state, what happened (thesis policy)
    lambda_spans_us: tuple[tuple[int, int], ...] = ()  # ready to end, per invocation that became ready
    redis_spans_us: tuple[tuple[int, int], ...] = ()  # ready to stop

    @property
    def in_memory_pct(self) -> float:
        """Share of requests that a cache served, rounded to six decimals [%]."""
        return round(100 * (self.n_lambda + self.n_redis) / self.n, 6) if self.n else 0.0

    @property
    def tiers_rle(self) -> str:
        """The tiers as run-length code: `S2L5R3`."""
        return "".join(f"{tier}{sum(1 for _ in run)}" for tier, run in groupby(self.tiers))
