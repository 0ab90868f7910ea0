"""Access to a stack's parts: addresses, users and certificate authorities."""

from __future__ import annotations

from dataclasses import dataclass

from burstcache.core.errors import InvalidSettingError, NodeAbsentError


@dataclass(frozen=True)
class RedisNode:
    """One of the stack's Redis nodes."""

    name: str
    instance_id: str
    host: str
    port: int


@dataclass(frozen=True)
class RelayAccess:
    """The relay's address and credentials."""

    url: str  # empty: no relay
    user: str = ""
    password_parameter: str = ""  # name of the SSM parameter. Empty: no password
    ca_pem: str = ""  # CA of the relay's certificate. Empty: the system's CAs


@dataclass(frozen=True)
class RedisAccess:
    """Credentials for Redis on the nodes, and the CA to trust."""

    user: str = ""  # empty: Redis's default user
    password_parameter: str = ""  # name of the SSM parameter. Empty: no password
    ca_pem: str = ""  # CA of the nodes' certificate. Empty: no TLS


@dataclass(frozen=True)
class ExpressAccess:
    """The directory bucket for object copies, and the prices that decide which objects are copied."""

    bucket_name: str = ""  # empty: no bucket
    hit_value_usd_per_million: str = "0"
    region: str = ""  # region of the prices


def node_named(name: str, nodes: tuple[RedisNode, ...]) -> RedisNode:
    """Return the node with this name, or raise NodeAbsentError."""
    for node in nodes:
        if node.name == name:
            return node
    raise NodeAbsentError(f"no Redis node {name!r}; known: {', '.join(node.name for node in nodes) or 'none'}")


def names_of(nodes: tuple[RedisNode, ...]) -> tuple[str, ...]:
    """Return the nodes' names."""
    return tuple(node.name for node in nodes)


def instance_ids(nodes: tuple[RedisNode, ...]) -> dict[str, str]:
    """Return instance ids by node name."""
    return {node.name: node.instance_id for node in nodes}


def parse_nodes(text: str, variable: str = "REDIS_NODES") -> tuple[RedisNode, ...]:
    """Parse `node-1=i-0abc@10.0.0.5:6379,…` into nodes. An empty string yields no nodes."""
    nodes = []
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, equals, rest = item.partition("=")
        instance_id, at, address = rest.partition("@")
        host, colon, port = address.rpartition(":")
        if not (equals and at and colon and port.isdecimal()):
            raise InvalidSettingError(f"{variable}: {item!r} is not of the form name=instance-id@host:port")
        nodes.append(RedisNode(name, instance_id, host, int(port)))
    return tuple(nodes)
