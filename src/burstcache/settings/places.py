"""Places of a stack's services: addresses and credentials, read from an environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from burstcache.access import ExpressAccess, RedisAccess, RedisNode, RelayAccess, TaskPlace, parse_nodes
from burstcache.core.errors import InvalidSettingError
from burstcache.core.node_kinds import NODE_KINDS, NodeKind, node_kind
from burstcache.settings.environment import text, text_or_empty


def relay_in(environ: Mapping[str, str]) -> RelayAccess:
    """Return the address and credentials of the relay."""
    return RelayAccess(
        url=text_or_empty(environ, "RELAY_URL"),
        user=text(environ, "RELAY_USER"),
        password_parameter=text_or_empty(environ, "RELAY_PASSWORD_PARAMETER"),
        ca_pem=text_or_empty(environ, "RELAY_CA_PEM"),
    )


def redis_in(environ: Mapping[str, str], service: str = "REDIS") -> RedisAccess:
    """Return the credentials for Redis, from variables prefixed with the service's name."""
    return RedisAccess(
        user=text_or_empty(environ, f"{service}_USER"),
        password_parameter=text_or_empty(environ, f"{service}_PASSWORD_PARAMETER"),
        ca_pem=text_or_empty(environ, f"{service}_CA_PEM"),
    )


def state_in(environ: Mapping[str, str]) -> RedisAccess:
    """Return the credentials for state databases."""
    return redis_in(environ, "STATE")


def express_in(environ: Mapping[str, str]) -> ExpressAccess:
    """Return the S3 Express settings, with the prices that decide which objects are copied."""
    return ExpressAccess(
        bucket_name=text_or_empty(environ, "EXPRESS_BUCKET"),
        hit_value_usd_per_million=text_or_empty(environ, "HIT_VALUE_USD_PER_MILLION"),
        region=text_or_empty(environ, "AWS_REGION"),
    )


def nodes_in(environ: Mapping[str, str]) -> tuple[RedisNode, ...]:
    """Return the Redis nodes."""
    return parse_nodes(text_or_empty(environ, "REDIS_NODES"))


def state_nodes_in(environ: Mapping[str, str]) -> tuple[RedisNode, ...]:
    """Return the nodes of state databases."""
    return parse_nodes(text_or_empty(environ, "STATE_NODES"), "STATE_NODES")


def tasks_in(environ: Mapping[str, str]) -> TaskPlace | None:
    """Return the place of cache nodes that run as tasks, and what starts them. None: they run on EC2."""
    return _startable(environ, task_cluster_in(environ), "")


def state_tasks_in(environ: Mapping[str, str]) -> TaskPlace | None:
    """Return the place of state databases that run as tasks, and what starts them. None: they run on EC2."""
    return _startable(environ, state_task_cluster_in(environ), "STATE_")


def task_cluster_in(environ: Mapping[str, str]) -> TaskPlace | None:
    """Return the place of cache nodes that run as tasks, for a program that starts none. None: they run on EC2."""
    kind = text(environ, "REDIS_ON")
    if kind not in NODE_KINDS:
        raise InvalidSettingError(f"REDIS_ON: {kind!r} is none of {', '.join(NODE_KINDS)}")
    return _cluster(environ, kind)


def state_task_cluster_in(environ: Mapping[str, str]) -> TaskPlace | None:
    """Return the place of state databases that run as tasks, for a program that starts none. None: they run on EC2."""
    place = _cluster(environ, node_kind(text(environ, "STATE_NODE")))
    return place and replace(place, has_state=True)


def _cluster(environ: Mapping[str, str], kind: NodeKind) -> TaskPlace | None:
    if kind == "ec2":
        text_or_empty(environ, "TASK_CLUSTER")
        return None
    return TaskPlace(kind=kind, cluster=text(environ, "TASK_CLUSTER"))


def _startable(environ: Mapping[str, str], place: TaskPlace | None, prefix: str) -> TaskPlace | None:
    read = text_or_empty if place is None else text  # a stack with nodes on EC2 leaves them empty
    definition, groups = read(environ, f"{prefix}TASK_DEFINITION"), read(environ, f"{prefix}TASK_SECURITY_GROUPS")
    subnets, public_ip = read(environ, "TASK_SUBNETS"), read(environ, "TASK_PUBLIC_IP")
    if place is None:
        return None
    return replace(
        place,
        definition=definition,
        subnets=tuple(subnets.split(",")),
        security_groups=tuple(groups.split(",")),
        public_ip=public_ip,
    )
