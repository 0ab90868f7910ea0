"""The environment of each function as a typed object, read once at start.

A variable that is missing is an error then, not at its first use. Defaults live in template.yaml and nowhere else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from burstcache.core.errors import InvalidSettingError, NodeAbsentError
from burstcache.core.parameters import Parameters, live_parameters


@dataclass(frozen=True)
class RedisNode:
    """One Redis node of the stack."""

    name: str
    instance_id: str
    host: str
    port: int


@dataclass(frozen=True)
class RelayAccess:
    """Where the relay is, and who connects to it."""

    url: str
    user: str = ""
    secret_arn: str = ""  # passwords by user; empty: the relay asks for none
    ca_pem: str = ""  # the authority that signed the relay's certificate; empty: the machine's own ones


@dataclass(frozen=True)
class ReaderSettings:
    """The settings of a reader: of the proxy, or of a client in the caller's process."""

    table_name: str
    bucket_name: str
    bus_name: str
    relay: RelayAccess
    redis_secret_arn: str
    redis_nodes: tuple[RedisNode, ...]
    max_object_bytes: int

    @classmethod
    def read(cls, environ: Mapping[str, str]) -> ReaderSettings:
        """Return the settings in `environ`, or raise InvalidSettingError that names the variable."""
        return cls(
            table_name=_text(environ, "TABLE_NAME"),
            bucket_name=_text(environ, "BUCKET_NAME"),
            bus_name=_text(environ, "BUS_NAME"),
            relay=_relay(environ),
            redis_secret_arn=_given(environ, "REDIS_SECRET_ARN"),
            redis_nodes=_nodes(environ),
            max_object_bytes=_whole(environ, "MAX_OBJECT_BYTES"),
        )


@dataclass(frozen=True)
class SchedulerSettings:
    """The settings of the scheduler."""

    table_name: str
    key_lifecycle_arn: str
    redis_nodes: tuple[RedisNode, ...]
    max_hot_keys: int
    max_object_bytes: int
    parameters: Parameters

    @classmethod
    def read(cls, environ: Mapping[str, str]) -> SchedulerSettings:
        """Return the settings in `environ`, or raise InvalidSettingError that names the variable."""
        return cls(
            table_name=_text(environ, "TABLE_NAME"),
            key_lifecycle_arn=_text(environ, "KEY_LIFECYCLE_ARN"),
            redis_nodes=_nodes(environ),
            max_hot_keys=_whole(environ, "MAX_HOT_KEYS"),
            max_object_bytes=_whole(environ, "MAX_OBJECT_BYTES"),
            parameters=policy_parameters(environ),
        )


@dataclass(frozen=True)
class CacheSettings:
    """The settings of the cache function."""

    table_name: str
    bucket_name: str
    relay: RelayAccess
    max_object_bytes: int
    memory_mb: int
    parameters: Parameters

    @classmethod
    def read(cls, environ: Mapping[str, str]) -> CacheSettings:
        """Return the settings in `environ`, or raise InvalidSettingError that names the variable."""
        return cls(
            table_name=_text(environ, "TABLE_NAME"),
            bucket_name=_text(environ, "BUCKET_NAME"),
            relay=_relay(environ),
            max_object_bytes=_whole(environ, "MAX_OBJECT_BYTES"),
            memory_mb=_whole(environ, "AWS_LAMBDA_FUNCTION_MEMORY_SIZE"),
            parameters=policy_parameters(environ),
        )


@dataclass(frozen=True)
class RedisControlSettings:
    """The settings of Redis control."""

    table_name: str
    bucket_name: str
    redis_node_arn: str
    relay: RelayAccess
    redis_secret_arn: str
    redis_nodes: tuple[RedisNode, ...]
    max_object_bytes: int
    parameters: Parameters

    @classmethod
    def read(cls, environ: Mapping[str, str]) -> RedisControlSettings:
        """Return the settings in `environ`, or raise InvalidSettingError that names the variable."""
        return cls(
            table_name=_text(environ, "TABLE_NAME"),
            bucket_name=_text(environ, "BUCKET_NAME"),
            redis_node_arn=_text(environ, "REDIS_NODE_ARN"),
            relay=_relay(environ),
            redis_secret_arn=_given(environ, "REDIS_SECRET_ARN"),
            redis_nodes=_nodes(environ),
            max_object_bytes=_whole(environ, "MAX_OBJECT_BYTES"),
            parameters=policy_parameters(environ),
        )


@dataclass(frozen=True)
class JanitorSettings:
    """The settings of the janitor."""

    table_name: str
    key_lifecycle_arn: str
    redis_node_arn: str
    redis_nodes: tuple[RedisNode, ...]
    redis_control_function_name: str

    @classmethod
    def read(cls, environ: Mapping[str, str]) -> JanitorSettings:
        """Return the settings in `environ`, or raise InvalidSettingError that names the variable."""
        return cls(
            table_name=_text(environ, "TABLE_NAME"),
            key_lifecycle_arn=_text(environ, "KEY_LIFECYCLE_ARN"),
            redis_node_arn=_text(environ, "REDIS_NODE_ARN"),
            redis_nodes=_nodes(environ),
            redis_control_function_name=_text(environ, "REDIS_CONTROL_FUNCTION_NAME"),
        )


def node_named(name: str, nodes: tuple[RedisNode, ...]) -> RedisNode:
    """Return the node of that name, or raise NodeAbsentError."""
    for node in nodes:
        if node.name == name:
            return node
    raise NodeAbsentError(f"no Redis node {name!r}; known: {', '.join(node.name for node in nodes) or 'none'}")


def names_of(nodes: tuple[RedisNode, ...]) -> tuple[str, ...]:
    """Return the names of nodes."""
    return tuple(node.name for node in nodes)


def instance_ids(nodes: tuple[RedisNode, ...]) -> dict[str, str]:
    """Return the instance of each node, by name."""
    return {node.name: node.instance_id for node in nodes}


def parse_nodes(text: str) -> tuple[RedisNode, ...]:
    """Return the nodes in `node-1=i-0abc@10.0.0.5:6379,…` (an empty text: none)."""
    nodes = []
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, equals, rest = item.partition("=")
        instance_id, at, address = rest.partition("@")
        host, colon, port = address.rpartition(":")
        if not (equals and at and colon and port.isdigit()):
            raise InvalidSettingError(f"REDIS_NODES: {item!r} is not of the form name=instance-id@host:port")
        nodes.append(RedisNode(name, instance_id, host, int(port)))
    return tuple(nodes)


def policy_parameters(environ: Mapping[str, str]) -> Parameters:
    """Return the policy's parameters in `environ`, or raise InvalidSettingError if one is missing or not accepted."""
    return live_parameters(
        rate=_text(environ, "POLICY_RATE"),
        sensitivity=_text(environ, "POLICY_SENSITIVITY"),
        overrides=_given(environ, "POLICY_OVERRIDES"),
    )


def _relay(environ: Mapping[str, str]) -> RelayAccess:
    return RelayAccess(
        url=_text(environ, "RELAY_URL"),
        user=_text(environ, "RELAY_USER"),
        secret_arn=_given(environ, "RELAY_SECRET_ARN"),
        ca_pem=_given(environ, "RELAY_CA_PEM"),
    )


def _nodes(environ: Mapping[str, str]) -> tuple[RedisNode, ...]:
    return parse_nodes(_given(environ, "REDIS_NODES"))


def _given(environ: Mapping[str, str], name: str) -> str:
    """Return a variable that may be empty."""
    if name not in environ:
        raise InvalidSettingError(f"the environment has no variable {name}; template.yaml says what it holds")
    return environ[name]


def _text(environ: Mapping[str, str], name: str) -> str:
    if not (text := _given(environ, name)):
        raise InvalidSettingError(f"{name} is empty; template.yaml says what it holds")
    return text


def _whole(environ: Mapping[str, str], name: str) -> int:
    text = _given(environ, name)
    if not text.isdigit():
        raise InvalidSettingError(f"{name}: {text!r} is not a whole number of at least 0")
    return int(text)
