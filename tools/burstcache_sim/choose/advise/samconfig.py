"""A recommendation as `samconfig.toml` takes it: the template's parameters."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import TYPE_CHECKING

from burstcache.core.errors import InvalidSettingError
from burstcache.core.parameters import US_PER_S, Parameters, live_parameters
from burstcache.core.prices import PriceSheet
from burstcache_sim.bill.setup import Setup
from burstcache_sim.choose.tune.candidates import (
    TEMPLATE_RATE,
    TEMPLATE_SENSITIVITY,
    overrides_text,
)

if TYPE_CHECKING:
    from burstcache_sim.traces.trace import Trace
    from burstcache_sim.world.result import RunResult

# What the template accepts; a test compares the two.
INSTANCE_TYPES = (
    *("t4g.nano", "t4g.micro", "t4g.small", "t4g.medium", "t4g.large"),
    *("m7g.medium", "m7g.large", "r7g.medium", "r7g.large", "r8g.medium", "r8g.large"),
)
MEMORY_MB = range(128, 10_241)
# A zone with S3 Express in each region that a sheet has its prices of.
EXPRESS_ZONES = {"us-east-1": "use1-az4"}
BUCKET = "your-bucket-name"  # to be replaced
_CERTIFICATE = "arn:aws:acm:us-east-1:123456789012:certificate/yours"  # to be replaced
_GUESTS_POLICY = "breakeven"
_LINE = 77  # characters of the overrides: an indent and a backslash make eighty
_MAX_HOT_KEYS, _THROTTLE_PER_S, _COLD_START_US = 2, 25, 600_000


def check_deployable(setup: Setup) -> None:
    """Raise `InvalidSettingError` if the template cannot deploy a setup."""
    if setup.instance_type not in INSTANCE_TYPES:
        raise InvalidSettingError(f"--instance-type {setup.instance_type}: expected one of {', '.join(INSTANCE_TYPES)}")
    if setup.cache_memory_mb not in MEMORY_MB:
        raise InvalidSettingError(f"--cache-memory-mb {setup.cache_memory_mb}: expected 128 to 10240")


def template_parameters(parameters: Parameters, setup: Setup, *, hot_keys: int, per_s: int) -> dict[str, str]:
    """Return the template's parameters for a policy.

    Args:
        parameters: The policy, as `candidates.overrides_text` can write it.
        setup: How the system is deployed.
        hot_keys: The largest number of cache functions alive at once.
        per_s: Requests in the busiest second.

    Raises:
        InvalidSettingError: The live system would read something else from the text.
    """
    overrides = overrides_text(parameters)
    read = live_parameters(rate=TEMPLATE_RATE, sensitivity=TEMPLATE_SENSITIVITY, overrides=overrides)
    if read != parameters:
        raise InvalidSettingError(f"policy override {overrides!r}: expected {parameters}, it is read as {read}")
    values = {
        "Policy": "thesis",
        "Relay": setup.relay,
        "PolicyRatePerMin": TEMPLATE_RATE,
        "PolicySensitivity": TEMPLATE_SENSITIVITY,
        "PolicyOverrides": overrides,
        "MaxHotKeys": str(max(_MAX_HOT_KEYS, hot_keys)),
        "CacheMemoryMb": str(setup.cache_memory_mb),
        "RedisInstanceType": setup.instance_type,
    }
    return _bucket(setup) | values | _throttle(setup, per_s)


def setup_parameters(
    setup: Setup, policy: str, prices: PriceSheet, *, usd_per_hit: Fraction, hot_keys: int, per_s: int
) -> dict[str, str]:
    """Return the template's parameters for a setup in which nothing is decided, or nodes are judged by their use.

    Args:
        setup: How the system is deployed.
        policy: What judges the nodes; empty if nothing does.
        prices: Of the region, whose first zone with S3 Express is taken.
        usd_per_hit: What a saved wait is worth, which decides what is copied [USD].
        hot_keys: The largest number of cache functions alive at once, if there is a relay.
        per_s: Requests in the busiest second.
    """
    values = {
        "Relay": setup.relay,
        "RedisNodeCount": str(setup.nodes),
        "HitValueUsdPerMillion": f"{float(usd_per_hit * 10**6):.6f}".rstrip("0").rstrip("."),
    }
    if setup.nodes:  # guests are taken in under any policy but the thesis's
        values |= {"RedisAlwaysOnNodes": str(setup.always_on_nodes), "RedisInstanceType": setup.instance_type}
        values["Policy"] = policy or _GUESTS_POLICY
    if setup.relay != "none":
        values |= {"MaxHotKeys": str(max(_MAX_HOT_KEYS, hot_keys)), "CacheMemoryMb": str(setup.cache_memory_mb)}
    if setup.express:
        values["ExpressZone"] = EXPRESS_ZONES[prices.region]
    return _bucket(setup) | values | _throttle(setup, per_s)


def _bucket(setup: Setup) -> dict[str, str]:
    """Return what opens a bucket of one's own to nobody but those who may read it: the template refuses less."""
    values = {"OriginBucketName": BUCKET, "FrontDoor": setup.front_door}
    if setup.front_door == "http-api":
        return values | {"ApiAuth": "iam"}
    return values | {"AlbScheme": "internal", "CertificateArn": _CERTIFICATE}


def _throttle(setup: Setup, per_s: int) -> dict[str, str]:
    if setup.front_door != "http-api" or per_s <= _THROTTLE_PER_S:
        return {}
    return {"ThrottleRatePerS": str(per_s), "ThrottleBurstRequests": str(2 * per_s)}


def toml_text(values: dict[str, str]) -> str:
    """Return the lines of `samconfig.toml` that set the template's parameters: one string, broken behind `\\`."""
    lines = [""]
    for word in re.findall(r"[^ ,]+[ ,]?", " ".join(f'{name}="{value}"' for name, value in values.items())):
        if len(lines[-1]) + len(word) > _LINE:
            lines.append("")
        lines[-1] += word
    broken = "\\\n  ".join(lines)
    return f'[default.deploy.parameters]\nparameter_overrides = """\\\n  {broken}\\\n"""'


def hot_keys(result: RunResult) -> int:
    """Return the largest number of a run's cache functions alive at once, their starts included."""
    ends = [(end_us, -1) for _, end_us in result.lambda_spans_us]
    changes = sorted(ends + [(max(0, ready_us - _COLD_START_US), 1) for ready_us, _ in result.lambda_spans_us])
    now = most = 0
    for _, change in changes:
        now += change
        most = max(most, now)
    return most


def busiest_second(trace: Trace) -> int:
    """Return the number of requests in the busiest second."""
    import numpy as np

    if not len(trace):
        return 0
    seconds = trace.arrivals_us // US_PER_S
    return int(np.unique(seconds, return_counts=True)[1].max())
