"""A change set's losses of state: what ends with it, why, and how to keep it."""

from __future__ import annotations

from typing import Any

import pytest

from burstcache_cli.change_set import Stored, losses

_VOLUMES = frozenset({"StateVolume1", "StateVolume2"})
_LOG = Stored("aof", ("orders", "carts"), _VOLUMES)
_OLD_LOG = Stored("aof", ("orders", "carts"), frozenset())  # of a version with logs on root volumes
_SNAPSHOTS = Stored("rdb", ("orders", "carts"), frozenset())
_NOTHING = Stored("none", ("orders", "carts"), frozenset())


def _change(name: str, action: str = "Modify", replacement: str = "True") -> dict[str, Any]:
    change = {"Action": action, "LogicalResourceId": name, "PhysicalResourceId": f"id-of-{name}"}
    return change | ({"Replacement": replacement} if action == "Modify" else {})


def _lost(stored: Stored, *changes: dict[str, Any], databases: tuple[str, ...] = ("orders", "carts")) -> list[str]:
    return [loss.text for loss in losses(changes, stored, databases)]


@pytest.mark.parametrize("stored", [_LOG, _SNAPSHOTS])
def test_an_instance_is_replaced_without_a_loss_if_its_state_is_elsewhere(stored: Stored) -> None:
    assert _lost(stored, _change("StateInstance1"), _change("StateInstance2", replacement="Conditional")) == []


@pytest.mark.parametrize("stored", [_OLD_LOG, _NOTHING])
@pytest.mark.parametrize("replacement", ["True", "Conditional"])
def test_an_instance_that_has_the_state_itself_is_lost(stored: Stored, replacement: str) -> None:
    (text,) = _lost(stored, _change("StateInstance2", replacement=replacement), _change("RedisInstance1"))

    assert text.startswith("StateInstance2 (id-of-StateInstance2) would be replaced")
    assert "carts" in text
    assert "Move the data" in text


@pytest.mark.parametrize("change", [_change("StateTask"), _change("StateTask", "Remove")])
def test_tasks_that_have_the_state_themselves_are_lost(change: dict[str, Any]) -> None:
    (text,) = _lost(_NOTHING, change, _change("StateInstance1", "Add"), _change("RedisTask"))

    assert text.startswith("StateTask (id-of-StateTask) would be re")
    assert "everything in orders and carts if they are awake" in text
    assert "Move the data" in text


@pytest.mark.parametrize(
    "changes",
    [
        [_change("StateInstance1", "Remove"), _change("StateInstance2", "Remove"), _change("StateTask", "Add")],
        [_change("StateInstance1", "Add"), _change("StateInstance2", "Add"), _change("StateTask", "Remove")],
        [_change("StateTask"), _change("StateTasks", replacement="False")],
    ],
    ids=["to tasks", "to instances", "another definition"],
)
def test_snapshots_are_kept_by_a_move_between_instances_and_tasks(changes: list[dict[str, Any]]) -> None:
    program = _change("StateProgram", "Remove")

    assert _lost(_SNAPSHOTS, *changes, program) == []


def test_a_log_is_lost_by_a_move_to_tasks() -> None:
    changes = [_change(f"State{kind}{number}", "Remove") for number in (1, 2) for kind in ("Instance", "Volume")]

    texts = _lost(_LOG, *changes, _change("StateTask", "Add"))

    assert [text.partition(" ")[0] for text in texts] == ["StateVolume1", "StateVolume2"]


def test_a_log_on_a_root_volume_can_be_kept_by_a_snapshot_of_it() -> None:
    (text,) = _lost(_OLD_LOG, _change("StateInstance1"))

    assert "aws ec2 create-snapshot" in text
    assert "Name=attachment.instance-id,Values=id-of-StateInstance1" in text


@pytest.mark.parametrize("change", [_change("StateVolume1"), _change("StateVolume1", "Remove")])
def test_a_volume_that_is_replaced_or_removed_is_lost(change: dict[str, Any]) -> None:
    (text,) = _lost(_LOG, change)

    assert text.startswith("StateVolume1 (id-of-StateVolume1) would be re")
    assert "the log of orders" in text
    assert "--volume-id id-of-StateVolume1" in text


def test_snapshots_that_no_database_reads_any_more_are_lost() -> None:
    (text,) = _lost(_SNAPSHOTS, _change("StateBucket", "Remove"), _change("StateInstance1"))

    assert text.startswith("StateBucket (id-of-StateBucket) would be removed")


def test_what_is_added_or_changed_in_place_is_not_lost() -> None:
    changes = [_change("StateVolume1", replacement="False"), _change("StateVolume3", "Add")]
    changes += [_change("StateInstance1", replacement="False"), _change("StateBucket", replacement="False")]

    assert _lost(_LOG, *changes, databases=("orders", "carts", "bills")) == []


def test_a_volume_that_would_get_another_database_is_lost() -> None:
    removed = _change("StateVolume2", "Remove")

    texts = _lost(_LOG, removed, databases=("carts",))

    assert [text.partition(" ")[0] for text in texts] == ["StateVolume2", "StateVolume1"]
    assert "has the log of orders, and would belong to carts" in texts[1]
    assert _lost(_SNAPSHOTS, databases=("carts", "orders")) == []
