"""Routes: what is remembered, for how long, and what is not."""

from __future__ import annotations

from typing import Any

import pytest

from burstcache.adapters.routes import Route, Routes
from support.clock import ManualClock

HASH = "0" * 32


class Table:
    """Rows by pk, and a count of the reads."""

    def __init__(self) -> None:
        self.rows: dict[str, dict[str, Any]] = {}
        self.reads: list[str] = []

    def get_item(self, *, Key: dict[str, dict[str, str]], **_: Any) -> dict[str, Any]:
        pk = Key["pk"]["S"]
        self.reads.append(pk.partition("#")[0])
        return {"Item": self.rows[pk]} if pk in self.rows else {}

    def put(self, pk: str, **fields: str | int) -> None:
        self.rows[pk] = {n: {"N": str(v)} if isinstance(v, int) else {"S": v} for n, v in fields.items()}


@pytest.fixture
def table() -> Table:
    return Table()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(0.001)


@pytest.fixture
def routes(table: Table, clock: ManualClock) -> Routes:
    return Routes("table", table, clock)  # type: ignore[arg-type]


def test_route_to_a_tier_is_remembered_for_a_second(table: Table, routes: Routes, clock: ManualClock) -> None:
    table.put(f"KEY#{HASH}", tier="lambda")

    found = []
    for clock.now_s in (0.0, 0.5, 0.999, 1.0):
        found.append(routes.route(HASH))

    assert found == [Route("lambda")] * 4
    assert table.reads == ["KEY", "KEY"]


@pytest.mark.parametrize("row", [None, {"phase": "s3"}, {"tier": "lambda", "deadline_at_us": 1000}, {"tier": "odd"}])
def test_that_a_key_is_with_s3_is_not_remembered(table: Table, routes: Routes, row: dict[str, Any] | None) -> None:
    if row is not None:
        table.put(f"KEY#{HASH}", **row)
    first = routes.route(HASH)
    table.put(f"KEY#{HASH}", tier="lambda", deadline_at_us=1001)

    assert (first, routes.route(HASH)) == (None, Route("lambda"))


def test_redis_route_holds_while_its_node_runs_in_the_same_generation(
    table: Table, routes: Routes, clock: ManualClock
) -> None:
    table.put(f"KEY#{HASH}", tier="redis", node="n", generation=2)
    found = []
    nodes: list[dict[str, str | int]] = [
        {"phase": "running", "generation": 2},
        {"phase": "stopping", "generation": 2},
        {"phase": "running", "generation": 3},
        {},
    ]

    for clock.now_s, node in enumerate(nodes):
        table.put("NODE#n", **node)
        found.append(routes.route(HASH))

    assert found == [Route("redis", "n"), None, None, None]


def test_node_is_remembered_for_all_its_keys_whether_it_runs_or_not(table: Table, routes: Routes) -> None:
    for hash_ in ("a", "b"):
        table.put(f"KEY#{hash_}", tier="redis", node="n", generation=2)

    assert [routes.route(hash_) for hash_ in "aabb"] == [None] * 4
    assert table.reads.count("NODE") == 1


def test_forgotten_route_is_read_anew(table: Table, routes: Routes) -> None:
    table.put(f"KEY#{HASH}", tier="lambda")
    routes.route(HASH)
    table.put(f"KEY#{HASH}", phase="s3")

    routes.forget(HASH)

    assert routes.route(HASH) is None


def test_memory_of_many_keys_is_bounded(table: Table, routes: Routes) -> None:
    for number in range(5000):
        table.put(f"KEY#{number}", tier="lambda")
        routes.route(str(number))

    assert len(routes._keys._values) <= 4096
