"""The Express tier: copies that readers make, by their own counts, of what they have read from S3."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import partial

from cachetools import LRUCache

from burstcache.adapters.clock import Clock, Instant, instant, seconds_since
from burstcache.adapters.express_copies import ExpressCopies
from burstcache.adapters.patience import InTime, Patience
from burstcache.core.express import CopyCounts, ExpressRule
from burstcache.serve.tally import Served
from burstcache.serve.tier import Fill
from burstcache.web.entry import Entry, decode, encode
from burstcache.web.request import Request

_MOST_BYTES = 1 << 26  # of a copy, which is in memory twice while it is put
_MOST_KEYS = 1 << 15  # whose reads are counted, some 10 MB
# What was seen there may be gone after a day, when S3 expires tombstones: no copy may be put that late. A copy that
# nobody replaces stays for a day at least, too.
_PUT_WITHIN_S = 60.0


class ExpressTier:
    """One directory bucket, asked by GETs and HEADs. Threads may share it."""

    def __init__(
        self,
        copies: ExpressCopies,
        rule: ExpressRule,
        clock: Clock,
        *,
        max_object_bytes: int,
        patience: Patience | None = None,
    ) -> None:
        """Know no key yet.

        Args:
            copies: The bucket.
            rule: When a copy pays.
            clock: Tells how long ago the bucket was asked.
            max_object_bytes: The largest object that is copied, if it pays [bytes].
            patience: How long a read waits for a copy; None: as long as the client of S3 does.
        """
        self._copies = copies
        self._counts: CopyCounts[str] = CopyCounts(rule, LRUCache(_MOST_KEYS))
        self._clock = clock
        self._in_time = InTime(patience, clock) if patience is not None else None
        self._max_object_bytes = min(max_object_bytes, rule.most_bytes, _MOST_BYTES)
        self._lock = threading.Lock()

    def fetch(self, request: Request) -> Entry | Fill | None:
        """Return the object, or what copies it, if it pays, when it has been read from S3; None for a HEAD in vain.

        Raises:
            ServiceError: S3 Express does not answer.
            ValueError: What lies there is no entry.
        """
        is_head, asked = request.method == "HEAD", instant(self._clock)
        read = partial(self._copies.read, request.hash, only_meta=is_head)
        found = read() if self._in_time is None else self._in_time.run(lambda received: read(received=received))
        if found is None or found.data is None:
            replaces = found.etag if found is not None else ""
            put = partial(self._fill, request.hash, asked, replaces)
            return None if is_head else Fill(put, self._max_object_bytes)
        entry = decode(found.data)
        if is_head:
            body_bytes = found.size_bytes - (len(found.data) - len(entry.body))
            if entry.size_bytes != body_bytes:
                raise ValueError(f"a body of {body_bytes} bytes, whose content-length is {entry.size_bytes}")
            return entry.without_body()
        with self._lock:
            self._counts.read_copy(request.hash, entry.size_bytes)
        return entry

    def count(self, batch: Sequence[Served]) -> None:
        """Do nothing: a copy that memory serves need not be kept."""

    def close(self) -> None:
        """Do nothing: the connections are the client's."""

    def _fill(self, hash_: str, asked: Instant, replaces: str, entry: Entry) -> None:
        with self._lock:
            pays = self._counts.read_s3(hash_, entry.size_bytes)
        is_in_time = seconds_since(self._clock, asked) <= _PUT_WITHIN_S
        if pays and is_in_time and self._copies.put(hash_, encode(entry), replaces=replaces):
            with self._lock:
                self._counts.note_put(hash_)
