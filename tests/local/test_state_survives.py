"""Survival of a database of state: `docs/use/state.md`, "What survives", row by row, with kills at every line."""

from __future__ import annotations

import fcntl
import os
import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
import redis

from support.state_rig import Program, StateRig

pytestmark = pytest.mark.slow

# 200 for the figure in docs/evidence/measurements/functions.md.
_CYCLES = int(os.environ.get("BURSTCACHE_STATE_CYCLES", "12"))
_SEED = 1


@pytest.fixture(scope="module")
def program() -> Iterator[Program]:
    with ExitStack() as closers:
        yield Program(closers)


@pytest.fixture
def make_rig(program: Program) -> Iterator[Callable[..., StateRig]]:
    with ExitStack() as closers:
        yield lambda **options: StateRig(program, closers, **options)


@pytest.fixture
def rig(make_rig: Callable[..., StateRig]) -> StateRig:
    """A database that is saved to S3, and that was saved in version 1."""
    rig = make_rig()
    assert rig.boots() == {0}
    rig.write(1)
    rig.stops()
    return rig


def test_everything_survives_a_clean_stop_and_a_new_instance(rig: StateRig) -> None:
    assert rig.boots() == {1}
    rig.write(2)
    rig.stops()
    rig.lose_volume()

    assert rig.boots() == {2}


def test_a_write_is_refused_once_the_last_save_has_begun(rig: StateRig) -> None:
    rig.boots()
    with rig.holder() as holder:
        holder.set("key-0", 1)
        assert rig.call("save", "last")[0] == 0

        with pytest.raises((redis.ConnectionError, redis.AuthenticationError)):
            holder.set("key-0", 2)


def test_a_killed_instance_has_what_the_last_completed_save_has(rig: StateRig) -> None:
    rig.boots()
    rig.write(2)
    assert rig.call("save")[0] == 0  # of every five minutes: holders go on
    rig.write(3)
    rig.kill()

    assert rig.boots() == {2}


def test_a_snapshot_whose_upload_fails_waits_on_the_volume(rig: StateRig) -> None:
    rig.boots()
    rig.write(2)
    assert rig.call("save", "last", AWS_ENDPOINT_URL_S3="http://127.0.0.1:9")[0] == 1
    rig.end_redis()
    assert len(rig.snapshots()) == 1

    assert rig.boots() == {2}
    rig.stops()

    assert len(rig.snapshots()) == 2
    rig.lose_volume()
    assert rig.boots() == {2}


def test_nothing_starts_empty_while_s3_does_not_answer(rig: StateRig) -> None:
    rig.begin_boot()

    status, _ = rig.call("restore", AWS_ENDPOINT_URL_S3="http://127.0.0.1:9")

    assert status == 1
    assert not (rig.root / "restored").exists()


def test_two_instances_that_save_under_one_name_are_not_mixed(rig: StateRig) -> None:
    rig.boots()
    rig.write(2)
    rival = f"{rig.node}/{rig.run:015d}-000001.rdb"
    rig.program.s3.put_object(
        Bucket=rig.bucket, Key=rival, Body=b"of another instance", Metadata={"sha256": "x", "size": "19"}
    )
    rig.stops()

    assert rig.program.s3.get_object(Bucket=rig.bucket, Key=rival)["Body"].read() == b"of another instance"
    assert rig.snapshots()[-1].endswith("-000002.rdb")
    rig.lose_volume()
    assert rig.boots() == {2}


@pytest.mark.parametrize(
    "damage",
    ["torn", *(pytest.param(damage, marks=pytest.mark.weekly) for damage in ("wrong checksum", "no checksum"))],
)
def test_the_newest_whole_snapshot_wins(rig: StateRig, damage: str) -> None:
    rig.boots()
    rig.write(2)
    rig.stops()
    newest = rig.snapshots()[-1]
    object_ = rig.program.s3.get_object(Bucket=rig.bucket, Key=newest)
    body, meta = object_["Body"].read(), object_["Metadata"]
    damaged = {"torn": body[:-9], "wrong checksum": body[:-20] + b"x" * 20, "no checksum": body}[damage]
    rig.program.s3.put_object(
        Bucket=rig.bucket, Key=newest, Body=damaged, Metadata={} if damage == "no checksum" else meta
    )

    assert rig.boots() == {1}


def test_nothing_starts_if_no_snapshot_is_whole(rig: StateRig) -> None:
    rig.program.s3.put_object(Bucket=rig.bucket, Key=rig.snapshots()[-1], Body=b"damaged")
    rig.begin_boot()

    assert rig.call("restore")[0] == 1
    rig.program.log.seek(0)
    assert "none of 1 snapshots is whole" in rig.program.log.read()


def test_a_save_that_takes_too_long_fails_and_is_counted(rig: StateRig) -> None:
    rig.boots()
    before = rig.program.failures()
    with (rig.volume / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another save takes its time

        assert rig.call("save", "last", STATE_LIMIT_S="1")[0] == 1

    assert rig.program.failures() == before + 1


def test_three_snapshots_are_kept(rig: StateRig) -> None:
    for version in range(2, 6):
        rig.boots()
        rig.write(version)
        rig.stops()

    assert len(rig.snapshots()) == 3
    assert rig.boots() == {5}


def test_what_has_not_changed_is_not_saved_again(rig: StateRig) -> None:
    before = rig.snapshots()
    rig.boots()
    rig.stops()

    assert rig.snapshots() == before


def test_saves_and_failures_are_counted(rig: StateRig) -> None:
    assert rig.call("save", "last")[0] == 1  # no Redis runs

    listed = rig.program.cloudwatch.list_metrics(Namespace="Burstcache")["Metrics"]

    assert {metric["MetricName"] for metric in listed} == {"StateSaves", "StateSaveFailures"}
    assert all(metric["Dimensions"] == [{"Name": "Stack", "Value": "stack"}] for metric in listed)


def test_kills_at_every_step_lose_nothing_that_was_saved_and_mix_nothing(rig: StateRig) -> None:
    chance = random.Random(_SEED)
    rig.boots()
    rig.write(2)
    _, save_lines = rig.call("save", "last")
    rig.end_redis()
    rig.begin_boot()
    _, restore_lines = rig.call("restore")
    rig.start_redis()
    saved = version = 2

    for cycle in range(_CYCLES):
        version += 1
        rig.write(version)
        possible = {saved, version}
        # Every line of both in turn, whatever the number of cycles is.
        dies_at = 1 + cycle * (save_lines + restore_lines) // _CYCLES
        dies_in_save = dies_at <= save_lines
        status, _ = rig.call("save", "last", dies_at=dies_at if dies_in_save else 0)
        if status != 0 and chance.random() < 0.5:  # the program alone was killed: its unit starts it again
            status, _ = rig.call("save", "last")
        rig.kill() if status != 0 else rig.end_redis()
        if status == 0:
            possible = {version}
            if chance.random() < 0.3:
                rig.lose_volume()
        rig.begin_boot()
        if not dies_in_save:
            rig.call("restore", dies_at=dies_at - save_lines)
            (rig.root / "restored").unlink(missing_ok=True)  # the instance was killed: it boots again
        assert rig.call("restore")[0] == 0
        rig.start_redis()

        found = rig.read()
        assert found <= possible, f"cycle {cycle} of seed {_SEED}: {found}, possible were {possible}"
        assert len(found) == 1
        saved = version = max(found)


def test_a_log_of_writes_survives_a_killed_server(make_rig: Callable[..., StateRig]) -> None:
    rig = make_rig(persistence="aof")
    rig.start_redis()
    for version in range(1, 6):
        rig.write(version)
        rig.kill()
        rig.start_redis()

        assert rig.read() == {version}
