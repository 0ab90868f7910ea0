"""The `samconfig.toml` lines of a recommendation, which set the template's parameters."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING

from burstcache.core.errors import InvalidSettingError
from burstcache.core.node_kinds import FARGATE_SIZES, NODE_KINDS, NODE_TYPES
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

INSTANCE_TYPES = NODE_TYPES  # the instance types that the template allows; a test compares both lists
_TASKS = tuple(f"{kind}:{size}" for kind in NODE_KINDS[1:] for size in FARGATE_SIZES)
MEMORY_MB = range(128, 10_241)
# One zone with S3 Express for each region with S3 Express in its price sheet.
EXPRESS_ZONES = {"us-east-1": "use1-az4"}
BUCKET = "your-bucket-name"  # to be replaced
_CERTIFICATE = "arn:aws:acm:us-east-1:123456789012:certificate/yours"  # to be replaced
_ALWAYS_ON_POLICY = "breakeven"
_LINE = 77  # characters of overrides per line (80 with the indent and a backslash)
_MAX_HOT_KEYS, _MOST_HOT_KEYS, _THROTTLE_PER_S, _COLD_START_US = 2, 5_000, 25, 600_000


def check_deployable(setup: Setup) -> None:
    """Raise `InvalidSettingError` if the template cannot deploy a setup."""
    if setup.instance_type not in INSTANCE_TYPES + _TASKS:
        accepted = ", ".join(INSTANCE_TYPES + _TASKS)
        raise InvalidSettingError(f"--instance-type {setup.instance_type}: expected one of {accepted}")
    if setup.cache_memory_mb not in MEMORY_MB:
        raise InvalidSettingError(f"--cache-memory-mb {setup.cache_memory_mb}: expected 128 to 10240")


def template_parameters(parameters: Parameters, setup: Setup, *, hot_keys: int, per_s: int) -> dict[str, str]:
    """Return the template's parameters for the thesis's policy.

    Args:
        parameters: Policy parameters that `candidates.overrides_text` can write.
        setup: The deployment.
        hot_keys: The largest number of concurrent cache functions.
        per_s: Requests in the busiest second.

    Raises:
        InvalidSettingError: The live system would parse the text into other parameters.
    """
    overrides = overrides_text(parameters)
    read = live_parameters(rate=TEMPLATE_RATE, sensitivity=TEMPLATE_SENSITIVITY, overrides=overrides)
    if read != parameters:
        raise InvalidSettingError(f"policy override {overrides!r}: expected {parameters}, but it parses to {read}")
    values = {
        "Policy": "thesis",
        "Relay": setup.relay,
        "PolicyRatePerMin": TEMPLATE_RATE,
        "PolicySensitivity": TEMPLATE_SENSITIVITY,
        "PolicyOverrides": overrides,
        "MaxHotKeys": _max_hot_keys(hot_keys),
        "CacheMemoryMb": str(setup.cache_memory_mb),
    }
    return _bucket(setup) | values | _node(setup) | _throttle(setup, per_s) | _events(setup)


def setup_parameters(
    setup: Setup, policy: str, prices: PriceSheet, *, usd_per_hit: Fraction, hot_keys: int, per_s: int
) -> dict[str, str]:
    """Return the template's parameters for a setup without a policy, or with nodes that a policy boots and stops.

    Args:
        setup: The deployment.
        policy: Policy of the nodes, if any.
        prices: Prices of the region, which selects the zone from `EXPRESS_ZONES`.
        usd_per_hit: Hit value, which determines the copies to S3 Express [USD].
        hot_keys: The largest number of concurrent cache functions, if there is a relay.
        per_s: Requests in the busiest second.
    """
    values = {
        "Relay": setup.relay,
        "RedisNodeCount": str(setup.nodes),
        "HitValueUsdPerMillion": f"{float(usd_per_hit * 10**6):.6f}".rstrip("0").rstrip("."),
    }
    if setup.nodes:  # read-through entries need a policy other than the thesis's
        values |= {"RedisAlwaysOnNodes": str(setup.always_on_nodes)} | _node(setup)
        values["Policy"] = policy or _ALWAYS_ON_POLICY
    if setup.relay != "none":
        values |= {"MaxHotKeys": _max_hot_keys(hot_keys), "CacheMemoryMb": str(setup.cache_memory_mb)}
    if setup.express:
        values["ExpressZone"] = EXPRESS_ZONES[prices.region]
    return _bucket(setup) | values | _throttle(setup, per_s) | _events(setup)


def template_of(setup: Setup, values: dict[str, str], deployed: Mapping[str, str]) -> dict[str, str]:
    """Return the parameters that turn a deployed stack into a setup.

    Args:
        setup: The deployment.
        values: Its parameters in a new stack.
        deployed: The stack's present parameters.
    """
    values = dict(values)
    if not setup.express and deployed.get("ExpressZone"):
        values["ExpressZone"] = ""
    if values.get("RedisOn") == deployed.get("RedisOn", "ec2"):  # a stack without the parameter has instances
        values.pop("RedisOn", None)
    values["OriginEvents"] = setup.origin_events
    if setup.origin_events == deployed.get("OriginEvents", "direct"):  # a stack without the parameter has no queue
        del values["OriginEvents"]
    return values


def _max_hot_keys(hot_keys: int) -> str:
    """Return `MaxHotKeys`: at least the template's default, at most its limit."""
    return str(min(max(_MAX_HOT_KEYS, hot_keys), _MOST_HOT_KEYS))


def _node(setup: Setup) -> dict[str, str]:
    """Return the parameters of a node's kind and size."""
    kind, colon, size = setup.instance_type.partition(":")
    if not colon:
        return {"RedisOn": "ec2", "RedisInstanceType": kind}
    return {"RedisOn": kind, "RedisTaskMemoryGb": size.removesuffix("GB")}


def _bucket(setup: Setup) -> dict[str, str]:
    """Return the parameters that block public access to the bucket. The template rejects weaker settings."""
    values = {"OriginBucketName": BUCKET, "FrontDoor": setup.front_door}
    if setup.front_door == "http-api":
        return values | {"ApiAuth": "iam"}
    return values | {"AlbScheme": "internal", "CertificateArn": _CERTIFICATE}


def _throttle(setup: Setup, per_s: int) -> dict[str, str]:
    if setup.front_door != "http-api" or per_s <= _THROTTLE_PER_S:
        return {}
    return {"ThrottleRatePerS": str(per_s), "ThrottleBurstRequests": str(2 * per_s)}


def _events(setup: Setup) -> dict[str, str]:
    """Return the parameter of S3's events of writes, if it is not the template's default."""
    return {} if setup.origin_events == Setup().origin_events else {"OriginEvents": setup.origin_events}


def toml_text(values: dict[str, str]) -> str:
    """Return the lines of `samconfig.toml` that set the template's parameters: one string, wrapped by `\\`."""
    lines = [""]
    for word in re.findall(r"[^ ,]+[ ,]?", " ".join(f'{name}="{value}"' for name, value in values.items())):
        if len(lines[-1]) + len(word) > _LINE:
            lines.append("")
        lines[-1] += word
    broken = "\\\n  ".join(lines)
    return f'[default.deploy.parameters]\nparameter_overrides = """\\\n  {broken}\\\n"""'


def hot_keys(result: RunResult) -> int:
    """Return the largest number of concurrent cache functions in a run, including cold starts."""
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
