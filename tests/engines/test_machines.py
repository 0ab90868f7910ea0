"""State machines in MiniStack's Step Functions: they take the same states to the same end as in the local run's.

Each scenario gives the outcome of every task. Both interpreters are handed the outcomes in place of calls. MiniStack
ignores the `Output` of a Succeed state and describes failed executions with an output, so the outputs compared are
those of tasks that end an execution.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
import pytest

from burstcache_local.stepfunctions.errors import StateError
from engines.processes import missing, running
from support.machine_stage import MachineStage
from support.project import ROOT
from support.waiting import until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(missing("ministack")), reason=missing("ministack")),
]

_DEFINITIONS = {
    path.name.partition(".")[0]: path.read_text() for path in sorted((ROOT / "statemachines").glob("*.asl.json"))
}
_ROLE = "arn:aws:iam::123456789012:role/machine"

Outcome = dict[str, Any]  # {"Return": …} or {"Throw": {"Error": …, "Cause": …}}, as mocks of Step Functions Local are


@dataclass(frozen=True)
class Scenario:
    """One execution: its input and, by state, the outcomes of its tasks in turn. The last one repeats."""

    machine: str
    name: str
    input: Mapping[str, Any]
    outcomes: Mapping[str, list[Outcome]] = field(default_factory=dict)

    def but(self, name: str, outcomes: Mapping[str, list[Outcome]], **input_: Any) -> Scenario:
        """Return a variant."""
        return Scenario(self.machine, name, {**self.input, **input_}, {**self.outcomes, **outcomes})


def _returns(*values: Any) -> list[Outcome]:
    return [{"Return": value} for value in values]


def _answers(*payloads: Any) -> list[Outcome]:
    return _returns(*({"Payload": payload, "StatusCode": 200} for payload in payloads))


def _throws(error: str, cause: str) -> list[Outcome]:
    return [{"Throw": {"Error": error, "Cause": cause}}]


_PAST = "2020-01-01T00:00:00Z"
_KEY_INPUT = {"key": "a b", "key_hash": "h", "epoch": 7, "node": "1", "failures": 3, "entry": "lambda"}
_OUTCOMES = ("idle", "gone", "hot_for_30_days", "unknown")
_PROMOTED = Scenario(
    "key_lifecycle",
    "promoted",
    _KEY_INPUT,
    {
        "Lambda": _returns({"outcome": "promoted", "requests": 5}),
        "RestrictedLambda": _returns({"outcome": "promoted", "requests": 6}),
        "ReturnToS3": _returns({}),
        "RedisBootup": _returns({"node": "1", "generation": 3}),
        "SeedRedis": _answers({"node": "1", "generation": 3}),
        "RedisRunning": _returns({"outcome": "idle", "queue_us": [1, 2]}),
        "RedisShutdown": _answers({"served": 9}),
        "ReturnToS3Failed": _returns({}),
        "RedisShutdownFailed": _answers({"served": 0}),
    },
)
_NODE = Scenario(
    "redis_node",
    "used twice",
    {"node": "1", "generation": 3, "part": 0},
    {
        "BootNode": _returns({}),
        "NodeReady": _answers({"wait_until": _PAST, "check_at_us": 1, "checks": 0}),
        "CheckNodeUse": _answers(
            *({"outcome": "used", "wait_until": _PAST, "check_at_us": at, "checks": at} for at in (2, 3)),
            {"outcome": "unused", "ended": "nobody asked for it"},
        ),
        "SaveNode": _returns({"saved": True}),
        "StopNode": _answers({"stopped": True}),
        "AbandonNode": _answers({"abandoned": True}),
    },
)
_POOL = Scenario(
    "pool",
    "used twice",
    {"generation": 3, "part": 0},
    {
        "WarmPool": _answers(
            *({"outcome": "used", "wait_s": 1, "ticks": at} for at in (1, 2)),
            {"outcome": "unused", "ended": "nobody asked for it"},
        )
    },
)


def _scenarios() -> Iterator[Scenario]:
    yield from (_PROMOTED, _NODE, _POOL)
    for outcome in _OUTCOMES:
        returned = _returns({"outcome": outcome, "requests": 1})
        yield _PROMOTED.but(f"cache function: {outcome}", {"Lambda": returned})
        yield _PROMOTED.but(f"Redis: {outcome}", {"RedisRunning": returned})
    for entry in ("redis", "restricted"):
        yield _PROMOTED.but(f"entry {entry}", {}, entry=entry)
    yield _PROMOTED.but("another execution's input", {}, is_named=False)
    for ended in ("unsaved", "superseded"):
        yield _NODE.but(ended, {"CheckNodeUse": _answers({"outcome": ended, "ended": "so"})})
    yield _POOL.but("superseded", {"WarmPool": _answers({"outcome": "superseded"})})
    yield from _failures()


def _failures() -> Iterator[Scenario]:
    """Yield a scenario for each task and each error that a state names, and for one that none does."""
    bases = {
        "RestrictedLambda": _PROMOTED.but("", {}, entry="restricted"),
        "ReturnToS3": _PROMOTED.but("", {"Lambda": _returns({"outcome": "idle"})}),
        "ReturnToS3Failed": _PROMOTED.but("", {"Lambda": _throws("OddError", "odd")}),
        "RedisShutdownFailed": _PROMOTED.but("", {"SeedRedis": _throws("OddError", "odd")}),
        "SaveNode": _NODE.but("", {"CheckNodeUse": _answers({"outcome": "unsaved", "ended": "so"})}),
        "AbandonNode": _NODE.but("", {"NodeReady": _throws("OddError", "odd")}),
    }
    for base in (_PROMOTED, _NODE, _POOL):
        for state, definition in json.loads(_DEFINITIONS[base.machine])["States"].items():
            if definition["Type"] != "Task":
                continue
            caught = {error for catch in definition["Catch"] for error in catch["ErrorEquals"]}
            for error in sorted((caught - {"States.ALL"}) | {"OddError", "States.Timeout"}):
                for cause in ("why", ""):
                    outcome = {state: _throws(error, cause)}
                    yield bases.get(state, base).but(f"{state}: {error} {cause}".strip(), outcome)


SCENARIOS = list(_scenarios())


@pytest.fixture(scope="module")
def step_functions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Yield a client of MiniStack with all machines, which takes its tasks' outcomes from a file."""
    path = tmp_path_factory.mktemp("machines") / "mocks.json"
    _write_mocks(path)
    environment = {"SERVICES": "stepfunctions", "SFN_MOCK_CONFIG": str(path), "SFN_WAIT_SCALE": "0"}
    with running("ministack", environment) as port:
        client = boto3.client(
            "stepfunctions",
            "eu-central-1",
            endpoint_url=f"http://127.0.0.1:{port}",
            aws_access_key_id="123456789012",
            aws_secret_access_key="secret",
        )
        for name, definition in _DEFINITIONS.items():
            client.create_state_machine(name=name, definition=definition, roleArn=_ROLE)
        yield client


def _write_mocks(path: Path) -> None:
    machines: dict[str, Any] = {name: {"TestCases": {}} for name in _DEFINITIONS}
    responses = {}
    for number, scenario in enumerate(SCENARIOS):
        states = {state: f"{number} {state}" for state in scenario.outcomes}
        machines[scenario.machine]["TestCases"][str(number)] = states
        for state, outcomes in scenario.outcomes.items():
            last = len(outcomes) - 1
            turns = {str(turn): outcome for turn, outcome in enumerate(outcomes[:last])}
            responses[states[state]] = {**turns, f"{last}-1000000": outcomes[last]}
    path.write_text(json.dumps({"StateMachines": machines, "MockedResponses": responses}))


@dataclass(frozen=True)
class _Ended:
    status: str
    states: list[str]
    output: Any
    error: str
    cause: str


def _ended(description: Mapping[str, Any], events: list[dict[str, Any]]) -> _Ended:
    entered = [event for event in events if event["type"].endswith("StateEntered")]
    has_output = description["status"] == "SUCCEEDED" and entered[-1]["type"] == "TaskStateEntered"
    return _Ended(
        description["status"],
        [event["stateEnteredEventDetails"]["name"] for event in entered],
        json.loads(description["output"]) if has_output else None,
        description.get("error") or "",
        description.get("cause") or "",
    )


def _name_and_input(number: int, scenario: Scenario) -> tuple[str, str]:
    input_ = dict(scenario.input)
    name = f"scenario-{number}"
    return name, json.dumps({**input_, "name": name if input_.pop("is_named", True) else "another"})


def _in_ministack(client: Any, number: int, scenario: Scenario) -> _Ended:
    arns = {each["name"]: each["stateMachineArn"] for each in client.list_state_machines()["stateMachines"]}
    name, input_ = _name_and_input(number, scenario)
    machine = f"{arns[scenario.machine]}#{number}"
    arn = client.start_execution(stateMachineArn=machine, name=name, input=input_)["executionArn"]

    def described() -> Any:
        found = client.describe_execution(executionArn=arn)
        return found if found["status"] != "RUNNING" else None

    found = until(described)
    pages = client.get_paginator("get_execution_history").paginate(executionArn=arn)
    return _ended(found, [event for page in pages for event in page["events"]])


def _in_the_local_run(number: int, scenario: Scenario) -> _Ended:
    stage = MachineStage({"lambda:invoke": _unused, "aws-sdk:dynamodb:updateItem": _unused})
    state, turns = "", Counter[str]()

    def enter(_: Any, name: str) -> None:
        nonlocal state
        state = name

    async def call(arguments: dict[str, Any]) -> Any:
        outcomes = scenario.outcomes[state]
        outcome = outcomes[min(turns[state], len(outcomes) - 1)]
        turns[state] += 1
        if thrown := outcome.get("Throw"):
            raise StateError(thrown["Error"], thrown["Cause"])
        token = arguments.get("Payload", {}).get("token") or arguments.get("ExpressionAttributeValues", {}).get(
            ":token", {}
        ).get("S")
        if token:
            output = json.dumps(outcome["Return"])
            stage.states.answer("SendTaskSuccess", {"taskToken": token, "output": output})
        return outcome["Return"]

    stage.states._calls.update({"lambda:invoke": call, "aws-sdk:dynamodb:updateItem": call})
    stage.states.on_enter = enter
    name, input_ = _name_and_input(number, scenario)

    async def run() -> tuple[Any, list[dict[str, Any]]]:
        request = {"name": "machine", "definition": _DEFINITIONS[scenario.machine], "roleArn": _ROLE}
        machine = stage.states.answer("CreateStateMachine", request)["stateMachineArn"]
        arn = stage.start(machine, json.loads(input_), name)
        return await stage.ended(arn), stage.events(arn, maxResults=100_000)

    ended = _ended(*stage.do(run()))
    stage.close()
    return ended


async def _unused(_: dict[str, Any]) -> Any:
    raise AssertionError


@pytest.mark.parametrize("number", range(len(SCENARIOS)), ids=[f"{each.machine}: {each.name}" for each in SCENARIOS])
def test_an_execution_takes_the_same_states_to_the_same_end(step_functions: Any, number: int) -> None:
    scenario = SCENARIOS[number]

    assert _in_ministack(step_functions, number, scenario) == _in_the_local_run(number, scenario)
