"""InfiniCache's cost model: objects in pieces over many functions, kept warm and backed up.

Source:
    Wang 2020, section 4.3, formulas 4 to 6; the configuration of section 5.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from burstcache.core.pool.costs import MemberPrice, PoolHour


@dataclass(frozen=True, slots=True)
class InfiniCache:
    """A pool of functions. Defaults are the paper's, except for AWS's rounding to a millisecond since 2020."""

    functions: int = 400
    memory_gb: Fraction = Fraction(3, 2)
    data_chunks: int = 10
    parity_chunks: int = 2
    serve_ms: int = 100  # of one invocation; the paper measures about 13 ms more than the transfer of a chunk
    warm_up_ms: int = 5  # "a few ms"
    backup_ms: int = 1_850  # the difference of the paper's bills with and without backup (figure 13)
    warm_up_every_min: int = 1
    backup_every_min: int = 5
    billed_in_ms: int = 1  # 100 in the paper's time

    @property
    def chunks(self) -> int:
        """The number of pieces of an object, and of invocations per GET."""
        return self.data_chunks + self.parity_chunks


def infinicache_hour(
    pool: InfiniCache, gets_per_h: Fraction, *, request_usd: Fraction, gb_s_usd: Fraction, has_backup: bool = True
) -> PoolHour:
    """Return the bill of an hour at a rate of GETs.

    Args:
        pool: The functions.
        gets_per_h: GETs of objects per hour; each invokes a function per chunk.
        request_usd: Price of one invocation [USD].
        gb_s_usd: Price of a gigabyte for a second [USD].
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
    """Return the smallest pool of the paper's functions that holds this many bytes with their parity."""
    paper = InfiniCache()
    with_parity = Fraction(stored_bytes * paper.chunks, paper.data_chunks)
    functions = -(-with_parity // (paper.memory_gb * 1024**3))
    return InfiniCache(functions=max(paper.chunks, int(functions)))
