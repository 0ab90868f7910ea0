"""The sizes of a log's answers: their mean, over all of them or over those that something may hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from burstcache_sim.traces.trace import Trace

FAST_BYTES = 2 * 1024**2  # of an answer, which S3 sends faster than the rest (`bill.clock`)


@dataclass(frozen=True, slots=True)
class AnswerBytes:
    """The mean size of some answers, and that of their first 2 MiB."""

    mean: float = 0.0
    fast: float = 0.0

    def rest(self, *parts: tuple[float, AnswerBytes]) -> AnswerBytes:
        """Return the mean of the answers that are left when others, each a share of all, are taken away."""
        left = 1 - sum(share for share, _ in parts)
        if left <= 0:
            return self
        mean, fast = (
            max(0.0, (getattr(self, name) - sum(share * getattr(one, name) for share, one in parts)) / left)
            for name in ("mean", "fast")
        )
        return AnswerBytes(mean, min(fast, mean))


NOTHING = AnswerBytes()


@dataclass(frozen=True, slots=True)
class AnswerSizes:
    """The sizes of a log's answers, sorted by the size of what they are of: objects, and ranges of objects."""

    of_bytes: NDArray[np.int64]
    totals: NDArray[np.float64]  # of all answers up to each, and of their first 2 MiB

    def up_to(self, largest_bytes: float | None) -> AnswerBytes:
        """Return the mean of the answers of up to a size; None for all."""
        import numpy as np

        count = len(self.of_bytes)
        if largest_bytes is not None:
            count = int(np.searchsorted(self.of_bytes, largest_bytes, side="right"))
        return AnswerBytes(*(self.totals[:, count - 1] / count).tolist()) if count else NOTHING


def answer_sizes(trace: Trace, *, object_bytes: int, whole: bool = False) -> AnswerSizes:
    """Return the sizes of a trace's answers, as far as they were sent.

    Args:
        trace: Requests, at least one.
        object_bytes: Size of an object whose size is not known [bytes].
        whole: Whether a range counts by its object, as for a cache that holds whole objects.
    """
    import numpy as np

    sent, sizes = trace.bodies_bytes, trace.whole_bytes if whole else trace.sizes_bytes
    if sent is None or sizes is None:
        sent = of_bytes = np.full(len(trace), object_bytes, np.int64)
    else:
        largest = trace.largest_bytes(sizes)
        of_bytes = np.full(len(trace), largest[0]) if trace.key_ids is None else largest[trace.key_ids]
    order = np.argsort(of_bytes, kind="stable")
    sorted_bytes = sent[order].astype(np.float64)
    return AnswerSizes(of_bytes[order], np.cumsum([sorted_bytes, np.minimum(sorted_bytes, FAST_BYTES)], axis=1))
