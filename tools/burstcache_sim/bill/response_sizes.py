"""Response sizes of a log: their mean, over all responses or over responses small enough for a cache."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from burstcache_sim.traces.trace import Trace

FAST_BYTES = 2 * 1024**2  # start of a response, which S3 sends faster than the rest (`bill.latency_model`)


@dataclass(frozen=True, slots=True)
class ResponseBytes:
    """The mean size of several responses, and the mean size of their first 2 MiB."""

    mean: float = 0.0
    fast: float = 0.0

    def remainder(self, *parts: tuple[float, ResponseBytes]) -> ResponseBytes:
        """Return the mean size of responses outside the parts, given each part's share of all responses."""
        left = 1 - sum(share for share, _ in parts)
        if left <= 0:
            return self
        mean, fast = (
            max(0.0, (getattr(self, name) - sum(share * getattr(part, name) for share, part in parts)) / left)
            for name in ("mean", "fast")
        )
        return ResponseBytes(mean, min(fast, mean))


NOTHING = ResponseBytes()


@dataclass(frozen=True, slots=True)
class ResponseSizes:
    """The sizes of a log's responses, sorted by the size of the requested object or range."""

    requested_bytes: NDArray[np.int64]
    totals: NDArray[np.float64]  # cumulative sizes of whole responses and of their first 2 MiB

    def up_to(self, largest_bytes: float | None) -> ResponseBytes:
        """Return the mean size of responses for objects up to a size limit (None: no limit)."""
        import numpy as np

        count = len(self.requested_bytes)
        if largest_bytes is not None:
            count = int(np.searchsorted(self.requested_bytes, largest_bytes, side="right"))
        return ResponseBytes(*(self.totals[:, count - 1] / count).tolist()) if count else NOTHING


def response_sizes(trace: Trace, *, object_bytes: int, whole: bool = False) -> ResponseSizes:
    """Return the sent sizes of a trace's responses.

    Args:
        trace: Requests, at least one.
        object_bytes: Size of an object of unknown size [bytes].
        whole: Whether to sort ranges by the size of their whole object, as for a cache of whole objects.
    """
    import numpy as np

    sent, sizes = trace.bodies_bytes, trace.whole_bytes if whole else trace.sizes_bytes
    if sent is None or sizes is None:
        sent = requested_bytes = np.full(len(trace), object_bytes, np.int64)
    else:
        largest = trace.largest_bytes(sizes)
        requested_bytes = np.full(len(trace), largest[0]) if trace.key_ids is None else largest[trace.key_ids]
    order = np.argsort(requested_bytes, kind="stable")
    sorted_bytes = sent[order].astype(np.float64)
    totals = np.cumsum([sorted_bytes, np.minimum(sorted_bytes, FAST_BYTES)], axis=1)
    return ResponseSizes(requested_bytes[order], totals)
