"""Placement of chunks on members by rendezvous hashing, which needs no table."""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Sequence


def holders(slice_name: bytes, members: Sequence[str], count: int) -> list[str]:
    """Return the members that hold a slice, in the order in which a write assigns chunk numbers.

    Adding or removing a member changes at most one holder of a slice. Each chunk carries its number, so the chunks of
    the other holders remain readable.

    Args:
        slice_name: The slice's name.
        members: Names of all members, in any order, whether they are running or not.
        count: Number of chunks of the slice, at most the number of members.

    Source:
        Thaler, Ravishankar, "Using name-based mappings to increase hit rates", 1998: highest random weight.
    """

    def weight(member: str) -> bytes:
        return hashlib.blake2b(slice_name, key=member.encode()[:64], digest_size=8).digest()

    return heapq.nlargest(count, members, key=weight)
