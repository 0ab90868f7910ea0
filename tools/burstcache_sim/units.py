"""Units: time in microseconds, and money in cost units that make every price of the thesis an integer."""

from __future__ import annotations

from burstcache.core.parameters import US_PER_S
from burstcache_sim.world.result import RunResult

US_PER_H = 3600 * US_PER_S
HOURS_PER_MONTH = 730

UNITS_PER_USD = 360_000_000_000_000  # one unit is 1e-11/3600 USD
LAMBDA_UNITS_PER_US = 6_012  # 1024 MB: 1.67e-8 USD per ms
REDIS_UNITS_PER_US = 1_340  # t2.micro: 0.0134 USD per hour
INVOCATION_UNITS = 72_000_000  # 2e-7 USD
S3_GET_UNITS = 154_800_000  # 4.3e-7 USD


def run_cost_units(result: RunResult) -> int:
    """Return a run's bill at the thesis's four prices [cost units].

    Source:
        Thesis, section 5.1.1; `docs/understand/simulation.md`, "Billing".
    """
    return (
        result.lambda_ms * 1_000 * LAMBDA_UNITS_PER_US
        + result.redis_s * US_PER_S * REDIS_UNITS_PER_US
        + result.invocations * INVOCATION_UNITS
        + result.s3_requests * S3_GET_UNITS
    )


def usd(units: int) -> float:
    """Convert cost units to dollars, as the quotient of two doubles to match the reference values."""
    return units / float(UNITS_PER_USD)
