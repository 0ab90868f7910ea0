"""Bands of a quantity over many random traces, and the percentile of a published value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Band:
    """Mean and quantiles of a quantity over traces."""

    mean: float
    p5: float
    p50: float
    p95: float
    standard_error: float  # of the mean

    def text(self, decimals: int) -> str:
        """Return mean and band as `12.3 (4.5 - 67.8)`."""
        return f"{self.mean:.{decimals}f} ({self.p5:.{decimals}f} - {self.p95:.{decimals}f})"


def band(values: Sequence[float] | NDArray[np.float64]) -> Band:
    """Return the band of at least one value, with linearly interpolated quantiles."""
    import numpy as np

    p5, p50, p95 = np.quantile(values, (0.05, 0.5, 0.95))
    standard_error = float(np.std(values)) / len(values) ** 0.5
    return Band(float(np.mean(values)), float(p5), float(p50), float(p95), standard_error)


def percentile(values: Sequence[float] | NDArray[np.float64], of: float) -> float:
    """Return the share of values below `of`, plus half of the values equal to it [%]."""
    import numpy as np

    array = np.asarray(values)
    tolerance = 1e-9 * max(1.0, abs(of))  # 17.073170 equals 14/82 in percent
    below, upto = np.mean(array < of - tolerance), np.mean(array <= of + tolerance)
    return float(50 * (below + upto))
