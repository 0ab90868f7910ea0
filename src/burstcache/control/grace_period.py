"""The grace period after a correction of the digest. At its end, no reader uses the old routes."""

from __future__ import annotations

from collections.abc import Sequence

from burstcache.adapters.clock import Clock
from burstcache.adapters.digest_table import DigestTable
from burstcache.core.digest import FORGOTTEN_S


def wait_for_readers(digest: DigestTable, hashes: Sequence[str], clock: Clock, *, since_s: float) -> None:
    """Announce writes, then wait until every reader uses the corrected digest.

    The announcement comes first, so that readers' memories drop the objects immediately, even after direct writes to
    the bucket, for which no caller waits. Memories may reload old objects during the wait, so the caller announces the
    writes again afterwards.

    Args:
        digest: The digest, already corrected.
        hashes: The hashes of the objects' keys.
        clock: The clock that measures the wait.
        since_s: The time of the correction by the monotonic clock [s].
    """
    digest.announce(hashes, now_us=clock.now_us())
    clock.sleep(max(since_s + FORGOTTEN_S - clock.monotonic_s(), 0))
