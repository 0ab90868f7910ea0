"""Exact sums of products in compiled code, where a product of two 64-bit integers may need 124 bits.

numba's integers overflow silently. For example, 1 GiB stored for 2.4 hours is 2**63 byte-microseconds. A sum is split
into limbs of 31 bits, least significant first, so that no product of two limbs overflows.
"""

from __future__ import annotations

from burstcache_sim.engine.books import Integers
from burstcache_sim.engine.compiled import uncounted

LIMBS = 4  # the last limb has all higher bits, for sums up to 2**155
_BITS = 31
_MASK = (1 << _BITS) - 1


@uncounted
def add_product(limbs: Integers, one: int, other: int) -> None:
    """Add the product of two integers to a sum.

    Args:
        limbs: The sum.
        one: The first factor, from 0 to 2**62 - 1.
        other: The second factor, in the same range.
    """
    one_low, one_high, other_low, other_high = one & _MASK, one >> _BITS, other & _MASK, other >> _BITS
    low = one_low * other_low + limbs[0]
    cross = one_high * other_low + (low >> _BITS)
    middle = one_low * other_high + (cross & _MASK) + limbs[1]
    high = one_high * other_high + (cross >> _BITS) + (middle >> _BITS) + limbs[2]
    limbs[0], limbs[1], limbs[2] = low & _MASK, middle & _MASK, high & _MASK
    limbs[3] += high >> _BITS


def sum_of(limbs: Integers) -> int:
    """Convert a sum to an integer."""
    return sum(limb << (_BITS * place) for place, limb in enumerate(limbs.tolist()))
