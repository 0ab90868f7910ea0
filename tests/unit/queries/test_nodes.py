"""Nodes at a point in time, from their rows and leases."""

from __future__ import annotations

from burstcache.core.rows import Lease, NodeRow
from burstcache.queries.nodes import node_view

NOW_US = 1_785_542_400_000_000


def test_node_has_its_keys_in_order_and_the_time_until_which_a_person_holds_it() -> None:
    running = NodeRow("node-1", phase="running", generation=8, deadline_at_us=NOW_US + 2, held_until_us=NOW_US + 1)
    leases = [Lease("node-1", "h2", "b"), Lease("node-1", "h1", "a")]

    view = node_view(running, leases, NOW_US)

    assert (view.phase, view.keys, view.held_until_us) == ("running", ("a", "b"), NOW_US + 1)


def test_node_whose_deadline_has_passed_is_stopped_and_an_old_hold_is_none() -> None:
    expired = NodeRow("node-1", phase="running", generation=8, deadline_at_us=NOW_US, held_until_us=NOW_US)

    view = node_view(expired, [], NOW_US)

    assert (view.phase, view.keys, view.held_until_us) == ("stopped", (), 0)
