"""Part read: the progress of a read of adjacent slices, whose parts arrive from several tiers and threads."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from threading import Lock

from burstcache.core.slices import Slice, Version
from burstcache.serve.buffers import ResultBuffer
from burstcache.serve.parallel_parts import TIERS, slowest
from burstcache.serve.read_stats import ReadCounter


class PartRead:
    """A read of a part of an object.

    Attributes:
        version: The version of the object.
        start: Offset of the part in the object [bytes].
        end: End of the part in the object, exclusive [bytes].
        slices: The slices that the part touches.
        tier: The slowest tier that has been needed so far.
    """

    def __init__(
        self,
        version: Version,
        start: int,
        end: int,
        slices: Sequence[Slice],
        counter: ReadCounter,
        into: memoryview | None = None,
    ) -> None:
        """Begin without any bytes.

        Args:
            version: As the attribute.
            start: As the attribute.
            end: As the attribute.
            slices: As the attribute.
            counter: Counts the read of each slice.
            into: Destination, of the part's length. None: memory of the read's own, for `result`.
        """
        self.version = version
        self.start, self.end = start, end
        self.slices = slices
        self.tier = TIERS[0]
        self._counter = counter
        self._into = into
        self._buffer: ResultBuffer | None = None
        self._body: bytes | None = None  # of a single slice, which needs no buffer
        self._left = len(slices)
        self._done: Future[str] | None = None
        self._tiers: set[str] = set()  # that had any slice so far
        self._lock = Lock()

    @property
    def into(self) -> memoryview:
        """The destination."""
        with self._lock:
            if self._into is None:
                self._buffer = ResultBuffer(self.end - self.start)
                self._into = self._buffer.into
            return self._into

    def future(self) -> Future[str]:
        """Return a future that resolves to the slowest tier once all wanted bytes have arrived."""
        with self._lock:
            if self._done is None:
                self._done = Future()
                if self._left == 0:
                    self._done.set_result(self.tier)
            return self._done

    def part(self, slice_: Slice) -> memoryview:
        """Return the part of the destination for the wanted part of a slice."""
        first, last = self._wanted(slice_)
        return self.into[first - self.start : last - self.start]

    def take(self, slice_: Slice, body: bytes | memoryview, tier: str) -> None:
        """Take the wanted part from the whole body of a slice."""
        first, last = (offset - slice_.start for offset in self._wanted(slice_))
        if self._into is None and len(self.slices) == 1:
            self._body = bytes(body[first:last])  # no copy if all of `bytes` is wanted
        else:
            self.part(slice_)[:] = memoryview(body)[first:last]
        self.received(slice_, tier)

    def received(self, slice_: Slice, tier: str) -> None:
        """Count the wanted part of a slice, which has arrived."""
        first, last = self._wanted(slice_)
        with self._lock:
            is_first = tier not in self._tiers
            self._tiers.add(tier)
        self._counter.count(tier, last - first, waits=int(is_first))
        with self._lock:
            self.tier = slowest((self.tier, tier))
            self._left -= 1
            if self._left == 0 and self._done is not None and not self._done.done():
                self._done.set_result(self.tier)

    def fail(self, error: BaseException) -> None:
        """Raise an error from the future, unless all wanted bytes have arrived."""
        with self._lock:
            if self._done is not None and not self._done.done():
                self._done.set_exception(error)

    def result(self) -> bytes:
        """Return the bytes of a read without a destination, once all of them have arrived."""
        if self._body is not None:
            return self._body
        assert self._buffer is not None
        return self._buffer.value()

    def _wanted(self, slice_: Slice) -> tuple[int, int]:
        """Return start and end of the wanted part of a slice in the object [bytes]."""
        return max(slice_.start, self.start), min(slice_.end, self.end)
