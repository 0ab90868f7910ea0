#!/usr/bin/python3
"""Restore a database of state before its Redis starts. Save it as RUN-NUMBER.rdb on the volume, then in S3."""

from __future__ import annotations

import fcntl
import hashlib
import os
import signal
import socket
import sys
import time
from typing import Any

import boto3
from botocore.config import Config

KEPT = 3
FOLDER, NODE, BUCKET = (os.environ[name] for name in ("STATE_DIR", "NODE", "STATE_BUCKET"))
HOLDER = os.environ.get("STATE_HOLDER", "holder")
DUMP = FOLDER + "/dump.rdb"  # Redis's own. Links keep-NAME to it wait for their upload, links saved-NAME are in S3
s3 = boto3.client("s3")


def only_once(params: dict[str, Any], **_: object) -> None:
    params["headers"]["If-None-Match"] = "*"


for call in ("PutObject", "CompleteMultipartUpload"):
    s3.meta.events.register("before-call.s3." + call, only_once)


class Redis:
    def __init__(self) -> None:
        self.link = socket.socket(socket.AF_UNIX)
        self.link.connect(os.environ["STATE_SOCKET"])
        self.file = self.link.makefile("rb")
        with open(os.environ["STATE_KEEPER"]) as password:
            self.ask("AUTH", "keeper", password.read().strip())

    def ask(self, *words: str) -> str:
        self.link.sendall(b"*%d\r\n" % len(words))
        self.link.sendall(b"".join(b"$%d\r\n%s\r\n" % (len(word), word.encode()) for word in words))
        line = self.file.readline()
        if line[:1] in (b"", b"-"):
            raise OSError("Redis: " + line.decode().strip())
        return self.file.read(int(line[1:]) + 2).decode() if line[:1] == b"$" else ""


def digest(path: str) -> str:
    sha = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            sha.update(block)
    return sha.hexdigest()


def settle() -> None:
    """Flush the folder's entries to the volume."""
    folder = os.open(FOLDER, os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)


def replace_link(old: str, new: str) -> None:
    if os.path.exists(new):
        os.remove(new)
    os.link(old, new)


def in_s3() -> list[str]:
    """Return the names of the snapshots in S3, oldest first."""
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=NODE + "/")
    return sorted(each["Key"].partition("/")[2] for page in pages for each in page.get("Contents", ()))


def links(kind: str) -> dict[str, str]:
    """Return the volume's links `keep-` or `saved-` by the names of their snapshots, oldest first."""
    found = [name for name in sorted(os.listdir(FOLDER)) if name.startswith(kind)]
    return {name[len(kind) :]: FOLDER + "/" + name for name in found}


def next_name(run: str) -> str:
    names = [*links("keep-"), *links("saved-")]
    try:
        names += in_s3()
    except Exception as error:
        print(error, flush=True)  # the volume has its own names; the upload detects those of other instances
    numbers = [int(name[-10:-4]) for name in names if name[:-11] == run]
    return f"{run}-{max(numbers, default=0) + 1:06d}.rdb"


def upload(name: str, path: str) -> None:
    """Put a snapshot into S3, under the next name if another snapshot has its own."""
    sha = digest(path)
    extra = {"Metadata": {"sha256": sha, "size": str(os.path.getsize(path))}}
    try:
        s3.upload_file(path, BUCKET, NODE + "/" + name, ExtraArgs=extra)
    except Exception as error:
        if "PreconditionFailed" not in str(error):
            raise
        if s3.head_object(Bucket=BUCKET, Key=NODE + "/" + name)["Metadata"].get("sha256") != sha:
            other = next_name(name[:-11])
            os.rename(path, FOLDER + "/keep-" + other)
            upload(other, FOLDER + "/keep-" + other)
            return
    older = links("saved-").values()
    os.replace(path, FOLDER + "/saved-" + name)
    for each in older:
        os.remove(each)
    settle()
    for old in in_s3()[:-KEPT]:
        s3.delete_object(Bucket=BUCKET, Key=NODE + "/" + old)


def current_run() -> str:
    """Return the run that this machine belongs to. A task knows its own, and an instance's is in the database's row."""
    if "RUN" in os.environ:
        return os.environ["RUN"]
    key = {"pk": {"S": "NODE#" + NODE}, "sk": {"S": "NODE"}}
    get = boto3.client("dynamodb").get_item
    row = get(TableName=os.environ["TABLE"], Key=key, ProjectionExpression="pk, sk, generation", ConsistentRead=True)
    return f"{int(row['Item']['generation']['N']):015d}"


def shut_out_holders() -> None:
    """Let no write follow the last save, and cancel the save of every five minutes."""
    redis = Redis()
    redis.ask("ACL", "SETUSER", HOLDER, "off")
    redis.ask("CLIENT", "KILL", "USER", HOLDER)
    try:
        redis.ask("BGSAVE", "CANCEL")
    except OSError as error:
        print(error, flush=True)  # none runs, or this Redis cannot


def save(last: bool) -> None:
    redis = Redis()
    if "rdb_changes_since_last_save:0\r" not in redis.ask("INFO", "persistence"):
        if last:
            redis.ask("SAVE")
        else:
            redis.ask("BGSAVE")
            while "rdb_bgsave_in_progress:1" in (state := redis.ask("INFO", "persistence")):
                time.sleep(0.1)
            if "rdb_last_bgsave_status:ok" not in state:
                raise OSError("Redis cannot save: is the volume full?")
    known = {**links("keep-"), **links("saved-")}.values()
    if os.path.exists(DUMP) and not any(os.path.samefile(DUMP, path) for path in known):
        os.link(DUMP, FOLDER + "/keep-" + next_name(current_run()))
        settle()
        for older in [*links("keep-").values()][:-1]:
            os.remove(older)
    for name, path in links("keep-").items():
        upload(name, path)
        count("StateSaves")


def count(metric: str) -> None:
    hurried = Config(connect_timeout=2, read_timeout=5, retries={"max_attempts": 0})  # a metric delays nothing
    dimensions = [{"Name": "Stack", "Value": os.environ["STACK"]}]
    data = [{"MetricName": metric, "Dimensions": dimensions, "Value": 1, "Unit": "Count"}]
    try:
        boto3.client("cloudwatch", config=hurried).put_metric_data(Namespace="Burstcache", MetricData=data)
    except Exception as error:
        print(error, flush=True)


def fetch(name: str, path: str) -> bool:
    """Download a snapshot from S3. Return True if it is whole."""
    meta = s3.head_object(Bucket=BUCKET, Key=NODE + "/" + name)["Metadata"]
    s3.download_file(BUCKET, NODE + "/" + name, path)
    return (digest(path), str(os.path.getsize(path))) == (meta.get("sha256"), meta.get("size"))


def restore() -> None:
    """Give Redis the newest whole snapshot, once per boot: a restarted server has a newer dump."""
    if os.path.exists(os.environ["STATE_MARK"]):
        return
    kept, names, new = links("keep-"), in_s3(), FOLDER + "/new"
    for name in sorted({*kept, *names}, reverse=True):
        if name in kept:
            replace_link(kept[name], new)
        elif fetch(name, new):
            replace_link(new, FOLDER + "/saved-" + name)
        else:
            print(name, "is not whole", flush=True)
            continue
        os.chmod(new, 0o644)
        os.replace(new, DUMP)
        break
    else:
        if names:
            raise OSError(f"none of {len(names)} snapshots is whole")
        if os.path.exists(DUMP):
            os.remove(DUMP)
    settle()
    open(os.environ["STATE_MARK"], "w").close()


def expire(*_: object) -> None:
    raise TimeoutError("the time for this save is over")


def main() -> None:
    signal.signal(signal.SIGALRM, expire)
    signal.alarm(int(os.environ.get("STATE_LIMIT_S", "0")))  # 0: no limit
    with open(FOLDER + "/lock", "w") as lock:
        try:
            if is_last := sys.argv[1:] == ["save", "last"]:
                shut_out_holders()
            fcntl.flock(lock, fcntl.LOCK_EX)  # a stop may coincide with the save of every five minutes
            if sys.argv[1] == "restore":
                restore()
            else:
                save(is_last)
        except Exception:
            count("StateSaveFailures")
            raise


if __name__ == "__main__":
    main()
