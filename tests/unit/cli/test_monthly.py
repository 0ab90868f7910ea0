"""The monthly bill of an idle stack: its volumes, and nodes that never stop."""

from __future__ import annotations

from typing import Any

import pytest

from burstcache_cli.monthly import idle_items
from burstcache_local.template.parameters import declared_values
from burstcache_local.template.read import read
from support.project import ROOT


@pytest.fixture(scope="module")
def template() -> Any:
    return read(ROOT / "template.yaml")


@pytest.mark.parametrize(
    ("persistence", "databases", "size_gb"),
    [("aof", "", 3), ("rdb", "orders", 3 + 4), ("aof", "orders", 3 + 3 + 2), ("aof", "orders,carts", 3 + 2 * (3 + 2))],
)
def test_volumes_of_nodes_instances_and_logs_are_billed(
    template: Any, persistence: str, databases: str, size_gb: int
) -> None:
    kept = {"StateDatabases": databases, "StatePersistence": persistence}
    answers = {**kept, "RedisOn": "ec2", "RedisInstanceType": "t4g.micro"}

    items = idle_items(template, declared_values(template["Parameters"], answers), "us-east-1")

    (usd,) = (item.usd for item in items if item.name == "volumes of nodes and databases")
    assert float(usd) == pytest.approx(0.08 * size_gb)


@pytest.mark.parametrize(("events", "usd"), [("queue", 0.40 * 0.657), ("direct", 0)])
def test_polls_of_the_queue_are_billed_if_there_is_one(template: Any, events: str, usd: float) -> None:
    answers = {"OriginEvents": events, "RedisNodeCount": "0"}

    items = idle_items(template, declared_values(template["Parameters"], answers), "us-east-1")

    assert sum(float(item.usd) for item in items) == pytest.approx(usd)


def test_databases_as_tasks_cost_nothing_while_they_sleep(template: Any) -> None:
    answers = {"StateDatabases": "orders,carts", "StateOn": "fargate-spot", "RedisAlwaysOnNodes": "1"}

    with_them, without = (
        idle_items(template, declared_values(template["Parameters"], given), "eu-west-1")
        for given in (answers, {**answers, "StateDatabases": ""})
    )

    assert with_them == without


@pytest.mark.parametrize(
    ("kind", "region", "node_usd_per_h", "address_usd_per_h"),
    [
        ("ec2", "us-east-1", 0.0084, 0),
        ("fargate", "us-east-1", 0.25 * 0.03238 + 2 * 0.00356, 0),
        ("fargate-spot", "us-east-1", 0.25 * 0.01034 + 2 * 0.00114, 0),
        ("fargate-spot", "eu-west-1", 0.25 * 0.01034 + 2 * 0.00114, 0.005),
    ],
)
def test_nodes_that_never_stop_are_billed_by_what_they_run_on(
    template: Any, kind: str, region: str, node_usd_per_h: float, address_usd_per_h: float
) -> None:
    answers = {"RedisOn": kind, "RedisNodeCount": "3", "RedisAlwaysOnNodes": "2"}

    items = idle_items(template, declared_values(template["Parameters"], answers), region)

    usd = {item.name: float(item.usd) for item in items}
    assert usd["nodes that never stop"] == pytest.approx(2 * 730 * (node_usd_per_h + address_usd_per_h))
