"""The program that announces a Redis node, with a real Redis, and moto."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from typing import Any

import pytest

from burstcache.adapters.items import to_values
from burstcache_local.loop import LoopThread
from burstcache_local.moto.server import MotoServer
from burstcache_local.moto.services import Services
from burstcache_local.stepfunctions.http import HttpApi
from burstcache_local.stepfunctions.service import StepFunctions
from support.node_machine import user_data
from support.project import ROOT
from support.servers import TlsRedis
from support.waiting import LIMIT_S, until

pytestmark = pytest.mark.slow

_RUNNER = """
import json, sys
import burstcache_node
vars(burstcache_node).update(json.loads(sys.argv[1]))
burstcache_node.main()
"""
_TABLE, _HOST = "rows", "127.0.0.77"
_BOOT = """{"QueryLanguage": "JSONata", "StartAt": "Boot", "States": {"Boot": {
    "Type": "Task", "Resource": "arn:aws:states:::lambda:invoke.waitForTaskToken",
    "Arguments": {"FunctionName": "boot", "Payload": "{% $states.context.Task.Token %}"}, "End": true}}}"""


class Instance:
    """A machine on which the program runs, and the services that it asks."""

    def __init__(self, seconds: Mapping[str, float], closers: ExitStack) -> None:
        self._seconds, self._closers = seconds, closers
        self.redis = TlsRedis(6379, host=_HOST)
        closers.callback(self.redis.kill)
        loop = LoopThread()
        closers.callback(loop.stop)
        self._services = Services()
        closers.callback(self._services.close)
        self._token, self.row = "", dict[str, object]()
        states = StepFunctions(
            region=self._services.region, calls={"lambda:invoke": self._boot}, now_us=lambda: time.time_ns() // 1000
        )
        closers.callback(lambda: loop.loop.call_soon_threadsafe(states.close))
        server = MotoServer(self._services, before=HttpApi(states, loop.loop).before)
        server.start()
        closers.callback(server.stop)
        self._states, self._dynamodb = self._services.client("stepfunctions"), self._services.client("dynamodb")
        keys = [{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}]
        types = [{"AttributeName": name, "AttributeType": "S"} for name in ("pk", "sk")]
        self._dynamodb.create_table(
            TableName=_TABLE, KeySchema=keys, AttributeDefinitions=types, BillingMode="PAY_PER_REQUEST"
        )

    async def _boot(self, arguments: dict[str, Any]) -> dict[str, Any]:
        self._token = arguments["Payload"]
        return {"StatusCode": 200, "Payload": {}}

    def boots(self, **columns: object) -> str:
        """Let a run begin, with more columns in its row; return its execution."""
        machine = self._states.create_state_machine(name="boot", definition=_BOOT, roleArn="arn:aws:iam::1:role/any")
        self._token = ""
        execution = self._states.start_execution(stateMachineArn=machine["stateMachineArn"])["executionArn"]
        until(lambda: self._token)
        self.row = {"phase": "booting", "deadline_at_us": time.time_ns() // 1000 + 400_000_000, **columns}
        self.put_row(boot_token=self._token, **self.row)
        return str(execution)

    def get_address(self) -> None:
        """Write the address of the run's task into the row."""
        self.put_row(boot_token=self._token, host=_HOST, **self.row)

    def put_row(self, **columns: object) -> None:
        """Write the node's row."""
        item = to_values({"pk": "NODE#node-1", "sk": "NODE", **columns})
        self._dynamodb.put_item(TableName=_TABLE, Item=item)

    def delete_table(self) -> None:
        """Take away what the row is in."""
        self._dynamodb.delete_table(TableName=_TABLE)

    def ended(self, execution: str) -> dict[str, Any]:
        """Wait until an execution has ended; return its description."""

        def look() -> dict[str, Any]:
            found: dict[str, Any] = self._states.describe_execution(executionArn=execution)
            return {} if found["status"] == "RUNNING" else found

        return until(look)

    def runs_on(self, execution: str) -> bool:
        """Return whether an execution has not ended."""
        return bool(self._states.describe_execution(executionArn=execution)["status"] == "RUNNING")

    def power_on(self, **more: str) -> subprocess.Popen[bytes]:
        """Start the program with more variables, as its unit does at every boot."""
        variables = {
            "AWS_ACCESS_KEY_ID": "id",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_DEFAULT_REGION": self._services.region,
            "AWS_ENDPOINT_URL": self._services.cloud_url,
            "NODE": "node-1",
            "PYTHONPATH": str(ROOT / "instance"),
            "REDIS_HOST": _HOST,
            "TABLE": _TABLE,
            **more,
        }
        process = subprocess.Popen([sys.executable, "-c", _RUNNER, json.dumps(self._seconds)], env=variables)
        self._closers.callback(process.wait, LIMIT_S)
        self._closers.callback(process.terminate)
        return process


@pytest.fixture
def make_instance() -> Iterator[Callable[..., Instance]]:
    """Makes the instance of a test, with some of the program's times in place of its own."""

    def make(**seconds: float) -> Instance:
        return Instance(seconds, closers)

    with ExitStack() as closers:
        yield make


def test_node_is_announced_once_its_redis_answers(make_instance: Callable[..., Instance]) -> None:
    instance = make_instance()
    execution = instance.boots()
    instance.power_on()

    instance.redis.start()

    assert instance.ended(execution)["status"] == "SUCCEEDED"


def test_run_that_begins_while_the_instance_runs_is_announced_too(make_instance: Callable[..., Instance]) -> None:
    instance = make_instance(LOOK_EVERY_S=0.1)
    instance.redis.start()
    first = instance.boots()
    instance.power_on()
    assert instance.ended(first)["status"] == "SUCCEEDED"

    second = instance.boots()

    assert instance.ended(second)["status"] == "SUCCEEDED"


def test_node_whose_redis_stays_silent_fails_its_boot_by_name(make_instance: Callable[..., Instance]) -> None:
    instance = make_instance(PATIENCE_S=0.1)
    execution = instance.boots()
    instance.power_on()

    assert instance.ended(execution)["error"] == "NodeFailedError"


def test_task_is_announced_once_its_run_has_an_address(make_instance: Callable[..., Instance]) -> None:
    instance = make_instance(LOOK_EVERY_S=0.1, UNATTENDED_S=0.5)
    instance.redis.start()
    execution = instance.boots(generation=7)
    assert instance.power_on(RUN="000000000000007").wait(LIMIT_S) == 0
    assert instance.runs_on(execution)

    instance.get_address()
    instance.power_on(RUN="000000000000007")

    assert instance.ended(execution)["status"] == "SUCCEEDED"


def test_task_never_announces_another_run(make_instance: Callable[..., Instance]) -> None:
    instance = make_instance(LOOK_EVERY_S=0.1, UNATTENDED_S=0.5)
    instance.redis.start()
    execution = instance.boots(generation=8)
    instance.get_address()

    assert instance.power_on(RUN="000000000000007").wait(LIMIT_S) == 0

    assert instance.runs_on(execution)


def test_token_of_a_run_that_is_over_is_no_error(make_instance: Callable[..., Instance]) -> None:
    instance = make_instance(LOOK_EVERY_S=0.1, UNATTENDED_S=0.5)
    instance.redis.start()
    instance.put_row(phase="booting", deadline_at_us=0, boot_token="of a run long over")

    assert instance.power_on().wait(LIMIT_S) == 0


def test_instance_that_nobody_looks_after_ends_its_program_with_success(
    make_instance: Callable[..., Instance], resources: dict[str, Any]
) -> None:
    instance = make_instance(LOOK_EVERY_S=0.1, UNATTENDED_S=0.5)
    instance.put_row(phase="running", deadline_at_us=2**62)  # it may be hours away

    assert instance.power_on().wait(LIMIT_S) == 0

    assert "SuccessAction=poweroff" in user_data(resources)


def test_instance_that_the_janitor_looks_after_runs_on_until_it_stops_doing_so(
    make_instance: Callable[..., Instance],
) -> None:
    unattended_s = 3.0
    instance = make_instance(LOOK_EVERY_S=0.1, UNATTENDED_S=unattended_s)
    process, began_s = instance.power_on(), time.monotonic()
    while time.monotonic() - began_s < 1.5 * unattended_s:
        instance.put_row(phase="running", deadline_at_us=2**62, attended_at_us=time.time_ns() // 1000)
        assert process.poll() is None
        time.sleep(0.1)

    assert process.wait(LIMIT_S) == 0


def test_instance_that_cannot_read_its_row_ends_too(make_instance: Callable[..., Instance]) -> None:
    instance = make_instance(LOOK_EVERY_S=0.1, UNATTENDED_S=0.5)
    instance.delete_table()

    assert instance.power_on().wait(LIMIT_S) == 0
