"""Cost of use statistics per million reported requests, counted at the deployed functions."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest

from burstcache.core.messages.events import KeyServed
from burstcache.core.policy import RecordedRequest
from burstcache.core.prices import price_sheet
from support.policies import BY_USE, policy_named
from support.world import World

_SHEET = price_sheet("today-us-east-1")
_S3_GET_USD = _SHEET.usd("s3-get") * 1_000_000
# A run of the scheduler: 40 ms of 256 MB, most of it waiting for the table.
_RUN_USD = _SHEET.usd("lambda-request") + Fraction(40, 1000) / 4 * _SHEET.usd("lambda-duration:arm")


class _Bill:
    """Units of the table that one report takes, in USD. All items are below 1 KB."""

    def __init__(self) -> None:
        self.usd = Fraction(0)

    def note(self, params: dict[str, Any], model: Any, **_: object) -> None:
        write_usd, read_usd = _SHEET.usd("dynamodb-write"), _SHEET.usd("dynamodb-read")
        match model.name:
            case "BatchGetItem":
                tables = params["RequestItems"].values()
                self.usd += sum(read_usd * len(t["Keys"]) / (1 if t.get("ConsistentRead") else 2) for t in tables)
            case "BatchWriteItem":
                self.usd += sum(write_usd * len(items) for items in params["RequestItems"].values())
            case "GetItem":
                assert params["ConsistentRead"]
                self.usd += read_usd
            case name:
                assert name in ("PutItem", "UpdateItem")
                self.usd += write_usd


def usd_per_million(world: World, *, keys: int, reads: int) -> float:
    """Return the cost of a million requests, reported in batches of that many keys with that many reads each [USD]."""
    bill, events = _Bill(), world.clients.dynamodb.meta.events

    def report() -> None:
        at_us = world.clock.now_us()
        requests = [
            [RecordedRequest(at_us + read, f"{key}-{at_us}-{read}").encode() for read in range(reads)]
            for key in range(keys)
        ]
        served = [
            KeyServed(key=f"key {key}", requests=each, size_bytes=4, etag='"e"') for key, each in enumerate(requests)
        ]
        world.invoke("scheduler", {"detail-type": "RequestsServed", "detail": {"keys": served}})

    report()
    world.clock.sleep(60)
    events.register("provide-client-params.dynamodb", bill.note)
    for _ in range(3):
        report()
        world.clock.sleep(60)
    events.unregister("provide-client-params.dynamodb", bill.note)
    report_usd = bill.usd / 3 + _RUN_USD + _SHEET.usd("event")
    return float(report_usd / (keys * reads) * 1_000_000)


@pytest.mark.parametrize("name", BY_USE)
@pytest.mark.parametrize(
    ("keys", "reads", "at_most_usd"),
    [(1, 1, 2.5), (2, 1, 1.3), (10, 1, 0.31), (100, 1, 0.09), (10, 8, 0.04)],
)
def test_a_report_costs_as_the_documents_have_it(
    name: str, keys: int, reads: int, at_most_usd: float, make_world: Callable[..., World]
) -> None:
    world = make_world(policy=policy_named(name, per_million="0.1", node_type="r7g.large"), has_relay=False)

    found = usd_per_million(world, keys=keys, reads=reads)

    assert 0.85 * at_most_usd < found < at_most_usd


def test_batches_of_ten_cost_less_than_the_gets_that_they_may_save(make_world: Callable[..., World]) -> None:
    world = make_world(policy=policy_named("hazard", per_million="0.1", node_type="r7g.large"), has_relay=False)

    assert usd_per_million(world, keys=10, reads=1) < float(_S3_GET_USD)


def test_a_key_that_a_cache_function_may_serve_has_its_row_read_and_written(make_world: Callable[..., World]) -> None:
    world = make_world(policy=policy_named("hazard", per_million="10", node_type="r7g.large"))
    row_usd = float(_SHEET.usd("dynamodb-write") + _SHEET.usd("dynamodb-read")) * 1_000_000

    found = usd_per_million(world, keys=10, reads=1)

    assert found == pytest.approx(0.29 + row_usd, abs=0.03)
