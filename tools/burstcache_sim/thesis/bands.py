"""Where a published value lies among the values of many random traces."""

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
    standard_error: float  # of the mean: how far another set of as many seeds would lie

    def text(self, decimals: int) -> str:
        """Return mean and band as `12.3 (4.5 - 67.8)`."""
        return f"{self.mean:.{decimals}f} ({self.p5:.{decimals}f} - {self.p95:.{decimals}f})"


def band(values: Sequence[float] | NDArray[np.float64]) -> Band:
    """Return the band of at least one value, quantiles interpolated linearly."""
    import numpy as np

    p5, p50, p95 = np.quantile(values, (0.05, 0.5, 0.95))
    standard_error = float(np.std(values)) / len(values) ** 0.5
    return Band(float(np.mean(values)), float(p5), float(p50), float(p95), standard_error)


def percentile(values: Sequence[float] | NDArray[np.float64], of: float) -> float:
    """Return the share of values below `of`, and half of those equal to it [%]."""
    import numpy as np

    found = np.asarray(values)
    tolerance = 1e-9 * max(1.0, abs(of))  # 17.073170 and 14/82 are the same
    below, upto = np.mean(found < of - tolerance), np.mean(found <= of + tolerance)
    return float(50 * (below + upto))
