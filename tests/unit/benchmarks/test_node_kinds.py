"""Bills of nodes on EC2 and on Fargate Spot."""

from __future__ import annotations

import pytest

from benchmarks.node_kinds import IDLE, cells, idle_items


def test_an_idle_stack_with_a_node_on_fargate_costs_at_most_five_cents_a_month_beside_its_polls() -> None:
    """Without a relay the janitor and the polls of the queue are all that is left. An instance has a volume, too."""
    instance, task = (idle_items(node) for node in IDLE)

    polls_usd = task["queue of S3's events, polls"]
    assert 0 < sum(task.values()) - polls_usd <= 0.05
    assert polls_usd == pytest.approx(0.2628)
    assert all(text.startswith(("janitor", "queue")) for text in task)
    assert set(instance) - set(task) == {"volume of the node"}
    assert sum(instance.values()) - sum(task.values()) == pytest.approx(0.24)


def test_a_row_says_which_nodes_the_answer_has() -> None:
    figures = {"usd_per_month": 1.234, "in_memory_pct": 93.96, "net_usd_per_month": -0.5}

    assert cells({"burstcache": {**figures, "nodes": 3, "instance_type": "t4g.nano"}}) == (
        "3 x t4g.nano", "1.23", "94.0", "-0.50"
    )  # fmt: skip
    assert cells({"burstcache": {**figures, "nodes": 0, "instance_type": None}})[0] == "none"
