#!/usr/bin/python3
"""Attach and mount the volume of a database of state before its Redis starts. An empty volume gets a file system."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import Any

import boto3

OWN, NODE, POINT = (os.environ[name] for name in ("STATE_INSTANCE", "NODE", "STATE_POINT"))
DEVICES = os.environ.get("STATE_DEVICES", "/dev/disk/by-id")
ec2 = boto3.client("ec2")


def describe(instance: str) -> dict[str, Any]:
    reservations = ec2.describe_instances(InstanceIds=[instance])["Reservations"]
    return dict(reservations[0]["Instances"][0])


def own_volume() -> str:
    """Return the volume in this instance's tag, which CloudFormation keeps up to date."""
    return str({tag["Key"]: tag["Value"] for tag in describe(OWN)["Tags"]}["burstcache-state-volume"])


def attach(volume: str) -> str:
    """Attach the volume if it is free, and return what the boot waits for. Empty once it is attached."""
    attachments = ec2.describe_volumes(VolumeIds=[volume])["Volumes"][0]["Attachments"]
    if not attachments:
        ec2.attach_volume(VolumeId=volume, InstanceId=OWN, Device="/dev/sdf")
        return "attaching " + volume
    (attachment,) = attachments
    if attachment["InstanceId"] == OWN:
        return "" if attachment["State"] == "attached" else f"{volume} is {attachment['State']}"
    state = describe(attachment["InstanceId"])["State"]["Name"]
    if state == "stopped" and attachment["State"] == "attached":  # an instance that runs may have it mounted
        ec2.detach_volume(VolumeId=volume, InstanceId=attachment["InstanceId"])
    return f"{volume} is {attachment['State']} to {attachment['InstanceId']}, which is {state}"


def run(*command: str) -> int:
    return subprocess.run(command).returncode


def is_empty(device: str) -> bool:
    """Return True if no file system was ever made: mke2fs writes the superblock, within these bytes, at its end."""
    with open(device, "rb") as file:
        return not any(file.read(4096)) and run("blkid", "-p", device) == 2


def mount(device: str) -> None:
    if run("mountpoint", "-q", POINT) == 0:
        return
    if is_empty(device):
        subprocess.run(["mkfs.ext4", "-q", "-m", "0", device], check=True)
    os.makedirs(POINT, 0o755, exist_ok=True)
    subprocess.run(["mount", "-o", "noatime,nodev,nosuid,noexec", device, POINT], check=True)
    subprocess.run(["resize2fs", device], check=True)  # a larger type of instance has a larger volume


def prepare() -> None:
    """Make the folder of Redis's files, which the root volume lacks: without a mounted volume, no Redis starts."""
    with open(POINT + "/database", "a+") as file:
        file.seek(0)
        if (owner := file.read()) not in ("", NODE):
            sys.exit(f"the volume belongs to {owner}, not to {NODE}: give StateDatabases the former order of names")
        if not owner:
            file.write(NODE)
    data, redis = POINT + "/redis", os.stat(os.path.dirname(POINT))
    os.makedirs(data, 0o700, exist_ok=True)
    os.chown(data, redis.st_uid, redis.st_gid)


def main() -> None:
    volume, printed = own_volume(), ""
    device = f"{DEVICES}/nvme-Amazon_Elastic_Block_Store_{volume.replace('-', '')}"
    while waiting := attach(volume) or ("" if os.path.exists(device) else "waiting for " + device):
        if waiting != printed:
            print(waiting, flush=True)
            printed = waiting
        time.sleep(1)
    mount(device)
    prepare()


if __name__ == "__main__":
    main()
