"""The idle bill of a stack's volumes."""

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
    answers = {"StateDatabases": databases, "StatePersistence": persistence, "RedisInstanceType": "t4g.micro"}

    items = idle_items(template, declared_values(template["Parameters"], answers), "us-east-1")

    (usd,) = (item.usd for item in items if item.name == "volumes of nodes and databases")
    assert float(usd) == pytest.approx(0.08 * size_gb)
