"""A trace: when each object was requested."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

from burstcache.core.errors import InvalidSettingError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Sample:
    """What a trace is a sample of: a log of which a share of the keys was kept, each with all of its requests.

    What grows with the keys (requests, objects, bytes, lives of functions) is 1/`rate` times as much in the whole log;
    a memory that keys share is simulated with `rate` times its size. What the keys share in time (how long a node runs,
    how often everything is idle, the span) stays as it is. The number of requests is known exactly.

    Source:
        Waldspurger et al., "Efficient MRC construction with SHARDS", FAST 2015.
    """

    rate: float  # share of the keys that was kept, above 0 and below 1
    requests: int  # of the whole log


@dataclass(frozen=True, slots=True)
class Trace:
    """Requests in the order of their arrival.

    Times are integer microseconds since the trace's own origin, sorted, repeats allowed. A trace of one key has no
    `key_ids`. A range of an object is a key of its own.
    """

    arrivals_us: NDArray[np.int64]
    key_ids: NDArray[np.int32] | None = None  # index into `keys`, per request
    sizes_bytes: NDArray[np.int64] | None = None  # of the object, or of the range of it, per request
    keys: tuple[str, ...] = ()
    sample: Sample | None = None  # None: these are all requests of the log
    sent_bytes: NDArray[np.int64] | None = (
        None  # of each body: fewer if it was cut off or not modified; None: the sizes
    )
    object_bytes: NDArray[np.int64] | None = None  # of the whole object that a range belongs to; None: the sizes
    objects: tuple[str, ...] = ()  # which each key is of, where some are of ranges; empty: the keys
    assumed_ranges: int = 0  # requests for ranges without an offset: equal lengths of an object count as the same range
    unsized_ranges: int = 0  # requests for ranges of objects whose size no row shows: as large as their ranges reach

    @classmethod
    def of_times(cls, arrivals_us: Sequence[int] | NDArray[np.int64]) -> Self:
        """Return the trace of one key that is requested at these instants, sorted [us].

        Raises:
            InvalidSettingError: A time exceeds 64 bits.
        """
        import numpy as np

        try:
            return cls(np.asarray(arrivals_us, np.int64))
        except OverflowError:
            raise InvalidSettingError(f"an arrival exceeds 64 bits: expected times of at most {2**63 - 1} us") from None

    def __len__(self) -> int:
        return len(self.arrivals_us)

    @property
    def bodies_bytes(self) -> NDArray[np.int64] | None:
        """Bytes of each body that were sent; None if nothing shows a size."""
        return self.sizes_bytes if self.sent_bytes is None else self.sent_bytes

    @property
    def whole_bytes(self) -> NDArray[np.int64] | None:
        """Size of the object that was asked for, or of which a range was; None if nothing shows a size [bytes]."""
        return self.sizes_bytes if self.object_bytes is None else self.object_bytes

    def part(self, kept: NDArray[np.bool_] | slice) -> Trace:
        """Return some of the requests, by a flag each or by a span of their numbers."""
        return replace(
            self,
            arrivals_us=self.arrivals_us[kept],
            key_ids=None if self.key_ids is None else self.key_ids[kept],
            sizes_bytes=None if self.sizes_bytes is None else self.sizes_bytes[kept],
            sent_bytes=None if self.sent_bytes is None else self.sent_bytes[kept],
            object_bytes=None if self.object_bytes is None else self.object_bytes[kept],
        )

    def largest_bytes(self, each: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the largest of some amounts of each key, by id [bytes].

        Args:
            each: An amount per request, such as its size [bytes].
        """
        import numpy as np

        ids = np.zeros(len(self), np.int64) if self.key_ids is None else self.key_ids
        largest = np.zeros(int(ids.max(initial=0)) + 1, np.int64)
        np.maximum.at(largest, ids, each)
        return largest


def exact_sum(values: NDArray[np.int64]) -> int:
    """Return the sum of up to 2**32 numbers, none below 0, that may need more than 64 bits."""
    return (int((values >> 31).sum()) << 31) + int((values & (2**31 - 1)).sum())
