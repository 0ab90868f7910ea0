"""Where the parts of a stack are, and as whom to reach them."""

from __future__ import annotations

from dataclasses import dataclass

from burstcache.core.errors import InvalidSettingError, NodeAbsentError


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

    url: str  # empty: there is no relay
    user: str = ""
    password_parameter: str = ""  # its name; empty: the relay asks for none
    ca_pem: str = ""  # the authority that signed the relay's certificate; empty: the machine's own ones


@dataclass(frozen=True)
class RedisAccess:
    """As which user to connect to Redis on a node, and whom to believe."""

    user: str = ""  # empty: Redis's default user
    password_parameter: str = ""  # its name; empty: Redis asks for none
    ca_pem: str = ""  # the authority that signed the nodes' certificate; empty: without TLS


@dataclass(frozen=True)
class ExpressAccess:
    """The directory bucket with copies of objects, and what its copies are weighed by."""

    bucket_name: str = ""  # empty: there is none
    hit_value_usd_per_million: str = "0"
    region: str = ""  # whose prices


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


def parse_nodes(text: str, variable: str = "REDIS_NODES") -> tuple[RedisNode, ...]:
    """Return the nodes in `node-1=i-0abc@10.0.0.5:6379,…` (an empty text: none)."""
    nodes = []
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, equals, rest = item.partition("=")
        instance_id, at, address = rest.partition("@")
        host, colon, port = address.rpartition(":")
        if not (equals and at and colon and port.isdigit()):
            raise InvalidSettingError(f"{variable}: {item!r} is not of the form name=instance-id@host:port")
        nodes.append(RedisNode(name, instance_id, host, int(port)))
    return tuple(nodes)
