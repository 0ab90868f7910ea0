"""A trace: when each object was requested."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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
