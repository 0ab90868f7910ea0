"""InfiniCache's cost model: chunks of objects in many functions, which are kept warm and backed up.

Source:
    Wang 2020, section 4.3, formulas 4 to 6, and the configuration of section 5.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from burstcache.core.pool.costs import MemberPrice, PoolHour


@dataclass(frozen=True, slots=True)
class InfiniCache:
    """A pool of functions. Defaults are from the paper, except for billing per millisecond (since 2020)."""

    functions: int = 400
    memory_gb: Fraction = Fraction(3, 2)
    data_chunks: int = 10
    parity_chunks: int = 2
    serve_ms: int = 100  # duration of an invocation (the paper measures about 13 ms more than a chunk's transfer)
    warm_up_ms: int = 5  # "a few ms"
    backup_ms: int = 1_850  # difference between the paper's bills with and without backup (figure 13)
    warm_up_every_min: int = 1
    backup_every_min: int = 5
    billed_in_ms: int = 1  # 100 when the paper was written

    @property
    def chunks(self) -> int:
        """Chunks of an object, and invocations per GET."""
        return self.data_chunks + self.parity_chunks


def infinicache_hour(
    pool: InfiniCache, gets_per_h: Fraction, *, request_usd: Fraction, gb_s_usd: Fraction, has_backup: bool = True
) -> PoolHour:
    """Return the hourly bill at a GET rate.

    Args:
        pool: The functions.
        gets_per_h: GETs of objects per hour, each with one invocation per chunk.
        request_usd: Price of one invocation [USD].
        gb_s_usd: Price of a GB-second [USD].
        has_backup: Whether functions copy new objects to their peers.
    """
    price = MemberPrice(pool.memory_gb, request_usd, gb_s_usd, billed_in_ms=pool.billed_in_ms)
    backups_per_h = Fraction(60, pool.backup_every_min) * pool.functions if has_backup else Fraction(0)
    return PoolHour(
        serving_usd=price.invocations_usd(gets_per_h * pool.chunks, pool.serve_ms),
        warm_up_usd=price.invocations_usd(Fraction(60, pool.warm_up_every_min) * pool.functions, pool.warm_up_ms),
        backup_usd=price.invocations_usd(backups_per_h, pool.backup_ms),
    )


def pool_for(stored_bytes: int) -> InfiniCache:
    """Return the smallest pool of the paper's functions that fits the bytes and their parity."""
    paper = InfiniCache()
    with_parity = Fraction(stored_bytes * paper.chunks, paper.data_chunks)
    functions = -(-with_parity // (paper.memory_gb * 1024**3))
    return InfiniCache(functions=max(paper.chunks, int(functions)))
