"""The routes of keys that are not on S3, and whether the proxy follows them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from burstcache.core.phases import NodePhase
from burstcache.core.rows import KeyRow, NodeRow
from burstcache.queries.system import System

Problem = Literal["", "expired", "node_not_running", "other_generation"]


@dataclass(frozen=True, slots=True)
class RouteView:
    """The route of one key, and whether the proxy follows it."""

    key: str
    tier: Literal["lambda", "redis"]
    holder: str  # the cache function's invocation; empty if there is none
    deadline_at_us: int
    node: str  # empty if the tier is not Redis
    generation: int  # of the node when the route was written
    node_phase: NodePhase | Literal[""]
    node_generation: int  # of the node now
    problem: Problem  # why the proxy reads from S3 instead; empty if it follows the route


def read_routes(system: System) -> list[RouteView]:
    """Return the routes to cache functions and Redis nodes, sorted by key.

    Raises:
        ServiceError: DynamoDB fails.
    """
    now_us = system.clock.now_us()
    rows = [row for row in system.key_rows() if row.phase != "s3" and row.tier]
    # All nodes in the rows, deployed or not, since a removed node still has keys until their lives end.
    nodes = {name: system.nodes.read(name) for name in {row.node for row in rows if row.node}}
    return sorted((route_view(row, nodes.get(row.node), now_us) for row in rows), key=lambda view: view.key)


def route_view(row: KeyRow, node: NodeRow | None, now_us: int) -> RouteView:
    """Return the view of a route. A route to Redis is valid only while its node runs in the same generation.

    Args:
        row: The row of a key that has a tier.
        node: The row of the key's node.
        now_us: The instant [us].
    """
    assert row.tier, "the key has a route"
    on_redis = row.tier == "redis" and node is not None
    problem: Problem = ""
    if not row.is_live(now_us):
        problem = "expired"
    elif on_redis and node and node.phase != "running":
        problem = "node_not_running"
    elif on_redis and node and node.generation != row.generation:
        problem = "other_generation"
    return RouteView(
        key=row.key,
        tier=row.tier,
        holder=row.holder,
        deadline_at_us=row.deadline_at_us,
        node=row.node,
        generation=row.generation,
        node_phase=node.phase if node else "",
        node_generation=node.generation if node else 0,
        problem=problem,
    )
