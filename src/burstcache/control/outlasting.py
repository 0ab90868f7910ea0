"""Waiting until readers no longer go by what the digest said before it was corrected."""

from __future__ import annotations

from burstcache.adapters.clock import Clock
from burstcache.adapters.digest_table import DigestTable
from burstcache.core.digest import FORGOTTEN_S


def outlast_readers(digest: DigestTable, hash_: str, clock: Clock, *, since_s: float) -> None:
    """Return once every reader that asks for an object goes by the corrected digest.

    Memories let go of the object at once: after a write straight to the bucket, nobody waits for this. What they fetch
    meanwhile may be old yet, so the write is announced again afterwards.

    Args:
        digest: Has been corrected.
        hash_: The object's key, hashed.
        clock: Tells the time.
        since_s: When it was corrected, by the monotonic clock [s].
    """
    digest.announce(hash_, now_us=clock.now_us())
    clock.sleep(max(since_s + FORGOTTEN_S - clock.monotonic_s(), 0))
