"""A trace of requests with their times and objects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

from burstcache.core.errors import InvalidSettingError
from burstcache_sim.traces.ranges import range_start

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class KeySample:
    """A sample of a log's keys, with all requests of each sampled key.

    Amounts that grow with the number of keys (requests, objects, bytes, function lifetimes) are 1/`rate` times as large
    in the whole log. Memory shared by keys is simulated at `rate` times its size. Times shared by keys (a node's runs,
    idle periods, the span) are not scaled. The whole log's number of requests is known exactly.

    Source:
        Waldspurger et al., "Efficient MRC construction with SHARDS", FAST 2015.
    """

    rate: float  # share of the keys that was kept, above 0 and below 1
    requests: int  # in the whole log


@dataclass(frozen=True, slots=True)
class Trace:
    """Requests in order of arrival.

    Times are sorted integer microseconds since the trace's own origin, and may repeat. A trace of one key has no
    `key_ids`. Each range of an object is a separate key.
    """

    arrivals_us: NDArray[np.int64]
    key_ids: NDArray[np.int32] | None = None  # index into `keys`, per request
    sizes_bytes: NDArray[np.int64] | None = None  # size of the object or range, per request
    keys: tuple[str, ...] = ()
    sample: KeySample | None = None  # None: the trace has all requests of the log
    sent_bytes: NDArray[np.int64] | None = None  # per body, less if truncated or not modified (None: equals the sizes)
    object_bytes: NDArray[np.int64] | None = None  # of the whole object of a range (None: equals the sizes)
    objects: tuple[str, ...] = ()  # the object of each key, if some keys are ranges (empty: equals the keys)
    assumed_ranges: int = 0  # requests for ranges without an offset; an object's ranges of equal length count as one
    origin_us: int | None = None  # time 0, since 1970 (None: unknown)
    has_public_clients: bool = False  # most addresses at the start of the log are public
    unsized_ranges: int = 0  # requests for ranges of objects of unknown size; the end of the last range is assumed

    @classmethod
    def of_times(cls, arrivals_us: Sequence[int] | NDArray[np.int64]) -> Self:
        """Return the trace of one key from its sorted arrivals [us].

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
        """Bytes sent for each body, or None if no size is known."""
        return self.sizes_bytes if self.sent_bytes is None else self.sent_bytes

    @property
    def whole_bytes(self) -> NDArray[np.int64] | None:
        """Size of the whole object per request, even for range requests [bytes], or None if no size is known."""
        return self.sizes_bytes if self.object_bytes is None else self.object_bytes

    def part(self, kept: NDArray[np.bool_] | slice) -> Trace:
        """Return the trace of the requests selected by a mask or a slice."""
        return replace(
            self,
            arrivals_us=self.arrivals_us[kept],
            key_ids=None if self.key_ids is None else self.key_ids[kept],
            sizes_bytes=None if self.sizes_bytes is None else self.sizes_bytes[kept],
            sent_bytes=None if self.sent_bytes is None else self.sent_bytes[kept],
            object_bytes=None if self.object_bytes is None else self.object_bytes[kept],
        )

    def range_places(self, count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the number of each key's object, and the offset of its range, -1 if not in the log [bytes].

        Args:
            count: How many of the first keys to look at.
        """
        import numpy as np

        _, objects = np.unique(self.objects[:count], return_inverse=True)
        starts = [
            range_start(key[len(name) :]) for key, name in zip(self.keys[:count], self.objects[:count], strict=True)
        ]
        return objects.astype(np.int64), np.array(starts, np.int64)

    def largest_bytes(self, each: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return each key's largest amount, by id [bytes].

        Args:
            each: An amount per request, such as the size [bytes].
        """
        import numpy as np

        ids = np.zeros(len(self), np.int64) if self.key_ids is None else self.key_ids
        largest = np.zeros(int(ids.max(initial=0)) + 1, np.int64)
        np.maximum.at(largest, ids, each)
        return largest


def exact_sum(values: NDArray[np.int64]) -> int:
    """Return the exact sum of up to 2**32 non-negative numbers, even if it exceeds 64 bits."""
    return (int((values >> 31).sum()) << 31) + int((values & (2**31 - 1)).sum())
