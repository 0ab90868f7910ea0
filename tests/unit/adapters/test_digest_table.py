"""The digest in the table: what is written, what is read back, and which write wins."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from burstcache.adapters.digest_table import DigestTable
from burstcache.core.backlog import Backlog
from burstcache.core.change_log import KEPT_BYTES, MOST_BYTES
from burstcache.core.digest import LATE_S, Digest, Route
from burstcache.core.keys import key_hash
from burstcache.core.rows import KeyRow, NodeRow
from burstcache.core.table import CHANGES_ITEM, LATE_ITEM, SHOWN_NODE_PREFIX, SHOWN_ROUTE_PREFIX
from support.aws import TABLE, clients, make_stack, mocked_aws

_HASHES = [key_hash(str(number)) for number in range(200)]
_NEVER_US = 2**62
_ROW = KeyRow(_HASHES[0], "k", "redis_running", 7, tier="redis", node="n", generation=3, deadline_at_us=_NEVER_US)


@pytest.fixture
def digest() -> Iterator[DigestTable]:
    with mocked_aws():
        make_stack()
        yield DigestTable(TABLE, clients().dynamodb)


def test_a_digest_of_nothing_is_empty(digest: DigestTable) -> None:
    assert digest.read() == Digest(0, [])


def test_changes_are_numbered_without_gaps_and_read_in_order(digest: DigestTable) -> None:
    numbers = [digest.announce([hash_], now_us=0) for hash_ in _HASHES[:3]]

    seen = digest.read()

    assert (numbers, seen.sequence) == ([1, 2, 3], 3)
    assert seen.changes == [hash_[:12] for hash_ in _HASHES[:3]]


@pytest.mark.slow
def test_the_log_of_changes_is_cut_before_it_costs_a_second_write_unit(digest: DigestTable) -> None:
    lengths = []
    for at, hash_ in enumerate(_HASHES):
        digest.announce([hash_], now_us=at * 1_000_000)
        item = clients().dynamodb.get_item(
            TableName=TABLE, Key={name: {"S": value} for name, value in CHANGES_ITEM.items()}
        )["Item"]
        lengths.append(len(item["log"]["L"]))
        # DynamoDB's rules of size: names and values, 1 byte and 3 more for a list, 1 byte for each of its elements.
        rest_bytes = sum(len(name) for name in item) + len(str(CHANGES_ITEM["pk"]) + str(CHANGES_ITEM["sk"])) + 42
        assert rest_bytes + 3 + sum(len(entry["B"]) + 1 for entry in item["log"]["L"]) <= 1024 + 12

    assert min(lengths[100:]) > 30
    assert digest.read().changes == [hash_[:12] for hash_ in _HASHES[-lengths[-1] :]]


def _announce_until_it_is_nearly_cut(digest: DigestTable) -> int:
    """Announce one change a second. Return how many are in the log when the next one has it cut."""
    count = MOST_BYTES // 12
    for at in range(count):
        digest.announce([_HASHES[at]], now_us=at * 1_000_000)
    return count


@pytest.mark.slow
def test_the_log_is_cut_back_while_others_write_to_it(digest: DigestTable, monkeypatch: pytest.MonkeyPatch) -> None:
    count = _announce_until_it_is_nearly_cut(digest)
    cut = DigestTable._cut

    def overtaken(*arguments: Any) -> None:
        monkeypatch.setattr(DigestTable, "_cut", lambda *_: None)  # the other has yet to come to it
        digest.announce([_HASHES[count + 1]], now_us=count * 1_000_000)
        cut(*arguments)
        cut(*arguments)  # by the other, whose cut comes too late

    monkeypatch.setattr(DigestTable, "_cut", overtaken)
    digest.announce([_HASHES[count]], now_us=count * 1_000_000)

    changes = digest.read().changes
    assert KEPT_BYTES // 12 <= len(changes) <= KEPT_BYTES // 12 + 3
    assert list(changes) == [hash_[:12] for hash_ in _HASHES[count + 2 - len(changes) : count + 2]]


def test_a_batch_is_announced_in_one_write(digest: DigestTable) -> None:
    number = digest.announce(_HASHES[:10], now_us=0)

    seen = digest.read()

    assert (number, seen.sequence) == (10, 10)
    assert seen.changed_since(7) == [hash_[:12] for hash_ in _HASHES[7:10]]


def test_the_digest_says_since_when_events_wait_until_a_batch_says_otherwise(digest: DigestTable) -> None:
    ages_s = []
    for backlog in (None, Backlog(4_000_000, 5_000_000), None, Backlog(0, 7_000_000)):
        digest.announce(_HASHES[:1], now_us=0, backlog=backlog)
        ages_s.append(digest.read().backlog_s(9_000_000))

    assert ages_s == [0, 5, 5, 0]


def test_a_log_of_an_earlier_version_is_removed(digest: DigestTable) -> None:
    key = {name: {"S": value} for name, value in CHANGES_ITEM.items()}
    old: Any = {**key, "sequence": {"N": "7"}, "changes": {"L": [{"B": bytes.fromhex(_HASHES[0][:12])}]}}
    clients().dynamodb.put_item(TableName=TABLE, Item=old)
    unread = digest.read()

    digest.announce(_HASHES[1:2], now_us=0)

    assert (unread.changed_since(7), unread.changed_since(6)) == ([], None)
    assert "changes" not in clients().dynamodb.get_item(TableName=TABLE, Key=key)["Item"]
    assert digest.read().changed_since(7) == [_HASHES[1][:12]]


def test_a_log_made_anew_is_not_taken_for_the_one_before(digest: DigestTable) -> None:
    for _ in range(2):
        digest.announce(_HASHES[:1], now_us=1_000_000)
    known = digest.read().sequence
    clients().dynamodb.delete_item(TableName=TABLE, Key={name: {"S": value} for name, value in CHANGES_ITEM.items()})
    for hash_ in _HASHES[1:5]:
        digest.announce([hash_], now_us=2_000_000)

    assert digest.read().changed_since(known) is None  # any key may have changed


def test_changes_are_read_before_the_routes_and_the_marks_that_go_with_them() -> None:
    assert str(CHANGES_ITEM["sk"]) < str(LATE_ITEM["sk"])
    assert str(CHANGES_ITEM["sk"]) < SHOWN_NODE_PREFIX
    assert str(CHANGES_ITEM["sk"]) < SHOWN_ROUTE_PREFIX


def test_a_key_is_shown_where_its_row_has_it_while_its_node_runs(digest: DigestTable) -> None:
    digest.show_key(_ROW)
    not_running = digest.read().route(_ROW.hash, now_us=0)
    digest.show_node(NodeRow("n", "running", 3))
    running = digest.read().route(_ROW.hash, now_us=0)
    digest.show_node(NodeRow("n", "running", 4))

    assert (not_running, running) == (None, Route("redis", "n"))
    assert digest.read().route(_ROW.hash, now_us=0) is None


def test_a_task_is_found_at_the_address_of_its_present_run(digest: DigestTable) -> None:
    digest.show_key(_ROW)
    hosts = []
    for host in ("10.0.0.1", ""):  # the next run may be on an instance
        digest.show_node(NodeRow("n", "running", 3, peers=("n",), host=host))
        seen = digest.read()
        routes = [seen.route(_ROW.hash, now_us=0), seen.home(_HASHES[1], now_us=0), *seen.places(now_us=0)]
        hosts.append({route.host for route in routes if route is not None})

    assert hosts == [{"10.0.0.1"}, {""}]


def test_a_route_past_its_deadline_is_none(digest: DigestTable) -> None:
    digest.show_key(replace(_ROW, phase="lambda", tier="lambda", deadline_at_us=1000))

    seen = digest.read()

    assert (seen.route(_ROW.hash, now_us=999), seen.route(_ROW.hash, now_us=1000)) == (Route("lambda"), None)


@pytest.mark.parametrize(
    ("later", "is_shown"),
    [
        (replace(_ROW, epoch=8, phase="lambda", tier="lambda"), True),
        (replace(_ROW, epoch=6, phase="s3", tier=""), False),
        (replace(_ROW, phase="lambda", tier="lambda"), False),
        (replace(_ROW, phase="redis_shutdown", tier=""), True),
        (replace(_ROW, generation=4), True),
    ],
    ids=["next life", "former life", "former phase", "later phase", "repeat"],
)
def test_a_write_that_comes_late_does_not_replace_a_later_life_or_phase(
    digest: DigestTable, later: KeyRow, is_shown: bool
) -> None:
    digest.show_key(_ROW)

    assert digest.show_key(later) is is_shown

    shown = later if is_shown else _ROW
    seen = digest.read().routes[_ROW.hash]
    assert (seen.epoch, seen.tier) == (shown.epoch, shown.tier)


def test_a_late_write_does_not_let_a_stopped_node_run_again(digest: DigestTable) -> None:
    digest.show_node(NodeRow("n", "stopping", 3))

    assert not digest.show_node(NodeRow("n", "running", 3))
    assert not digest.show_node(NodeRow("n", "running", 2))
    assert not digest.read().nodes["n"].is_running


def test_a_key_is_removed_unless_it_was_shown_again_meanwhile(digest: DigestTable) -> None:
    digest.show_key(replace(_ROW, phase="redis_shutdown", tier=""))
    seen = digest.read().routes[_ROW.hash]
    digest.show_key(replace(_ROW, epoch=8, phase="lambda", tier="lambda"))

    digest.remove_key(_ROW.hash, seen)
    kept = digest.read().routes
    digest.remove_key(_ROW.hash, kept[_ROW.hash])

    assert list(kept) == [_ROW.hash]
    assert digest.read().routes == {}


def test_a_key_is_late_until_each_of_its_writes_has_been_followed(digest: DigestTable) -> None:
    digest.show_key(replace(_ROW, phase="lambda", tier="lambda"))
    marks = [digest.mark_late([_ROW.hash], now_us=0) for _ in range(2)]
    routes = [digest.read().route(_ROW.hash, now_us=0)]
    for mark in marks:
        digest.remove_marks(mark)
        routes.append(digest.read().route(_ROW.hash, now_us=0))

    assert routes == [None, None, Route("lambda")]


def test_a_mark_that_nobody_removes_ends_by_itself(digest: DigestTable) -> None:
    digest.show_key(replace(_ROW, phase="lambda", tier="lambda"))
    digest.mark_late([_ROW.hash], now_us=5_000_000)

    seen = digest.read()

    assert seen.route(_ROW.hash, now_us=(5 + LATE_S) * 1_000_000 - 1) is None
    assert seen.route(_ROW.hash, now_us=(5 + LATE_S) * 1_000_000) == Route("lambda")
