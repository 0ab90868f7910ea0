"""A trace: when which object was asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Trace:
    """Requests in the order of their arrival.

    Times are integer microseconds since the trace's own origin, sorted, doubles allowed. A trace of one key has no
    `key_ids`.
    """

    arrivals_us: NDArray[np.int64]
    key_ids: NDArray[np.int32] | None = None  # index into `keys`, per request
    sizes_bytes: NDArray[np.int64] | None = None  # of the object, per request
    keys: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.arrivals_us)
