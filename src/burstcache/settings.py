"""The environment of each function as a typed object, read once at start.

A variable that is missing is an error then, not at its first use. Defaults live in template.yaml and nowhere else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Self, get_type_hints

from burstcache.access import ExpressAccess, RedisAccess, RedisNode, RelayAccess, parse_nodes
from burstcache.core.errors import InvalidSettingError
from burstcache.core.parameters import live_parameters
from burstcache.core.policies import LivePolicy, live_policy

if TYPE_CHECKING:
    from burstcache.core.worth import Worth


class _Settings:
    """What an environment sets; behind the type of each field stands what reads it, and from which variable."""

    @classmethod
    def read(cls, environ: Mapping[str, str]) -> Self:
        """Return the settings in `environ`, or raise InvalidSettingError that names the variable."""
        values = {}
        for name, hint in get_type_hints(cls, include_extras=True).items():
            reader, *variables = hint.__metadata__
            values[name] = reader(environ, *variables)
        return cls(**values)


@dataclass(frozen=True)
class ReaderSettings(_Settings):
    """The settings of a reader: of the proxy, or of a client in the caller's process."""

    table_name: Annotated[str, _text, "TABLE_NAME"]
    bucket_name: Annotated[str, _text, "BUCKET_NAME"]
    origin_prefix: Annotated[str, _given, "ORIGIN_PREFIX"]  # of all keys that are read; empty: the whole bucket is
    bus_name: Annotated[str, _given, "BUS_NAME"]  # empty: no key gets hot
    relay: Annotated[RelayAccess, _relay]
    redis: Annotated[RedisAccess, _redis]
    redis_nodes: Annotated[tuple[RedisNode, ...], _nodes]
    max_object_bytes: Annotated[int, _whole, "MAX_OBJECT_BYTES"]
    express: Annotated[ExpressAccess, _express]
    takes_guests: Annotated[bool, _is, "TAKES_GUESTS"]  # nodes do, under the stack's policy
    origin_function_name: Annotated[str, _given, "ORIGIN_FUNCTION_NAME"]  # writers ask it; empty: there is no stack


@dataclass(frozen=True)
class ProxySettings(ReaderSettings):
    """The settings of the proxy: a reader's, and what its memory may do."""

    memory_mb: Annotated[int, _whole, "MEMORY_MB"]
    max_stale_ms: Annotated[int, _whole, "MAX_STALE_MS"]
    prefixes: Annotated[str, _given, "JWT_PREFIXES"]  # `web.prefixes`: what tokens give a right to; empty: to all keys
    takes_writes: Annotated[bool, _is, "TAKES_WRITES"]  # the front door does, by another function


@dataclass(frozen=True)
class WriterSettings(_Settings):
    """The settings of the writer."""

    bucket_name: Annotated[str, _text, "BUCKET_NAME"]
    origin_prefix: Annotated[str, _given, "ORIGIN_PREFIX"]  # of all keys that are written; empty: the whole bucket is
    origin_function_name: Annotated[str, _text, "ORIGIN_FUNCTION_NAME"]
    prefixes: Annotated[str, _given, "JWT_PREFIXES"]  # as the proxy's; empty where a signature gives the right


@dataclass(frozen=True)
class SchedulerSettings(_Settings):
    """The settings of the scheduler."""

    table_name: Annotated[str, _text, "TABLE_NAME"]
    key_lifecycle_arn: Annotated[str, _text, "KEY_LIFECYCLE_ARN"]
    redis_node_arn: Annotated[str, _given, "REDIS_NODE_ARN"]  # empty: there are no nodes
    redis_nodes: Annotated[tuple[RedisNode, ...], _nodes]
    max_hot_keys: Annotated[int, _whole, "MAX_HOT_KEYS"]
    has_relay: Annotated[bool, _is, "HAS_RELAY"]
    cache_function_name: Annotated[str, _given, "CACHE_FUNCTION_NAME"]  # empty: there is none
    max_object_bytes: Annotated[int, _whole, "MAX_OBJECT_BYTES"]
    policy: Annotated[LivePolicy, policy_in]


@dataclass(frozen=True)
class PolicySettings(_Settings):
    """What a stack decides by, for those who ask why; `worth_in` reads the rest of it."""

    policy_name: Annotated[str, _text, "POLICY"]
    policy: Annotated[LivePolicy, policy_in]
    redis_nodes: Annotated[tuple[RedisNode, ...], _nodes]
    always_on_nodes: Annotated[int, _whole, "REDIS_ALWAYS_ON_NODES"]
    max_hot_keys: Annotated[int, _whole, "MAX_HOT_KEYS"]
    has_relay: Annotated[bool, _is, "HAS_RELAY"]
    max_object_bytes: Annotated[int, _whole, "MAX_OBJECT_BYTES"]
    memory_mb: Annotated[int, _whole, "MEMORY_MB"]  # of the proxy's own tier
    pool_members: Annotated[int, _whole, "POOL_MEMBERS"]


@dataclass(frozen=True)
class CacheSettings(_Settings):
    """The settings of the cache function."""

    table_name: Annotated[str, _text, "TABLE_NAME"]
    bucket_name: Annotated[str, _text, "BUCKET_NAME"]
    origin_prefix: Annotated[str, _given, "ORIGIN_PREFIX"]
    bus_name: Annotated[str, _text, "BUS_NAME"]
    relay: Annotated[RelayAccess, _relay]
    max_object_bytes: Annotated[int, _whole, "MAX_OBJECT_BYTES"]
    memory_mb: Annotated[int, _whole, "AWS_LAMBDA_FUNCTION_MEMORY_SIZE"]
    policy: Annotated[LivePolicy, policy_in]
    region: Annotated[str, _text, "AWS_REGION"]
    node_type: Annotated[str, _text, "REDIS_INSTANCE_TYPE"]
    cache_memory_mb: Annotated[int, _whole, "CACHE_MEMORY_MB"]


@dataclass(frozen=True)
class RedisControlSettings(_Settings):
    """The settings of Redis control."""

    table_name: Annotated[str, _text, "TABLE_NAME"]
    bucket_name: Annotated[str, _text, "BUCKET_NAME"]
    origin_prefix: Annotated[str, _given, "ORIGIN_PREFIX"]
    redis_node_arn: Annotated[str, _text, "REDIS_NODE_ARN"]
    relay: Annotated[RelayAccess, _relay]
    redis: Annotated[RedisAccess, _redis]
    redis_nodes: Annotated[tuple[RedisNode, ...], _nodes]
    state_nodes: Annotated[tuple[RedisNode, ...], _state_nodes]
    state_persistence: Annotated[str, _text, "STATE_PERSISTENCE"]
    always_on_nodes: Annotated[int, _whole, "REDIS_ALWAYS_ON_NODES"]
    node_hours_per_day: Annotated[int, _whole, "MAX_NODE_HOURS_PER_DAY"]
    max_object_bytes: Annotated[int, _whole, "MAX_OBJECT_BYTES"]
    policy: Annotated[LivePolicy, policy_in]
    region: Annotated[str, _text, "AWS_REGION"]
    node_type: Annotated[str, _text, "REDIS_INSTANCE_TYPE"]
    cache_memory_mb: Annotated[int, _whole, "CACHE_MEMORY_MB"]


@dataclass(frozen=True)
class OriginSettings(_Settings):
    """The settings of the origin function."""

    table_name: Annotated[str, _text, "TABLE_NAME"]
    express_bucket: Annotated[str, _given, "EXPRESS_BUCKET"]
    redis_nodes: Annotated[tuple[RedisNode, ...], _nodes]
    redis_control_function_name: Annotated[str, _given, "REDIS_CONTROL_FUNCTION_NAME"]


@dataclass(frozen=True)
class JanitorSettings(_Settings):
    """The settings of the janitor."""

    table_name: Annotated[str, _text, "TABLE_NAME"]
    key_lifecycle_arn: Annotated[str, _text, "KEY_LIFECYCLE_ARN"]
    redis_node_arn: Annotated[str, _given, "REDIS_NODE_ARN"]  # empty: there are no nodes
    redis_nodes: Annotated[tuple[RedisNode, ...], _nodes]
    state_nodes: Annotated[tuple[RedisNode, ...], _state_nodes]
    always_on_nodes: Annotated[int, _whole, "REDIS_ALWAYS_ON_NODES"]
    redis_control_function_name: Annotated[str, _text, "REDIS_CONTROL_FUNCTION_NAME"]


@dataclass(frozen=True)
class StateSettings(_Settings):
    """The settings of the state function."""

    table_name: Annotated[str, _text, "TABLE_NAME"]
    redis_node_arn: Annotated[str, _text, "REDIS_NODE_ARN"]
    state_nodes: Annotated[tuple[RedisNode, ...], _state_nodes]
    grace_s: Annotated[int, _whole, "GRACE_S"]


@dataclass(frozen=True)
class PoolMemberSettings(_Settings):
    """The settings of a member of the pool."""

    memory_mb: Annotated[int, _whole, "AWS_LAMBDA_FUNCTION_MEMORY_SIZE"]
    demands_tls: Annotated[bool, _yes, "POOL_TLS"]
    hit_value_usd_per_million: Annotated[str, _text, "HIT_VALUE_USD_PER_MILLION"]
    region: Annotated[str, _text, "AWS_REGION"]


@dataclass(frozen=True)
class PoolAccess(_Settings):
    """The settings of a program that reads through the pool."""

    member_function_name: Annotated[str, _text, "POOL_MEMBER_FUNCTION_NAME"]
    control_function_name: Annotated[str, _text, "POOL_CONTROL_FUNCTION_NAME"]
    demands_tls: Annotated[bool, _yes, "POOL_TLS"]
    memory_mb: Annotated[int, _whole, "POOL_MEMORY_MB"]
    hub: Annotated[str, _text, "POOL_HUB"]  # none: in the program itself; fargate: elsewhere


@dataclass(frozen=True)
class HubSettings(_Settings):
    """The settings of a hub for readers that members cannot dial."""

    member_function_name: Annotated[str, _text, "POOL_MEMBER_FUNCTION_NAME"]
    control_function_name: Annotated[str, _text, "POOL_CONTROL_FUNCTION_NAME"]
    tls_pem: Annotated[str, _given, "HUB_TLS_PEM"]  # its key and certificate; empty: without TLS
    ca_pem: Annotated[str, _given, "HUB_CA_PEM"]  # what members and readers trust
    port: Annotated[int, _whole, "HUB_PORT"]


@dataclass(frozen=True)
class HolderSettings(_Settings):
    """The settings of a program that holds databases."""

    function_name: Annotated[str, _text, "STATE_FUNCTION_NAME"]
    state_nodes: Annotated[tuple[RedisNode, ...], _state_nodes]
    redis: Annotated[RedisAccess, _state]


@dataclass(frozen=True)
class PoolControlSettings(_Settings):
    """The settings of pool control."""

    table_name: Annotated[str, _text, "TABLE_NAME"]
    pool_arn: Annotated[str, _text, "POOL_ARN"]
    members: Annotated[int, _whole, "POOL_MEMBERS"]
    memory_mb: Annotated[int, _whole, "POOL_MEMORY_MB"]
    keep_s: Annotated[int, _whole, "POOL_KEEP_S"]
    hub_service: Annotated[str, _given, "POOL_HUB_SERVICE"]  # cluster/service; empty: there is none
    member_function_name: Annotated[str, _text, "POOL_MEMBER_FUNCTION_NAME"]
    region: Annotated[str, _text, "AWS_REGION"]


@dataclass(frozen=True)
class SelfTestSettings(_Settings):
    """The settings of the self-test."""

    functions: Annotated[tuple[str, ...], _names, "FUNCTIONS"]  # those that talk to each other first


@dataclass(frozen=True)
class BudgetSettings(_Settings):
    """The settings of the budget function."""

    table_name: Annotated[str, _text, "TABLE_NAME"]


def policy_in(environ: Mapping[str, str]) -> LivePolicy:
    """Return the policy in `environ`, or raise InvalidSettingError if a variable is missing or not accepted."""
    parameters = live_parameters(
        rate=_text(environ, "POLICY_RATE"),
        sensitivity=_text(environ, "POLICY_SENSITIVITY"),
        overrides=_given(environ, "POLICY_OVERRIDES"),
    )
    return live_policy(_text(environ, "POLICY"), parameters, partial(worth_in, environ))


def worth_in(environ: Mapping[str, str]) -> Worth:
    """Return what hits are worth by `environ`, or raise InvalidSettingError as `policy_in`."""
    from burstcache.core.worth import Worth, sheet_of_region, tier_prices, wait_usd_from_text  # prices of three regions

    prices = tier_prices(
        sheet_of_region(_text(environ, "AWS_REGION")),
        node_type=_text(environ, "REDIS_INSTANCE_TYPE"),
        cache_memory_mb=_whole(environ, "CACHE_MEMORY_MB"),
        has_express=bool(_given(environ, "EXPRESS_BUCKET")),
    )
    return Worth(wait_usd_from_text(_text(environ, "HIT_VALUE_USD_PER_MILLION")), prices)


def _relay(environ: Mapping[str, str]) -> RelayAccess:
    return RelayAccess(
        url=_given(environ, "RELAY_URL"),
        user=_text(environ, "RELAY_USER"),
        password_parameter=_given(environ, "RELAY_PASSWORD_PARAMETER"),
        ca_pem=_given(environ, "RELAY_CA_PEM"),
    )


def _redis(environ: Mapping[str, str], service: str = "REDIS") -> RedisAccess:
    return RedisAccess(
        user=_given(environ, f"{service}_USER"),
        password_parameter=_given(environ, f"{service}_PASSWORD_PARAMETER"),
        ca_pem=_given(environ, f"{service}_CA_PEM"),
    )


def _state(environ: Mapping[str, str]) -> RedisAccess:
    return _redis(environ, "STATE")


def _express(environ: Mapping[str, str]) -> ExpressAccess:
    return ExpressAccess(
        bucket_name=_given(environ, "EXPRESS_BUCKET"),
        hit_value_usd_per_million=_given(environ, "HIT_VALUE_USD_PER_MILLION"),
        region=_given(environ, "AWS_REGION"),
    )


def _nodes(environ: Mapping[str, str]) -> tuple[RedisNode, ...]:
    return parse_nodes(_given(environ, "REDIS_NODES"))


def _state_nodes(environ: Mapping[str, str]) -> tuple[RedisNode, ...]:
    return parse_nodes(_given(environ, "STATE_NODES"), "STATE_NODES")


def _names(environ: Mapping[str, str], name: str) -> tuple[str, ...]:
    return tuple(_text(environ, name).split(","))


def _given(environ: Mapping[str, str], name: str) -> str:
    """Return a variable that may be empty."""
    if name not in environ:
        raise InvalidSettingError(f"the environment has no variable {name}; template.yaml says what it holds")
    return environ[name]


def _text(environ: Mapping[str, str], name: str) -> str:
    if not (text := _given(environ, name)):
        raise InvalidSettingError(f"{name} is empty; template.yaml says what it holds")
    return text


def _is(environ: Mapping[str, str], name: str) -> bool:
    if (text := _given(environ, name)) not in ("true", "false"):
        raise InvalidSettingError(f"{name}: {text!r} is neither true nor false")
    return text == "true"


def _yes(environ: Mapping[str, str], name: str) -> bool:
    if (text := _given(environ, name)) not in ("yes", "no"):
        raise InvalidSettingError(f"{name}: {text!r} is neither yes nor no")
    return text == "yes"


def _whole(environ: Mapping[str, str], name: str) -> int:
    text = _given(environ, name)
    if not text.isdigit():
        raise InvalidSettingError(f"{name}: {text!r} is not a whole number of at least 0")
    return int(text)
