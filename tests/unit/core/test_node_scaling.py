"""The change that gives a full node more memory: its parameter, what it earns and costs."""

from __future__ import annotations

from functools import partial

import pytest

from burstcache.core.node_kinds import EC2_GIB, FARGATE_SIZES, MAX_NODES
from burstcache.core.node_memory import NodeMemory
from burstcache.core.node_scaling import NodeLoad, Scaling, best_scaling
from burstcache.core.parameters import US_PER_S
from burstcache.core.prices import price_sheet
from burstcache.core.worth import MICRO, Worth, node_price_usd_per_h, tier_prices, wait_usd_from_text
from support.project import template

_SHEET = price_sheet("today-us-east-1")
_USD = partial(node_price_usd_per_h, _SHEET)
_MIB = 1024**2


def load(*, lost_per_h: int = 1_000, limit_mib: int = 300, wanted_mib: int = 600, is_full: bool = True) -> NodeLoad:
    memory = NodeMemory(
        limit_bytes=limit_mib * _MIB,
        is_evicting=is_full,
        watched_us=3600 * US_PER_S,
        evicted=10**6,
        missed=lost_per_h * MICRO,
    )
    return NodeLoad("node", memory, wanted_mib * _MIB)


def best(*loads: NodeLoad, node_type: str = "t4g.nano", per_million: str = "10") -> Scaling | None:
    prices = tier_prices(_SHEET, node_type=node_type, cache_memory_mb=256)
    return best_scaling(loads, node_type, Worth(wait_usd_from_text(per_million), prices), _USD)


def test_no_node_is_full() -> None:
    assert best(load(is_full=False)) is None


def test_the_next_size_holds_all_objects() -> None:
    found = best(load())

    assert found is not None
    assert (found.parameter, found.now, found.value) == ("RedisInstanceType", "t4g.nano", "t4g.micro")
    assert found.costs_usd_per_h == pytest.approx(float(_USD("t4g.micro") - _USD("t4g.nano")))
    # 1,000 hits, each 24 of 25 ms of a wait worth 1e-5 USD, and a GET
    assert found.earns_usd_per_h == found.lost_usd_per_h == pytest.approx(1_000 * (1e-5 * 24 / 25 + 4e-7))
    assert found.pays


def test_few_lost_hits_pay_for_no_change_and_the_closest_one_is_named() -> None:
    found = best(load(lost_per_h=10))

    assert found is not None
    assert not found.pays
    assert found.value == "t4g.micro"


def test_memory_for_half_of_what_does_not_fit_brings_half_of_the_hits_back() -> None:
    prices = tier_prices(_SHEET, node_type="t4g.nano", cache_memory_mb=256)
    worth = Worth(wait_usd_from_text("10"), prices)
    usd = {"t4g.nano": 1, "t4g.micro": 1}

    found = best_scaling(
        [load(wanted_mib=900)], "t4g.nano", worth, lambda name: _USD("t4g.nano") * usd.get(name, 10**6)
    )

    assert found is not None
    assert found.value == "t4g.micro"
    assert found.earns_usd_per_h == pytest.approx(found.lost_usd_per_h / 2)


def test_the_cheaper_of_more_nodes_and_larger_ones_is_named() -> None:
    half_full = [load(lost_per_h=10_000), *[load(is_full=False)] * 3]

    found = best(*half_full, node_type="r7g.large", per_million="100")

    assert found is not None
    assert (found.parameter, found.now) == ("RedisNodeCount", "4")
    assert found.value == "8"  # no larger type is left
    assert best(*[load()] * MAX_NODES, node_type="r7g.large") is None


def test_tasks_grow_by_their_memory() -> None:
    found = best(load(), node_type="fargate-spot:0.5GB")

    assert found is not None
    assert (found.parameter, found.now, found.value) == ("RedisTaskMemoryGb", "0.5", "1")


def test_the_smallest_task_of_two_gigabytes_costs_less_than_two_of_one() -> None:
    found = best(load(limit_mib=768, wanted_mib=1_500), node_type="fargate:1GB", per_million="100")

    assert found is not None
    assert (found.parameter, found.value) == ("RedisTaskMemoryGb", "2")  # both have a quarter of a processor


def test_the_address_of_a_task_is_no_part_of_its_size() -> None:
    """Each size costs the address, so it makes no difference to the change."""
    plain, public = (best(load(), node_type=f"fargate:0.5GB{ending}") for ending in ("", "+ipv4"))

    assert public == plain
    assert public is not None
    assert (public.parameter, public.now, public.value) == ("RedisTaskMemoryGb", "0.5", "1")


def test_every_type_of_the_template_has_a_memory() -> None:
    parameters = template()["Parameters"]

    assert set(EC2_GIB) == set(parameters["RedisInstanceType"]["AllowedValues"])
    assert max(map(int, parameters["RedisNodeCount"]["AllowedValues"])) == MAX_NODES
    assert all(_USD(f"fargate:{size}") for size in FARGATE_SIZES)
