"""Access to a stack's parts: addresses, users and certificate authorities."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from burstcache.core.errors import InvalidSettingError, NodeAbsentError

if TYPE_CHECKING:
    from burstcache.core.node_kinds import NodeKind


@dataclass(frozen=True)
class RedisNode:
    """One of the stack's Redis nodes. A task publishes its address in each run, so it has no instance and no host."""

    name: str
    instance_id: str
    host: str
    port: int

    @property
    def is_task(self) -> bool:
        """Whether the node runs as a task on Fargate."""
        return not self.instance_id


@dataclass(frozen=True)
class TaskPlace:
    """The place of Redis nodes that run as tasks, and the capacity they ask for."""

    kind: NodeKind
    cluster: str = ""
    definition: str = ""
    subnets: tuple[str, ...] = ()
    security_groups: tuple[str, ...] = ()
    public_ip: str = "DISABLED"  # or ENABLED
    has_state: bool = False  # the nodes are state databases


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


def node_named(name: str, nodes: tuple[RedisNode, ...], *, host: str = "") -> RedisNode:
    """Return the node with this name, at its task's address if it has one, or raise NodeAbsentError."""
    for node in nodes:
        if node.name == name:
            return replace(node, host=host) if host else node
    raise NodeAbsentError(f"no Redis node {name!r}; known: {', '.join(node.name for node in nodes) or 'none'}")


def names_of(nodes: tuple[RedisNode, ...]) -> tuple[str, ...]:
    """Return the nodes' names."""
    return tuple(node.name for node in nodes)


def instance_ids(nodes: tuple[RedisNode, ...]) -> dict[str, str]:
    """Return instance ids by node name, without the nodes that run as tasks."""
    return {node.name: node.instance_id for node in nodes if not node.is_task}


def parse_nodes(text: str, variable: str = "REDIS_NODES") -> tuple[RedisNode, ...]:
    """Parse `node-1=i-0abc@10.0.0.5:6379,…` into nodes, tasks as `node-1=@:6379`. An empty string yields no nodes."""
    nodes = []
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, equals, rest = item.partition("=")
        instance_id, at, address = rest.partition("@")
        host, colon, port = address.rpartition(":")
        if not (equals and at and colon and port.isdecimal()):
            raise InvalidSettingError(f"{variable}: {item!r} is not of the form name=instance-id@host:port")
        nodes.append(RedisNode(name, instance_id, host, int(port)))
    return tuple(nodes)
