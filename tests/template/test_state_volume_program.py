"""The program that attaches and mounts the volume of a database's log: what it makes, keeps and refuses."""

from __future__ import annotations

import os
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import boto3
import pytest

from support.project import ROOT

_PATH = ROOT / "instance/burstcache_volume.py"
_COMMANDS = {
    "blkid": 'test "$FOUND" || exit 2',
    "mkfs.ext4": 'echo "mkfs $4" >> "$DONE"',
    "mount": 'echo "mount $3 $4" >> "$DONE"',
    "mountpoint": 'test "$MOUNTED"',
    "resize2fs": 'echo "resize $1" >> "$DONE"',
}


class Ec2:
    """EC2 with one volume, which an instance may have."""

    def __init__(self, *, holder: str = "", attachment: str = "attached", state: str = "running") -> None:
        self.calls: list[str] = []
        self._attachments = [{"InstanceId": holder, "State": attachment}] if holder else []
        self._state = state

    def describe_volumes(self, **_: Any) -> Any:
        return {"Volumes": [{"Attachments": self._attachments}]}

    def describe_instances(self, **_: Any) -> Any:
        return {"Reservations": [{"Instances": [{"State": {"Name": self._state}}]}]}

    def attach_volume(self, *, InstanceId: str, **_: Any) -> None:
        self.calls.append(f"attach to {InstanceId}")

    def detach_volume(self, *, InstanceId: str, **_: Any) -> None:
        self.calls.append(f"detach from {InstanceId}")


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Any]]:
    """Return the program's functions on a machine with stand-ins for its commands."""

    def make(ec2: Ec2 | None = None, **variables: str) -> dict[str, Any]:
        monkeypatch.setattr(boto3, "client", lambda service: ec2)
        (tmp_path / "bin").mkdir(exist_ok=True)
        for name, body in _COMMANDS.items():
            (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{body}\n")
            (tmp_path / "bin" / name).chmod(0o755)
        own = {"STATE_INSTANCE": "i-own", "NODE": "state-orders", "STATE_POINT": str(tmp_path / "lib/volume")}
        path = os.pathsep.join([str(tmp_path / "bin"), os.environ["PATH"]])
        for name, value in {**own, "PATH": path, "DONE": str(tmp_path / "done"), **variables}.items():
            monkeypatch.setenv(name, value)
        return runpy.run_path(str(_PATH))

    (tmp_path / "lib/volume").mkdir(parents=True)
    (tmp_path / "done").touch()
    return make


def _device(folder: Path, first: bytes) -> str:
    (folder / "device").write_bytes(first.ljust(8192, b"\0"))
    return str(folder / "device")


def test_a_free_volume_is_attached(make: Callable[..., dict[str, Any]]) -> None:
    ec2 = Ec2()

    assert make(ec2)["attach"]("vol-1") == "attaching vol-1"

    assert ec2.calls == ["attach to i-own"]


@pytest.mark.parametrize("attachment", ["attaching", "attached", "detaching", "busy"])
def test_a_boot_waits_until_its_own_volume_is_attached(make: Callable[..., dict[str, Any]], attachment: str) -> None:
    ec2 = Ec2(holder="i-own", attachment=attachment)

    waiting = make(ec2)["attach"]("vol-1")

    assert (waiting == "") == (attachment == "attached")
    assert ec2.calls == []


@pytest.mark.parametrize("state", ["pending", "running", "stopping", "shutting-down", "terminated", "stopped"])
def test_the_volume_is_taken_from_a_stopped_instance_alone(make: Callable[..., dict[str, Any]], state: str) -> None:
    ec2 = Ec2(holder="i-old", state=state)

    waiting = make(ec2)["attach"]("vol-1")

    assert waiting == f"vol-1 is attached to i-old, which is {state}"
    assert ec2.calls == (["detach from i-old"] if state == "stopped" else [])


def test_an_empty_volume_gets_a_file_system_and_is_mounted(make: Callable[..., dict[str, Any]], tmp_path: Path) -> None:
    device = _device(tmp_path, b"")

    make()["mount"](device)

    done = (tmp_path / "done").read_text().splitlines()
    assert done == [f"mkfs {device}", f"mount {device} {tmp_path}/lib/volume", f"resize {device}"]


@pytest.mark.parametrize(("first", "found"), [(b"damaged", ""), (b"", "ext4"), (b"superblock", "ext4")])
def test_whatever_may_be_a_file_system_is_never_overwritten(
    make: Callable[..., dict[str, Any]], tmp_path: Path, first: bytes, found: str
) -> None:
    make(FOUND=found)["mount"](_device(tmp_path, first))

    assert "mkfs" not in (tmp_path / "done").read_text()


def test_a_mounted_volume_is_left_as_it_is(make: Callable[..., dict[str, Any]], tmp_path: Path) -> None:
    make(MOUNTED="yes")["mount"](_device(tmp_path, b""))

    assert (tmp_path / "done").read_text() == ""


def test_the_volume_of_another_database_is_refused(make: Callable[..., dict[str, Any]], tmp_path: Path) -> None:
    make()["prepare"]()
    make()["prepare"]()  # of the same database, at its next boot
    (tmp_path / "lib/volume/redis").rmdir()

    with pytest.raises(SystemExit, match="belongs to state-orders, not to state-carts"):
        make(NODE="state-carts")["prepare"]()

    assert not (tmp_path / "lib/volume/redis").exists()
