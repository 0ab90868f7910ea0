"""Account limits: a deployment beyond one fails with its name and a remedy."""

from __future__ import annotations

import pytest

from burstcache.core.limits import Limits, Needs, busy_concurrency, most_hot_keys, shortfalls, vcpus_of

DEFAULT = Needs(hot_keys=2, node_type="t4g.micro", nodes=1, task_vcpus=0.25)
NEW_ACCOUNT = Limits(concurrency=10, node_vcpus=5, task_vcpus=6)


def test_two_hot_keys_and_a_small_node_fit_into_a_new_account() -> None:
    assert list(shortfalls(DEFAULT, NEW_ACCOUNT)) == []


@pytest.mark.parametrize(("concurrency", "most"), [(1, 1), (10, 2), (50, 12), (1000, 250)])
def test_a_quarter_of_the_concurrency_is_for_hot_keys(concurrency: int, most: int) -> None:
    assert most_hot_keys(concurrency) == most
    assert not list(shortfalls(Needs(hot_keys=most), Limits(concurrency)))
    (said,) = shortfalls(Needs(hot_keys=most + 1), Limits(concurrency))
    assert said.startswith(f"MaxHotKeys {most + 1} is too much for the account's {concurrency} concurrent Lambda")
    assert f"use {most} at most" in said


@pytest.mark.parametrize(("concurrency", "busy"), [(10, 8), (50, 40), (999, 799), (1000, 800)])
def test_an_account_is_nearly_out_of_concurrency_at_four_fifths(concurrency: int, busy: int) -> None:
    assert busy_concurrency(concurrency) == busy


def test_what_the_proxy_reserves_is_not_there_for_hot_keys() -> None:
    (said,) = shortfalls(Needs(hot_keys=26, reserved=900), Limits(concurrency=1000))

    assert "the account's 100 concurrent Lambda executions" in said
    assert "use 25 at most" in said


def test_a_reservation_that_lambda_would_refuse_is_named_alone() -> None:
    (said,) = shortfalls(Needs(hot_keys=5, reserved=901), Limits(concurrency=1000))

    assert said.startswith("ProxyConcurrency 901 of the account's 1000 concurrent Lambda executions leaves less than")


@pytest.mark.parametrize(("concurrency", "most"), [(10, 5), (1000, 500)])
def test_members_of_the_pool_leave_half_of_the_concurrency(concurrency: int, most: int) -> None:
    assert not list(shortfalls(Needs(pool_members=most), Limits(concurrency)))
    (said,) = shortfalls(Needs(pool_members=most + 1), Limits(concurrency))
    assert said.startswith(f"PoolMembers {most + 1} is too much for the account's {concurrency} concurrent Lambda")
    assert f"use {most} at most" in said


@pytest.mark.parametrize(
    ("node_type", "vcpus"), [("t4g.nano", 2), ("t4g.medium", 2), ("m7g.medium", 1), ("r8g.large", 2)]
)
def test_vcpus_are_those_of_the_instance_type(node_type: str, vcpus: int) -> None:
    assert vcpus_of(node_type) == vcpus


def test_nodes_that_cannot_all_run_are_named_with_their_vcpus() -> None:
    (said,) = shortfalls(Needs(node_type="r7g.large", nodes=3), NEW_ACCOUNT)

    assert said.startswith("3 x r7g.large have 6 vCPUs and the account may run 5: use fewer or smaller nodes")


def test_tasks_that_fargate_does_not_give_are_named() -> None:
    (said,) = shortfalls(DEFAULT, Limits(concurrency=10, task_vcpus=0))

    assert said.startswith(
        "the tasks (relay and hub) take 0.25 vCPU of Fargate Spot and the account may run 0: use Relay"
    )


NEW_FARGATE = Limits(concurrency=10, task_vcpus=6, on_demand_task_vcpus=6)  # what an account starts with


@pytest.mark.parametrize("kind", ["fargate", "fargate-spot"])
@pytest.mark.parametrize(("size", "nodes"), [("30GB", 1), ("16GB", 2), ("2GB", 8)])
def test_a_new_account_runs_these_nodes_beside_relay_and_hub(kind: str, size: str, nodes: int) -> None:
    needs = Needs(task_vcpus=0.75, node_task=f"{kind}:{size}", node_tasks=nodes)

    assert list(shortfalls(needs, NEW_FARGATE)) == []


def test_nodes_on_spot_need_both_quotas_since_they_may_run_on_demand() -> None:
    needs = Needs(task_vcpus=0.75, node_task="fargate-spot:30GB", node_tasks=2)

    spot, on_demand = shortfalls(needs, NEW_FARGATE)

    assert spot.startswith(
        "the tasks (2 x fargate-spot:30GB, relay and hub) take 8.75 vCPU of Fargate Spot and the account may run 6:"
        " use a lower RedisNodeCount or a lower RedisTaskMemoryGb, Relay and PoolHub none, or ask for more"
    )
    assert spot.endswith("Fargate Spot vCPU resource count")
    assert on_demand.startswith(
        "2 x fargate-spot:30GB take 8 vCPU of Fargate on demand where Spot has no capacity and the account may run 6:"
    )
    assert on_demand.endswith("Fargate On-Demand vCPU resource count")


def test_nodes_on_demand_need_nothing_of_spot() -> None:
    needs = Needs(node_task="fargate:16GB", node_tasks=1)

    assert not list(shortfalls(needs, Limits(concurrency=10, task_vcpus=0, on_demand_task_vcpus=2)))
    (said,) = shortfalls(needs, Limits(concurrency=10, task_vcpus=0, on_demand_task_vcpus=1))
    assert said.startswith(
        "1 x fargate:16GB take 2 vCPU of Fargate on demand and the account may run 1: use a lower Re"
    )


def test_databases_on_fargate_share_the_quotas_of_nodes() -> None:
    needs = Needs(node_task="fargate:16GB", node_tasks=2, state_task="fargate-spot:8GB", state_tasks=3)

    (said,) = shortfalls(needs, NEW_FARGATE)

    assert said.startswith(
        "2 x fargate:16GB, 3 x fargate-spot:8GB take 7 vCPU of Fargate on demand where Spot has no capacity and the"
        " account may run 6: use a lower RedisNodeCount or fewer StateDatabases or a lower RedisTaskMemoryGb, or ask"
    )


def test_databases_alone_are_named_with_the_quota_of_spot() -> None:
    needs = Needs(state_task="fargate-spot:8GB", state_tasks=4)

    (said,) = shortfalls(needs, Limits(concurrency=10, task_vcpus=3, on_demand_task_vcpus=4))

    assert said.startswith(
        "the tasks (4 x fargate-spot:8GB) take 4 vCPU of Fargate Spot and the account may run 3: use fewer"
        " StateDatabases or a lower RedisTaskMemoryGb, or ask for more"
    )


def test_a_zone_without_the_instance_type_is_named() -> None:
    (said,) = shortfalls(DEFAULT, Limits(concurrency=10, zones_without_node_type=["us-west-1c"]))

    assert said == "EC2 has no t4g.micro in zone us-west-1c: use another RedisInstanceType or another zone"


def test_a_limit_that_aws_does_not_give_stops_nothing() -> None:
    assert list(shortfalls(Needs(node_type="r8g.large", nodes=8, task_vcpus=9), Limits(concurrency=10))) == []
