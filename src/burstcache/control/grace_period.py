"""The grace period after a correction of the digest. At its end, no reader uses the old routes."""

from __future__ import annotations

from burstcache.adapters.clock import Clock
from burstcache.adapters.digest_table import DigestTable
from burstcache.core.digest import FORGOTTEN_S


def wait_for_readers(digest: DigestTable, hash_: str, clock: Clock, *, since_s: float) -> None:
    """Announce a write, then wait until every reader uses the corrected digest.

    The announcement comes first, so that readers' memories drop the object immediately, even after a direct write to
    the bucket, for which no caller waits. Memories may reload the old object during the wait, so the caller announces
    the write again afterwards.

    Args:
        digest: The digest, already corrected.
        hash_: The hash of the object's key.
        clock: The clock that measures the wait.
        since_s: The time of the correction by the monotonic clock [s].
    """
    digest.announce(hash_, now_us=clock.now_us())
    clock.sleep(max(since_s + FORGOTTEN_S - clock.monotonic_s(), 0))
