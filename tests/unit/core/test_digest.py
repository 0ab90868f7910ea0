"""A reader's view of successive digests."""

from __future__ import annotations

import pytest

from burstcache.core.digest import LATE_S, Digest, Route, RoutedKey, RunningNode, late_mark, late_until_us, prefix_of
from burstcache.core.placement import node_for

DIGEST = Digest(sequence=10, changes=("a", "b", "c"))


@pytest.mark.parametrize(
    ("known", "changed"),
    [(10, ()), (9, ("c",)), (7, ("a", "b", "c")), (6, None), (0, None), (11, None)],
    ids=["all", "all but one", "none of the log", "older than the log", "nothing", "of another table"],
)
def test_changes_since_a_number_are_named_or_unknown(known: int, changed: tuple[str, ...] | None) -> None:
    assert DIGEST.changed_since(known) == changed


_BOTH, _HASHES = ("node-1", "node-2"), [f"{number:032x}" for number in range(200)]


def _digest_of(**nodes: RunningNode) -> Digest:
    return Digest(nodes={name.replace("_", "-"): node for name, node in nodes.items()})


def _homes(digest: Digest) -> set[Route | None]:
    return {digest.home(hash_, now_us=0) for hash_ in _HASHES}


def test_each_key_is_a_guest_of_its_home_among_the_nodes_while_that_runs() -> None:
    digest = _digest_of(node_1=RunningNode(7, 2, True, _BOTH), node_2=RunningNode(8, 3, False, _BOTH))

    homes = [digest.home(hash_, now_us=0) for hash_ in _HASHES]

    on_node_1 = Route("redis", "node-1", is_guest=True)
    assert homes == [on_node_1 if node_for(hash_, _BOTH) == "node-1" else None for hash_ in _HASHES]
    assert 50 < homes.count(on_node_1) < 150


def test_a_node_that_takes_no_guests_is_nobodys_home() -> None:
    assert _homes(_digest_of(node_1=RunningNode(7, 2, True))) == {None}


def test_a_node_that_was_added_while_another_ran_takes_its_keys_over() -> None:
    digest = _digest_of(node_1=RunningNode(7, 2, True, ("node-1",)), node_2=RunningNode(8, 2, True, _BOTH))

    homes = [digest.home(hash_, now_us=0) for hash_ in _HASHES]

    assert homes == [Route("redis", node_for(hash_, _BOTH), is_guest=True) for hash_ in _HASHES]


def test_places_are_where_keys_are_served_now_and_nodes_that_take_guests() -> None:
    routes = {
        "a": RoutedKey(1, 2, "lambda", deadline_at_us=11),
        "b": RoutedKey(1, 2, "redis", "node-1", 7, deadline_at_us=11),
        "past its deadline": RoutedKey(1, 2, "express", deadline_at_us=10),
        "of an older run": RoutedKey(1, 2, "redis", "node-2", 3, deadline_at_us=11),
        "in S3": RoutedKey(1, 0),
    }
    nodes = {"node-1": RunningNode(7, 2, True), "node-2": RunningNode(8, 2, True, _BOTH)}

    places = Digest(routes=routes, nodes=nodes).places(now_us=10)

    assert places == {Route("lambda"), Route("redis", "node-1"), Route("redis", "node-2", is_guest=True)}


def test_no_tier_is_asked_for_a_key_whose_write_tiers_take_long_to_follow() -> None:
    here, other = "0" * 32, "f" * 32
    lambda_ = RoutedKey(1, 2, "lambda", deadline_at_us=2**62)
    nodes = {"node-1": RunningNode(7, 2, True, ("node-1",))}

    digest = Digest(routes={here: lambda_, other: lambda_}, nodes=nodes, late={prefix_of(here): 10})

    assert [digest.route(here, now_us=now_us) for now_us in (9, 10)] == [None, Route("lambda")]
    assert [digest.home(here, now_us=now_us) for now_us in (9, 10)] == [None, Route("redis", "node-1", is_guest=True)]
    assert digest.route(other, now_us=9) == Route("lambda")


def test_the_latest_mark_of_a_key_counts() -> None:
    marks = [late_mark(_HASHES[0], now_us=now_s * 1_000_000, token="t") for now_s in (5, 7, 6)]

    assert late_until_us(marks) == {prefix_of(_HASHES[0]): (7 + LATE_S) * 1_000_000}
