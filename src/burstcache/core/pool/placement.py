"""Which members hold the chunks of a slice: rendezvous hashing, so that no table has to be kept."""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Sequence


def holders(slice_name: bytes, members: Sequence[str], count: int) -> list[str]:
    """Return the members that hold a slice, in the order in which chunks are numbered when it is written.

    A member more or less changes at most one holder of a slice. What a holder has says which chunk it is, so the
    chunks of the others are found where they were.

    Args:
        slice_name: The slice's name.
        members: Names of all members, in any order, whether they are there or not.
        count: Chunks of the slice, at most as many as there are members.

    Source:
        Thaler, Ravishankar, "Using name-based mappings to increase hit rates", 1998: highest random weight.
    """

    def weight(member: str) -> bytes:
        return hashlib.blake2b(slice_name, key=member.encode()[:64], digest_size=8).digest()

    return heapq.nlargest(count, members, key=weight)
