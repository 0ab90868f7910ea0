"""The Redis nodes of a system: their phases, and the leases and holds that keep them running."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from burstcache.core.phases import NodePhase
from burstcache.core.rows import Lease, NodeRow
from burstcache.queries.system import System


@dataclass(frozen=True, slots=True)
class NodeView:
    """The view of one Redis node: its phase, and the leases and the hold that keep it running."""

    node: str
    phase: NodePhase
    generation: int
    ready_at_us: int
    keys: tuple[str, ...]
    held_until_us: int  # end of a person's hold; 0 without a hold


def read_nodes(system: System) -> list[NodeView]:
    """Return all deployed nodes, in the order of the template.

    Raises:
        ServiceError: DynamoDB fails.
    """
    now_us, table = system.clock.now_us(), system.nodes
    return [node_view(table.read(name), table.leases(name), now_us) for name in system.node_names]


def node_view(row: NodeRow, leases: Sequence[Lease], now_us: int) -> NodeView:
    """Return the view of a node's row and leases at an instant [us]."""
    return NodeView(
        node=row.node,
        phase=row.phase_at(now_us),
        generation=row.generation,
        ready_at_us=row.ready_at_us,
        keys=tuple(sorted(lease.key for lease in leases if lease.key)),
        held_until_us=row.held_until_us if row.is_held(now_us) else 0,
    )
