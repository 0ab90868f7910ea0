"""The environment as a typed object, read once at first use. Defaults live in template.yaml and nowhere else."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from burstcache.core.errors import InvalidSettingError, NodeAbsentError
from burstcache.core.parameters import Parameters, live_parameters


@dataclass(frozen=True, slots=True)
class RedisNode:
    """One Redis node of the stack."""

    name: str
    instance_id: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class RelayAccess:
    """Where the relay is, and who connects to it."""

    url: str
    user: str = ""
    secret_arn: str = ""  # passwords by user; empty: the relay asks for none
    ca_pem: str = ""  # the authority that signed the relay's certificate; empty: the machine's own ones


@dataclass(frozen=True, slots=True)
class Settings:
    """A function's environment. A variable that is not set is an empty string."""

    table_name: str
    bucket_name: str
    bus_name: str
    key_lifecycle_arn: str
    redis_node_arn: str
    relay: RelayAccess
    redis_secret_arn: str
    redis_nodes: tuple[RedisNode, ...]
    redis_control_function_name: str
    max_hot_keys: int
    max_object_bytes: int
    parameters: Parameters

    @property
    def node_names(self) -> tuple[str, ...]:
        """The names of all Redis nodes."""
        return tuple(node.name for node in self.redis_nodes)

    @property
    def instance_ids(self) -> Mapping[str, str]:
        """The instance of each node."""
        return {node.name: node.instance_id for node in self.redis_nodes}

    def node(self, name: str) -> RedisNode:
        """Return the node of that name, or raise NodeAbsentError."""
        for node in self.redis_nodes:
            if node.name == name:
                return node
        raise NodeAbsentError(f"no Redis node {name!r}; known: {', '.join(n.name for n in self.redis_nodes) or 'none'}")


def parse_nodes(text: str) -> tuple[RedisNode, ...]:
    """Return the nodes in `node-1=i-0abc@10.0.0.5:6379,…` (none in an empty text)."""
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
    """Return the policy's parameters in `environ`; raise `InvalidSettingError` if one is not accepted."""
    return live_parameters(
        rate=environ.get("POLICY_RATE", "9"),
        sensitivity=environ.get("POLICY_SENSITIVITY", "4"),
        overrides=environ.get("POLICY_OVERRIDES", ""),
    )


def settings_from(environ: Mapping[str, str]) -> Settings:
    """Return the settings in `environ`, or raise InvalidSettingError that names the variable."""

    def whole(name: str) -> int:
        text = environ.get(name, "0")
        if not text.isdigit():
            raise InvalidSettingError(f"{name}: {text!r} is not a whole number of at least 0")
        return int(text)

    return Settings(
        table_name=environ.get("TABLE_NAME", ""),
        bucket_name=environ.get("BUCKET_NAME", ""),
        bus_name=environ.get("BUS_NAME", ""),
        key_lifecycle_arn=environ.get("KEY_LIFECYCLE_ARN", ""),
        redis_node_arn=environ.get("REDIS_NODE_ARN", ""),
        relay=RelayAccess(
            url=environ.get("RELAY_URL", ""),
            user=environ.get("RELAY_USER", ""),
            secret_arn=environ.get("RELAY_SECRET_ARN", ""),
            ca_pem=environ.get("RELAY_CA_PEM", ""),
        ),
        redis_secret_arn=environ.get("REDIS_SECRET_ARN", ""),
        redis_nodes=parse_nodes(environ.get("REDIS_NODES", "")),
        redis_control_function_name=environ.get("REDIS_CONTROL_FUNCTION_NAME", ""),
        max_hot_keys=whole("MAX_HOT_KEYS"),
        max_object_bytes=whole("MAX_OBJECT_BYTES"),
        parameters=policy_parameters(environ),
    )


@cache
def settings() -> Settings:
    """Return the settings of this process."""
    return settings_from(os.environ)
