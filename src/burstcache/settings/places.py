"""Where an environment says that the parts of a stack are."""

from __future__ import annotations

from collections.abc import Mapping

from burstcache.access import ExpressAccess, RedisAccess, RedisNode, RelayAccess, parse_nodes
from burstcache.settings.environment import given, text


def relay_in(environ: Mapping[str, str]) -> RelayAccess:
    """Return where the relay is."""
    return RelayAccess(
        url=given(environ, "RELAY_URL"),
        user=text(environ, "RELAY_USER"),
        password_parameter=given(environ, "RELAY_PASSWORD_PARAMETER"),
        ca_pem=given(environ, "RELAY_CA_PEM"),
    )


def redis_in(environ: Mapping[str, str], service: str = "REDIS") -> RedisAccess:
    """Return as whom to connect to Redis, whose variables begin with the name of a service."""
    return RedisAccess(
        user=given(environ, f"{service}_USER"),
        password_parameter=given(environ, f"{service}_PASSWORD_PARAMETER"),
        ca_pem=given(environ, f"{service}_CA_PEM"),
    )


def state_in(environ: Mapping[str, str]) -> RedisAccess:
    """Return as whom to connect to databases of state."""
    return redis_in(environ, "STATE")


def express_in(environ: Mapping[str, str]) -> ExpressAccess:
    """Return where copies in S3 Express are, and what they are weighed by."""
    return ExpressAccess(
        bucket_name=given(environ, "EXPRESS_BUCKET"),
        hit_value_usd_per_million=given(environ, "HIT_VALUE_USD_PER_MILLION"),
        region=given(environ, "AWS_REGION"),
    )


def nodes_in(environ: Mapping[str, str]) -> tuple[RedisNode, ...]:
    """Return the Redis nodes."""
    return parse_nodes(given(environ, "REDIS_NODES"))


def state_nodes_in(environ: Mapping[str, str]) -> tuple[RedisNode, ...]:
    """Return the nodes of databases of state."""
    return parse_nodes(given(environ, "STATE_NODES"), "STATE_NODES")
