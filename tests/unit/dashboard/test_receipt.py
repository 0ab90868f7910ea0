"""The bill of what has been measured."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from burstcache.core.prices import BYTES_PER_GB
from burstcache.core.rows import KeyRow, NodeRow
from burstcache.core.worth import sheet_of_region
from burstcache_cli.service_use import ServiceUse
from burstcache_dashboard import receipt as receipts
from burstcache_dashboard.measured import FunctionUse, Measured, TierUse
from burstcache_dashboard.receipt import Receipt, receipt_of, rivals_of
from burstcache_dashboard.source import Rows
from burstcache_sim.bill.setup import deployed_setup
from burstcache_sim.units import US_PER_H

PRICES = sheet_of_region("us-east-1")
SINCE_US = 1_785_542_400_000_000
NOTHING = Measured(SINCE_US, SINCE_US, {}, 0, {}, {}, 0, 0.0, {}, (), 2)


def receipt(
    measured: Measured,
    *,
    hours: float = 1.0,
    node: NodeRow | None = None,
    policy: str | None = None,
    node_runs: int = 0,
    **parameters: str,
) -> Receipt:
    rows = Rows(SINCE_US + round(hours * US_PER_H), (), ((node, ()),) if node else (), None)
    return receipt_of(measured, rows, deployed_setup(parameters), PRICES, policy=policy, node_runs=node_runs)


def usd_of(receipt: Receipt, text: str) -> float:
    return sum(line.usd for line in receipt.so_far.lines if line.text == text)


def test_stack_that_nobody_reads_costs_its_idle_price() -> None:
    idle = receipt(NOTHING, hours=730)

    assert idle.so_far.usd == pytest.approx(idle.idle_month_usd)
    assert idle.month_usd == pytest.approx(idle.idle_month_usd)


def test_reads_functions_and_nodes_are_billed_at_list_prices() -> None:
    measured = replace(
        NOTHING,
        tiers={"s3": TierUse(1000, 10, None, None, None, None), "redis": TierUse(500, 10, None, None, None, None)},
        functions={"CacheFunction": FunctionUse(2, 4096, 1000), "ProxyFunction": FunctionUse(1500, 10_000, 512)},
        node_s=3600.0,
        promotions=1,
    )

    billed = receipt(measured)

    assert usd_of(billed, "S3 GET") == pytest.approx(1004 * float(PRICES.usd("s3-get")))
    assert usd_of(billed, "Redis node t4g.micro") == pytest.approx(float(PRICES.usd("ec2:t4g.micro")))
    assert usd_of(billed, "cache function, duration") == pytest.approx(4 * float(PRICES.usd("lambda-duration:arm")))
    assert usd_of(billed, "HTTP API") == pytest.approx(1500 * float(PRICES.usd("http-api-request")))


@pytest.mark.parametrize(("node_name", "address_usd"), [("fargate-spot:2GB", 0), ("fargate-spot:2GB+ipv4", 0.005)])
def test_a_task_is_billed_as_its_functions_price_it(node_name: str, address_usd: float) -> None:
    setup = deployed_setup({"RedisOn": "fargate-spot", "RedisTaskMemoryGb": "2"}, node_name=node_name)
    rows = Rows(SINCE_US + US_PER_H, (), (), None)

    billed = receipt_of(replace(NOTHING, node_s=3600.0), rows, setup, PRICES)

    assert usd_of(billed, "Redis node fargate-spot:2GB, memory") == pytest.approx(2 * 0.00114)
    assert usd_of(billed, "Redis node fargate-spot:2GB, public IPv4 address") == pytest.approx(address_usd)


def test_node_that_runs_is_billed_since_it_was_counted_last() -> None:
    now_us = SINCE_US + US_PER_H
    node = NodeRow("node-1", "running", ready_at_us=1, metered_at_us=now_us - 1_800_000_000, deadline_at_us=now_us + 1)

    assert usd_of(receipt(NOTHING, node=node), "Redis node t4g.micro") == pytest.approx(
        float(PRICES.usd("ec2:t4g.micro")) / 2
    )


def test_self_test_of_the_deployment_is_not_billed() -> None:
    tested = replace(NOTHING, functions={"SelfTestFunction": FunctionUse(9, 9000, 1024)})

    assert receipt(tested).so_far.usd == receipt(NOTHING).so_far.usd


def test_seconds_say_nothing_of_a_month() -> None:
    assert receipt(NOTHING, hours=0.01).month_usd is None


def test_relay_and_nodes_that_a_stack_lacks_cost_nothing() -> None:
    bare = receipt(NOTHING, Relay="none", RedisNodeCount="0")

    assert bare.so_far.usd == 0


def test_node_whose_price_a_region_lacks_is_billed_at_another_regions_and_the_note_says_so() -> None:
    whole, ran = sheet_of_region("eu-central-1"), replace(NOTHING, node_s=3600.0)
    frankfurt = replace(whole, rows=tuple(row for row in whole.rows if row.item != "ec2:r7g.medium"))
    rows = Rows(SINCE_US + US_PER_H, (), (), None)

    lent = receipt_of(ran, rows, deployed_setup({"RedisInstanceType": "r7g.medium"}), frankfurt)
    own = receipt_of(ran, rows, deployed_setup({"RedisInstanceType": "t4g.micro"}), frankfurt)

    assert usd_of(lent, "Redis node r7g.medium") == pytest.approx(float(PRICES.usd("ec2:r7g.medium")))
    assert lent.note.endswith(
        f"Prices: eu-central-1's of {frankfurt.looked_up}, but for Redis node r7g.medium: us-east-1's."
    )
    assert usd_of(own, "Redis node t4g.micro") == pytest.approx(float(frankfurt.usd("ec2:t4g.micro")))
    assert own.note.endswith(f"Prices: eu-central-1's of {frankfurt.looked_up}.")


def test_table_events_and_machines_of_a_local_run_are_billed() -> None:
    measured = replace(
        NOTHING,
        tiers={"s3": TierUse(100, 10, None, None, None, None)},
        functions={
            "SchedulerFunction": FunctionUse(100, 2000, 256),
            "CacheFunction": FunctionUse(2, 4096, 256),
            "OriginFunction": FunctionUse(5, 300, 128),
        },
        promotions=1,
        busy_s=40,
    )
    node = NodeRow("node-1", "stopped", generation=1_785_542_400_000)  # by the clock: it counts nothing

    billed = receipt(measured, node=node, policy="thesis", node_runs=3, OriginEvents="queue")

    assert usd_of(billed, "queue of S3's events, messages") == pytest.approx(3 * 5 * float(PRICES.usd("sqs-request")))
    assert usd_of(billed, "EventBridge") == pytest.approx(100 * float(PRICES.usd("event")))
    # A life that ended in a cache function takes 4 transitions, one that went on to Redis 7, a run of a node 3.
    assert usd_of(billed, "Step Functions") == pytest.approx((4 + 7 + 3 * 3) * float(PRICES.usd("transition")))
    assert usd_of(billed, "DynamoDB writes") == pytest.approx(
        (100 + 9 + 19 + 3 * 7) * float(PRICES.usd("dynamodb-write"))
    )
    assert usd_of(billed, "DynamoDB reads") == pytest.approx(
        (20 + 3 + 6 + 2 + 2 * 1.5 + 3 * 8) * float(PRICES.usd("dynamodb-read"))
    )
    assert "not deducted" in billed.note


def rivals(*, since_us: int, reads: int) -> dict[str, Any]:
    """Return competitors' bills for two reads in the last minute, out of `reads` in total."""
    now_us = SINCE_US + 2 * US_PER_H
    requests = [(now_us - 40_000_000, "a", 10), (now_us - 20_000_000, "a", 10)]
    read = {"s3": TierUse(reads, 10, None, None, None, None)}
    measured = replace(NOTHING, since_us=since_us, tiers=read)
    return rivals_of(source_with(measured, requests), Rows(now_us, (), (), None))


def source_with(measured: Measured, requests: list[tuple[int, str, int]] | None) -> Any:
    """Return a source with these measurements and requests."""
    measures = SimpleNamespace(read=lambda: measured, newest_requests=lambda: requests)
    return SimpleNamespace(measures=measures, setup=deployed_setup({}), prices=PRICES)


def ec2_usd(found: dict[str, Any]) -> float:
    return next(float(each["usd"]) for each in found["rivals"] if each["name"].startswith("ec2:"))


def test_rivals_are_billed_for_the_same_time_as_this_system() -> None:
    one_hour, two_hours = rivals(since_us=SINCE_US + US_PER_H, reads=2), rivals(since_us=SINCE_US, reads=2)

    assert (two_hours["sinceMs"], two_hours["complete"]) == (SINCE_US // 1000, True)
    assert ec2_usd(two_hours) == pytest.approx(2 * ec2_usd(one_hour), rel=0.01)


def test_rivals_for_the_newest_requests_alone_say_so() -> None:
    found = rivals(since_us=SINCE_US, reads=3)

    assert (found["complete"], found["requests"], found["reads"]) == (False, 2, 3)
    assert found["sinceMs"] == (SINCE_US + 2 * US_PER_H) // 1000 - 40_000


def test_rivals_of_a_busy_deployed_stack_are_for_the_newest_requests_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receipts, "_MOST_SPREAD", 5)
    now_us, start_s = SINCE_US + US_PER_H, SINCE_US // 1_000_000
    rows = Rows(now_us, (KeyRow("0" * 32, "a", size_bytes=7),), (), None)
    slots = ((start_s, {"s3": 9}), (start_s + 300, {"s3": 4}), (start_s + 600, {"s3": 2}))
    measured = replace(NOTHING, tiers={"s3": TierUse(15, 10, None, None, None, None)}, series=slots, slot_s=300)

    found = rivals_of(source_with(measured, None), rows)

    assert (found["requests"], found["reads"], found["complete"], found["exact"]) == (5, 15, False, False)
    assert found["sinceMs"] == (start_s + 300 + 75) * 1000  # the second of that slot's four


METERED = ServiceUse(
    table_reads=1000.5, table_writes=200, events=30, queued_events=50, lives=2, node_parts=1,
    log_bytes=BYTES_PER_GB // 2, door_requests=400, door_bytes=BYTES_PER_GB, alb_lcu_h=0.25, nlb_lcu_h=0.5,
)  # fmt: skip


def test_what_services_count_of_a_deployed_stack_is_billed() -> None:
    measured = replace(
        NOTHING,
        functions={"CacheFunction": FunctionUse(3, 4096, 256)},
        promotions=1,
        node_s=120.0,
        services=METERED,
        metric_h=7,
    )

    billed = receipt(measured, OriginEvents="queue")

    quantities = {line.text: float(line.quantity) for line in billed.so_far.lines}
    assert quantities["DynamoDB reads"] + quantities["janitor, DynamoDB reads"] == pytest.approx(1000.5)
    assert quantities["DynamoDB writes"] == 200
    assert quantities["EventBridge"] == 30
    assert quantities["queue of S3's events, messages"] == 3 * 50
    assert quantities["queue of S3's events, polls"] == 15 * 60
    # A life that ended in a cache function, one that went on to Redis, a second invocation, a run, two checks.
    assert quantities["Step Functions"] == 4 + 7 + 1 + 3 + 3 * 2
    assert quantities["logs"] == 0.5
    assert quantities["metrics, hours with data"] == 7
    assert (quantities["ALB, capacity units"], quantities["NLB, capacity units"]) == (0.25, 0.5)
    assert quantities["HTTP API"] == BYTES_PER_GB / (512 * 1024)


def test_what_a_deployed_stack_is_not_billed_for_here_is_named() -> None:
    note = receipt(replace(NOTHING, services=ServiceUse())).note

    assert "INIT of functions, S3's PUTs and events, alarms" in note


def test_the_janitor_is_billed_once() -> None:
    ran = replace(NOTHING, functions={"JanitorFunction": FunctionUse(12, 2400, 256)})

    assert receipt(ran).so_far.usd == receipt(NOTHING).so_far.usd
