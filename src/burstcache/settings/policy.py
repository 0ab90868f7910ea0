"""The policy configured in an environment, and the policy's value of a hit."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from burstcache.core.parameters import live_parameters
from burstcache.core.policies import LivePolicy, live_policy
from burstcache.settings.environment import text, text_or_empty, whole_number

if TYPE_CHECKING:
    from burstcache.core.worth import Worth


def policy_in(environ: Mapping[str, str]) -> LivePolicy:
    """Build the policy from `environ`. Raise InvalidSettingError if a variable is missing or invalid."""
    parameters = live_parameters(
        rate=text(environ, "POLICY_RATE"),
        sensitivity=text(environ, "POLICY_SENSITIVITY"),
        overrides=text_or_empty(environ, "POLICY_OVERRIDES"),
    )
    return live_policy(text(environ, "POLICY"), parameters, partial(worth_in, environ))


def worth_in(environ: Mapping[str, str]) -> Worth:
    """Build the value of hits from `environ`. Raise InvalidSettingError like `policy_in`."""
    from burstcache.core.worth import Worth, sheet_of_region, tier_prices, wait_usd_from_text  # loads price sheets

    prices = tier_prices(
        sheet_of_region(text(environ, "AWS_REGION")),
        node_type=text(environ, "REDIS_INSTANCE_TYPE"),
        cache_memory_mb=whole_number(environ, "CACHE_MEMORY_MB"),
        has_express=bool(text_or_empty(environ, "EXPRESS_BUCKET")),
    )
    return Worth(wait_usd_from_text(text(environ, "HIT_VALUE_USD_PER_MILLION")), prices)
