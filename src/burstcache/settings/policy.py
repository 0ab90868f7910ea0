"""The policy that an environment names, and what hits are worth by it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from burstcache.core.parameters import live_parameters
from burstcache.core.policies import LivePolicy, live_policy
from burstcache.settings.environment import given, text, whole

if TYPE_CHECKING:
    from burstcache.core.worth import Worth


def policy_in(environ: Mapping[str, str]) -> LivePolicy:
    """Return the policy in `environ`, or raise InvalidSettingError if a variable is missing or not accepted."""
    parameters = live_parameters(
        rate=text(environ, "POLICY_RATE"),
        sensitivity=text(environ, "POLICY_SENSITIVITY"),
        overrides=given(environ, "POLICY_OVERRIDES"),
    )
    return live_policy(text(environ, "POLICY"), parameters, partial(worth_in, environ))


def worth_in(environ: Mapping[str, str]) -> Worth:
    """Return what hits are worth by `environ`, or raise InvalidSettingError as `policy_in`."""
    from burstcache.core.worth import Worth, sheet_of_region, tier_prices, wait_usd_from_text  # prices of three regions

    prices = tier_prices(
        sheet_of_region(text(environ, "AWS_REGION")),
        node_type=text(environ, "REDIS_INSTANCE_TYPE"),
        cache_memory_mb=whole(environ, "CACHE_MEMORY_MB"),
        has_express=bool(given(environ, "EXPRESS_BUCKET")),
    )
    return Worth(wait_usd_from_text(text(environ, "HIT_VALUE_USD_PER_MILLION")), prices)
