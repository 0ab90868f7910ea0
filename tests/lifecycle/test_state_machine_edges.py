"""Every edge of both machines is taken: the real definitions in the real interpreter, their functions scripted.

What the functions do is tested elsewhere; here they answer, fail or stay silent as a test says.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import boto3
import pytest

from burstcache.adapters.items import to_values
from burstcache_local.moto import endpoints
from support.project import ROOT

_DEFINITIONS = ROOT / "statemachines"
_TABLE = "edges"
_KEY_INPUT = {"entry": "lambda", "epoch": 7, "failures": 1, "key": "k", "key_hash": "h"}
_NODE_INPUT = {"generation": 7, "node": "node-1", "part": 1}
_LONG_AGO = "2020-01-01T00:00:00Z"

Answer = Callable[[dict[str, Any]], Any]


@dataclass
class Functions:
    """The Lambda service, its functions scripted by operation (`cache` is the cache function)."""

    answers: dict[str, Answer] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)

    def invoke(self, payload: dict[str, Any]) -> tuple[Any, str]:
        operation = payload.get("op", "cache")
        self.calls.append(operation)
        try:
            return self.answers.get(operation, lambda _: {})(payload), ""
        except ScriptedError as error:
            return {"errorType": error.name, "errorMessage": "scripted"}, "Unhandled"


class ScriptedError(Exception):
    """A function fails with an error of that name."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


@pytest.fixture(scope="module")
def functions(cloud_url: str) -> Iterator[Functions]:
    scripted = Functions()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            answer, error = scripted.invoke(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            body = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            if error:
                self.send_header("X-Amz-Function-Error", error)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    former, endpoints.here.lambda_url = endpoints.here.lambda_url, f"http://127.0.0.1:{server.server_port}"
    yield scripted
    endpoints.here.lambda_url = former
    server.shutdown()
    server.server_close()


def _fails(name: str) -> Answer:
    def answer(payload: dict[str, Any]) -> Any:
        raise ScriptedError(name)

    return answer


def _completes(output: dict[str, Any]) -> Answer:
    """Complete the task's token, as a function does that is invoked with one."""

    def answer(payload: dict[str, Any]) -> Any:
        endpoints.client("stepfunctions").send_task_success(taskToken=payload["token"], output=json.dumps(output))
        return {}

    return answer


def _gives(answer: Any) -> Answer:
    return lambda payload: answer


def _fails_task(name: str) -> Answer:
    def answer(payload: dict[str, Any]) -> Any:
        endpoints.client("stepfunctions").send_task_failure(taskToken=payload["token"], error=name, cause="scripted")
        return {}

    return answer


_IDLE = {"cache": _completes({"outcome": "idle"})}
_PROMOTED = {"cache": _completes({"outcome": "promoted"})}
_BOOTED = {"join": _completes({"generation": 7}), "seed": _gives({"node": "node-1", "generation": 7})}
_DOWN = {"cache": _fails_task("RelayDownError")}
_STOP = {"next": "stop"}
_GO_ON = {"next": "continue", "wait_until": _LONG_AGO, "check_at_us": "1"}
_HAND_OVER = {**_GO_ON, "next": "continue_in_successor"}


@dataclass(frozen=True)
class Scenario:
    """One way through a machine."""

    way: str
    answers: dict[str, Answer] = field(default_factory=dict)
    input: dict[str, Any] = field(default_factory=dict)
    substitutions: dict[str, str] = field(default_factory=dict)
    complete_running: str = ""  # how the node's check ends RedisRunning: `success` or an error's name
    row_epoch: int = 7
    lease_epoch: int = 7

    @property
    def states(self) -> list[str]:
        return self.way.split()


_NO_TABLE = {"TableName": "no-such-table"}
_KEY_SCENARIOS = [
    Scenario("IsNodeRunning Lambda IsPromoted ReturnToS3", _IDLE),
    Scenario("IsNodeRunning RestrictedLambda IsPromoted ReturnToS3", _IDLE, {"entry": "restricted"}),
    Scenario("IsNodeRunning Lambda IsPromoted ReturnToS3 Superseded", _IDLE, row_epoch=8),
    Scenario("IsNodeRunning Lambda IsPromoted ReturnToS3 KeyLifecycleFailed", _IDLE, substitutions=_NO_TABLE),
    Scenario("IsNodeRunning Lambda ReturnToS3Failed KeyLifecycleFailed", _DOWN),
    Scenario("IsNodeRunning Lambda ReturnToS3Failed KeyLifecycleFailed", _DOWN, substitutions=_NO_TABLE),
    Scenario("IsNodeRunning RestrictedLambda ReturnToS3Failed KeyLifecycleFailed", _DOWN, {"entry": "restricted"}),
    Scenario(
        "IsNodeRunning Lambda IsPromoted RedisBootup SeedRedis RedisRunning RedisShutdown",
        _PROMOTED | _BOOTED,
        complete_running="success",
    ),
    Scenario(
        "IsNodeRunning RedisBootup SeedRedis RedisRunning RedisShutdown",
        _BOOTED,
        {"entry": "redis"},
        complete_running="success",
    ),
    Scenario(
        "IsNodeRunning RedisBootup SeedRedis RedisRunning RedisShutdown", _BOOTED, {"entry": "redis"}, lease_epoch=8
    ),
    Scenario(
        "IsNodeRunning RedisBootup SeedRedis RedisRunning RedisShutdownFailed KeyLifecycleFailed",
        _BOOTED,
        {"entry": "redis"},
        complete_running="AnyError",
    ),
    Scenario(
        "IsNodeRunning RedisBootup SeedRedis RedisRunning RedisShutdown ReturnToS3Failed KeyLifecycleFailed",
        _BOOTED | {"leave": _fails("RuntimeError")},
        {"entry": "redis"},
        lease_epoch=8,
    ),
    Scenario(
        "IsNodeRunning RedisBootup RedisShutdownFailed KeyLifecycleFailed",
        {"join": _fails_task("NodeFailedError")},
        {"entry": "redis"},
    ),
    Scenario(
        "IsNodeRunning RedisBootup SeedRedis RedisShutdownFailed KeyLifecycleFailed",
        _BOOTED | {"seed": _fails("ObjectTooLargeError")},
        {"entry": "redis"},
    ),
    Scenario(
        "IsNodeRunning RedisBootup RedisShutdownFailed ReturnToS3Failed KeyLifecycleFailed",
        {"join": _fails("SupersededError"), "leave": _fails("RuntimeError")},
        {"entry": "redis"},
    ),
]
_NODE_SCENARIOS = [
    Scenario("IsSuccessor StartNode AwaitNode IsNodeIdle StopNode", {"await_node": _gives(_STOP)}),
    Scenario(
        "IsSuccessor StartNode AwaitNode IsNodeIdle RedisNodeRunning CheckNodeUse IsNodeIdle StopNode",
        {"await_node": _gives(_GO_ON), "check_node": _gives(_STOP)},
    ),
    Scenario("IsSuccessor CheckNodeUse IsNodeIdle StopNode", {"check_node": _gives(_STOP)}, {"part": 2}),
    Scenario("IsSuccessor CheckNodeUse IsNodeIdle StartNodeSuccessor", {"check_node": _gives(_HAND_OVER)}, {"part": 3}),
    Scenario(
        "IsSuccessor CheckNodeUse IsNodeIdle StartNodeSuccessor AbandonNode RedisNodeFailed",
        {"check_node": _gives(_HAND_OVER)},
        {"part": 2},
        {"RedisNodeArn": "arn:aws:states:eu-central-1:123456789012:stateMachine:no-such-machine"},
    ),
    Scenario("IsSuccessor StartNode AbandonNode RedisNodeFailed", {"start_node": _fails("SupersededError")}),
    Scenario("IsSuccessor StartNode AwaitNode AbandonNode RedisNodeFailed", {"await_node": _fails("NodeFailedError")}),
    Scenario(
        "IsSuccessor CheckNodeUse AbandonNode RedisNodeFailed", {"check_node": _fails("SupersededError")}, {"part": 2}
    ),
    Scenario(
        "IsSuccessor StartNode AwaitNode IsNodeIdle StopNode AbandonNode RedisNodeFailed",
        {"await_node": _gives(_STOP), "stop_node": _fails("NodeFailedError"), "abandon_node": _fails("RuntimeError")},
    ),
]


class Stage:
    """Where machines run: one table, and machines made from the definitions with a test's substitutions."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.states, self.dynamodb = boto3.client("stepfunctions"), boto3.client("dynamodb")

    def put(self, pk: str, sk: str, **values: Any) -> None:
        self.dynamodb.put_item(TableName=_TABLE, Item=to_values({"pk": pk, "sk": sk} | values))

    def item(self, pk: str, sk: str) -> dict[str, Any]:
        answer = self.dynamodb.get_item(TableName=_TABLE, Key=to_values({"pk": pk, "sk": sk}))
        return dict(answer.get("Item", {}))

    def start(self, machine: str, input_: dict[str, Any], substitutions: dict[str, str]) -> str:
        text = (_DEFINITIONS / f"{machine}.asl.json").read_text()
        name = f"{self.name}-{machine}"
        arn = f"arn:aws:states:eu-central-1:123456789012:stateMachine:{name}"
        functions = {n: f"arn:aws:lambda:eu-central-1:123456789012:function:{n}" for n in ("cache", "control")}
        known = {
            "CacheFunctionArn": functions["cache"],
            "RedisControlFunctionArn": functions["control"],
            "TableName": _TABLE,
            "RedisNodeArn": arn,
        }
        for substitution, value in (known | substitutions).items():
            text = text.replace(f"${{{substitution}}}", value)
        text = text.replace('"IntervalSeconds": 10', '"IntervalSeconds": 1')
        self.states.create_state_machine(name=name, definition=text, roleArn="arn:aws:iam::123456789012:role/any")
        return str(self.states.start_execution(stateMachineArn=arn, input=json.dumps(input_))["executionArn"])

    def complete_running(self, how: str) -> None:
        """End RedisRunning as the node's check does: by the token in the lease."""
        token = _until(lambda: self.item("NODE#node-1", "LEASE#h").get("running", {}).get("S"))
        if how == "success":
            self.states.send_task_success(taskToken=token, output=json.dumps({"outcome": "idle", "queue_us": [1, 2]}))
        else:
            self.states.send_task_failure(taskToken=token, error=how, cause="scripted")

    def ended(self, arn: str) -> dict[str, Any]:
        return dict(
            _until(
                lambda: (answer := self.states.describe_execution(executionArn=arn))["status"] != "RUNNING" and answer
            )
        )

    def entered(self, arn: str) -> list[str]:
        events = self.states.get_execution_history(executionArn=arn)["events"]
        return [event["stateEnteredEventDetails"]["name"] for event in events if "stateEnteredEventDetails" in event]


@pytest.fixture(scope="module")
def table(cloud_url: str) -> None:
    keys = [("pk", "HASH"), ("sk", "RANGE")]
    boto3.client("dynamodb").create_table(
        TableName=_TABLE,
        KeySchema=[{"AttributeName": name, "KeyType": kind} for name, kind in keys],
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name, _ in keys],
        BillingMode="PAY_PER_REQUEST",
    )


@pytest.fixture
def stage(request: pytest.FixtureRequest, table: None, functions: Functions) -> Stage:
    functions.answers, functions.calls = {}, []
    return Stage(f"s{abs(hash(request.node.name)) % 10**10}")


def _until(ask: Callable[[], Any]) -> Any:
    give_up_s = time.monotonic() + 15
    while not (answer := ask()):
        assert time.monotonic() < give_up_s, "it did not happen"
        time.sleep(0.02)
    return answer


@pytest.mark.parametrize("scenario", _KEY_SCENARIOS, ids=lambda scenario: scenario.way.replace(" ", "-"))
def test_way_of_a_key(stage: Stage, functions: Functions, scenario: Scenario) -> None:
    functions.answers = scenario.answers
    stage.put("KEY#h", "ROUTE", phase="lambda", epoch=scenario.row_epoch, tier="lambda")
    stage.put("NODE#node-1", "LEASE#h", epoch=scenario.lease_epoch)

    arn = stage.start("key_lifecycle", _KEY_INPUT | scenario.input, scenario.substitutions)
    if scenario.complete_running:
        stage.complete_running(scenario.complete_running)
    ended = stage.ended(arn)

    assert stage.entered(arn) == scenario.states, (ended.get("error"), ended.get("cause"))
    assert ended["status"] == ("FAILED" if scenario.states[-1].endswith("Failed") else "SUCCEEDED")


@pytest.mark.parametrize("scenario", _NODE_SCENARIOS, ids=lambda scenario: scenario.way.replace(" ", "-"))
def test_way_of_a_node(stage: Stage, functions: Functions, scenario: Scenario) -> None:
    functions.answers = scenario.answers

    arn = stage.start("redis_node", _NODE_INPUT | scenario.input, scenario.substitutions)
    ended = stage.ended(arn)

    assert stage.entered(arn) == scenario.states, (ended.get("error"), ended.get("cause"))
    assert ended["status"] == ("FAILED" if scenario.states[-1].endswith("Failed") else "SUCCEEDED")


def test_return_to_s3_writes_the_row(stage: Stage, functions: Functions) -> None:
    functions.answers = _IDLE
    stage.put("KEY#h", "ROUTE", phase="lambda", epoch=7, tier="lambda", holder="one", failures=3, not_before_us=1)
    before_us = time.time_ns() // 1000

    stage.ended(stage.start("key_lifecycle", _KEY_INPUT, {}))

    row = stage.item("KEY#h", "ROUTE")
    assert row["phase"] == {"S": "s3"}
    assert before_us - 1000 <= int(row["changed_at_us"]["N"]) <= time.time_ns() // 1000
    assert not {"tier", "holder", "failures", "not_before_us", "deadline_at_us"} & set(row)


def test_failed_life_cools_down_twice_as_long_as_the_last_one(stage: Stage, functions: Functions) -> None:
    functions.answers = _DOWN
    stage.put("KEY#h", "ROUTE", phase="lambda", epoch=7, tier="lambda", holder="one")

    ended = stage.ended(stage.start("key_lifecycle", _KEY_INPUT | {"failures": 1}, {}))

    row = stage.item("KEY#h", "ROUTE")
    cool_down_s = (int(row["not_before_us"]["N"]) - int(row["changed_at_us"]["N"])) / 1e6
    assert (row["phase"], row["failures"]) == ({"S": "s3"}, {"N": "2"})
    assert cool_down_s == pytest.approx(120, abs=1)
    assert (ended["error"], ended["cause"]) == ("RelayDownError", "scripted")


def test_what_was_served_from_redis_is_handed_to_the_last_step(stage: Stage, functions: Functions) -> None:
    left: list[dict[str, Any]] = []
    functions.answers = _BOOTED | {"leave": lambda payload: left.append(payload) or {}}
    stage.put("NODE#node-1", "LEASE#h", epoch=7)

    arn = stage.start("key_lifecycle", _KEY_INPUT | {"entry": "redis"}, {})
    stage.complete_running("success")
    stage.ended(arn)

    assert left[0]["queue_us"] == [1, 2]
    assert left[0]["is_failed"] is False


def test_node_start_is_retried_while_the_instance_stops(stage: Stage, functions: Functions) -> None:
    attempts = iter([_fails("InstanceStoppingTransientError")] * 2 + [_gives({})])
    functions.answers = {"start_node": lambda payload: next(attempts)(payload), "await_node": _gives(_STOP)}

    ended = stage.ended(stage.start("redis_node", _NODE_INPUT, {}))

    assert ended["status"] == "SUCCEEDED"
    assert functions.calls.count("start_node") == 3


def test_successor_runs_under_the_next_parts_name(stage: Stage, functions: Functions) -> None:
    checks = iter([_HAND_OVER, _STOP])
    functions.answers = {"check_node": lambda payload: next(checks)}

    arn = stage.start("redis_node", _NODE_INPUT | {"part": 2}, {})
    stage.ended(arn)
    successor = _until(
        lambda: [
            execution
            for execution in stage.states.list_executions(stateMachineArn=_machine_of(arn))["executions"]
            if execution["name"] == "node-1-7-3" and execution["status"] == "SUCCEEDED"
        ]
    )

    assert successor
    assert functions.calls[-1] == "stop_node"


def test_the_scenarios_take_every_edge() -> None:
    for machine, scenarios in (("key_lifecycle", _KEY_SCENARIOS), ("redis_node", _NODE_SCENARIOS)):
        taken = {edge for scenario in scenarios for edge in zip(scenario.states, scenario.states[1:], strict=False)}

        assert _edges(machine) - taken == set()


def _edges(machine: str) -> set[tuple[str, str]]:
    states = json.loads((_DEFINITIONS / f"{machine}.asl.json").read_text())["States"]
    edges = set()
    for name, state in states.items():
        parts = [state, *state.get("Choices", ()), *state.get("Catch", ())]
        edges |= {(name, part["Next"]) for part in parts if "Next" in part}
        edges |= {(name, state["Default"])} if "Default" in state else set()
    return edges


def _machine_of(execution_arn: str) -> str:
    return execution_arn.replace(":execution:", ":stateMachine:").rpartition(":")[0]
