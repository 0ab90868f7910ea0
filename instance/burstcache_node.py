#!/usr/bin/python3
"""Announce this node, and end half an hour after the last change of its row, when it is unattended."""

from __future__ import annotations

import os
import socket
import ssl
import subprocess
import time
from collections.abc import Callable
from typing import Any

import boto3
from botocore.exceptions import BotoCoreError, ClientError

PATIENCE_S, UNATTENDED_S, LOOK_EVERY_S, SAVE_EVERY_S = 150, 1800, 60, 300
STATE = os.environ.get("STATE_PROGRAM", "")  # saves a database of state
RUN = os.environ.get("RUN", "")  # of a task, which has no address until control writes it into the run's row
CLOSED = ("TaskTimedOut", "TaskDoesNotExist", "InvalidToken")


def redis_answers() -> bool:
    """Return True if Redis answers within a second, even if only to refuse a command without a password."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE  # nobody else listens on this machine
    try:
        with socket.create_connection((os.environ["REDIS_HOST"], 6379), 1) as plain, tls.wrap_socket(plain) as link:
            link.sendall(b"PING\r\n")
            return link.recv(1) != b""
    except OSError:
        return False


def complete(send: Callable[..., object], **message: str) -> None:
    """Complete a task, unless its run has moved on."""
    try:
        send(**message)
    except ClientError as error:
        if error.response["Error"]["Code"] not in CLOSED:
            raise


def announce(states: Any, token: str) -> None:
    """Complete the boot's task as soon as Redis answers, or fail it."""
    give_up_s = time.monotonic() + PATIENCE_S
    while not (ready := redis_answers()) and time.monotonic() < give_up_s:
        time.sleep(0.1)
    if ready:
        complete(states.send_task_success, taskToken=token, output="{}")
    else:
        cause = "Redis does not answer on its own instance; `journalctl` there says why"
        complete(states.send_task_failure, taskToken=token, error="NodeFailedError", cause=cause)
    print("announced" if ready else "Redis does not answer", flush=True)


def main() -> None:
    dynamodb, states = boto3.client("dynamodb"), boto3.client("stepfunctions")
    key = {"pk": {"S": "NODE#" + os.environ["NODE"]}, "sk": {"S": "NODE"}}
    columns = "pk, sk, phase, deadline_at_us, attended_at_us, boot_token" + (", save_token" if STATE else "")
    columns += ", generation, host" if RUN else ""
    attended_s = saved_s = time.monotonic()
    sign: tuple[str | None, ...] = ()
    announced = answered = ""
    while time.monotonic() - attended_s < UNATTENDED_S:
        wait_s = 1 if RUN and not announced else 2 if STATE else LOOK_EVERY_S
        try:
            answer = dynamodb.get_item(TableName=os.environ["TABLE"], Key=key, ProjectionExpression=columns)
            row = {name: "".join(value.values()) for name, value in answer.get("Item", {}).items()}
            if RUN and row.get("generation", "").zfill(len(RUN)) != RUN:
                row = {}  # of another task
            seen = tuple(row.get(name) for name in ("phase", "deadline_at_us", "attended_at_us"))
            if seen != sign:
                attended_s, sign = time.monotonic(), seen
            token = row.get("boot_token", "")
            if row.get("phase") == "booting" and token not in ("", announced) and (row.get("host") or not RUN):
                announce(states, token)
                announced = token
            token = row.get("save_token", "")
            if row.get("phase") == "stopping" and token not in ("", answered):
                if subprocess.run([STATE, "save", "last"]).returncode == 0:
                    complete(states.send_task_success, taskToken=token, output="{}")
                    answered = token
            elif STATE and time.monotonic() - saved_s > SAVE_EVERY_S:
                subprocess.run([STATE, "save"])
                saved_s = time.monotonic()
        except (BotoCoreError, ClientError) as error:
            print(error, flush=True)
            wait_s = 1
        time.sleep(wait_s)
    print("nobody looks after this node: switching it off", flush=True)


if __name__ == "__main__":
    main()
