"""Every edge of the machines is taken: the real definitions in the interpreter, their functions scripted.

What the functions do is tested elsewhere; here they answer, fail or stay silent as a test says.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from burstcache.adapters.items import to_plain, to_values
from burstcache_local.stepfunctions.errors import StateError
from burstcache_local.stepfunctions.integrations import update_item_of
from support.aws import REGION, TABLE, clients, make_stack, mocked_aws, put_row
from support.machine_stage import MachineStage
from support.project import ROOT

_DEFINITIONS = ROOT / "statemachines"
_KEY_INPUT = {
    "entry": "lambda",
    "epoch": 7,
    "failures": 1,
    "key": "k",
    "key_hash": "h",
    "name": "k-h-7",
    "node": "node-1",
}
_NODE_INPUT = {"generation": 7, "node": "node-1", "part": 1}
_POOL_INPUT = {"generation": 7, "part": 1}
_LONG_AGO = "2020-01-01T00:00:00Z"
_SERVES_ALONE_S = 900 - 10 - 60  # an invocation of the cache function, before it has the next one started

Answer = Callable[["Stage", dict[str, Any]], Any]


class Functions:
    """The Lambda service, its functions scripted by operation (`cache` is the cache function)."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.answers: Mapping[str, Answer] = {}
        self.calls: list[str] = []
        self.payloads: list[dict[str, Any]] = []

    async def invoke(self, arguments: dict[str, Any]) -> Any:
        payload = arguments["Payload"]
        operation = payload.get("op", "cache")
        self.calls.append(operation)
        self.payloads.append(payload)
        answer = self.answers[operation](self._stage, payload) if operation in self.answers else {}
        return {"Payload": answer, "StatusCode": 200}


def _fails(name: str) -> Answer:
    def answer(stage: Stage, payload: dict[str, Any]) -> Any:
        raise StateError(name, "scripted")

    return answer


def _completes(output: dict[str, Any]) -> Answer:
    """Complete the task's token, as a function does that is invoked with one."""

    def answer(stage: Stage, payload: dict[str, Any]) -> Any:
        stage.states.answer("SendTaskSuccess", {"taskToken": payload["token"], "output": json.dumps(output)})
        return {}

    return answer


def _gives(answer: Any) -> Answer:
    return lambda stage, payload: answer


def _fails_task(name: str) -> Answer:
    def answer(stage: Stage, payload: dict[str, Any]) -> Any:
        stage.states.answer("SendTaskFailure", {"taskToken": payload["token"], "error": name, "cause": "scripted"})
        return {}

    return answer


_IDLE = {"cache": _completes({"outcome": "idle"})}
_PROMOTED = {"cache": _completes({"outcome": "promoted"})}
_BOOTED = {"join": _completes({"generation": 7}), "seed": _gives({"node": "node-1", "generation": 7})}
_DOWN = {"cache": _fails_task("RelayDownError")}
_GO_ON = {"outcome": "used", "wait_until": _LONG_AGO, "check_at_us": "1", "checks": 0}
_READY = {"boot_node": _completes({}), "ready_node": _gives(_GO_ON)}
_LEFT = _fails("SupersededError")
_UNUSED, _UNSAVED, _OVER = (
    _gives({"outcome": outcome, "ended": "for a reason"}) for outcome in ("unused", "unsaved", "superseded")
)
_SAVED = {"save_node": _completes({})}


def _is_used_once(stage: Stage, payload: dict[str, Any]) -> Any:
    return (_gives(_GO_ON) if stage.functions.calls.count("check_node") == 1 else _UNUSED)(stage, payload)


@dataclass(frozen=True)
class Scenario:
    """One way through a machine."""

    way: str
    answers: dict[str, Answer] = field(default_factory=dict)
    input: dict[str, Any] = field(default_factory=dict)
    substitutions: dict[str, str] = field(default_factory=dict)
    complete_running: str = ""  # how the node's check ends RedisRunning: `success` or an error's name
    name: str = ""  # the execution's, if it is not its own
    row_epoch: int = 7
    lease_epoch: int = 7

    @property
    def states(self) -> list[str]:
        return self.way.split()

    @property
    def status(self) -> str:
        return "FAILED" if self.way.endswith("Failed") else "SUCCEEDED"


_NO_TABLE = {"TableName": "no-such-table"}
_KEY_SCENARIOS = [
    Scenario("IsNodeRunning Lambda IsPromoted ReturnToS3", _IDLE),
    Scenario("IsNodeRunning RestrictedLambda IsPromoted ReturnToS3", _IDLE, {"entry": "restricted"}),
    Scenario("IsNodeRunning Lambda IsPromoted ReturnToS3 Superseded", _IDLE, row_epoch=8),
    Scenario("IsNodeRunning Superseded", input={"name": "of-another"}, name="by-hand"),
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
    Scenario("IsNodeRunning RedisBootup RedisShutdown", {"join": _fails_task("NodeFailedError")}, {"entry": "redis"}),
    Scenario(
        "IsNodeRunning RedisBootup RedisShutdownFailed KeyLifecycleFailed",
        {"join": _fails_task("AnyError")},
        {"entry": "redis"},
    ),
    Scenario(
        "IsNodeRunning RedisBootup SeedRedis RedisShutdownFailed KeyLifecycleFailed",
        _BOOTED | {"seed": _fails("AccessDeniedError")},
        {"entry": "redis"},
    ),
    Scenario(
        "IsNodeRunning RedisBootup SeedRedis RedisRunning RedisShutdown",
        _BOOTED | {"seed": _gives({"node": "node-1", "generation": 7, "outcome": "gone"})},
        {"entry": "redis"},
        lease_epoch=8,
    ),
    Scenario(
        "IsNodeRunning RedisBootup RedisShutdownFailed ReturnToS3Failed KeyLifecycleFailed",
        {"join": _fails("SupersededError"), "leave": _fails("RuntimeError")},
        {"entry": "redis"},
    ),
]
_NODE_SCENARIOS = [
    Scenario("BootNode NodeReady RedisNodeRunning CheckNodeUse IsNodeUsed StopNode", _READY | {"check_node": _UNUSED}),
    Scenario(
        "BootNode NodeReady RedisNodeRunning CheckNodeUse IsNodeUsed RedisNodeRunning CheckNodeUse IsNodeUsed StopNode",
        _READY | {"check_node": _is_used_once},
    ),
    Scenario(
        "BootNode NodeReady RedisNodeRunning CheckNodeUse IsNodeUsed SaveNode StopNode",
        _READY | _SAVED | {"check_node": _UNSAVED},
    ),
    Scenario("BootNode Superseded", {"boot_node": _LEFT}),
    Scenario("BootNode NodeReady RedisNodeRunning CheckNodeUse IsNodeUsed Superseded", _READY | {"check_node": _OVER}),
    Scenario(
        "BootNode NodeReady RedisNodeRunning CheckNodeUse IsNodeUsed SaveNode Superseded",
        _READY | {"check_node": _UNSAVED, "save_node": _LEFT},
    ),
    Scenario(
        "BootNode NodeReady RedisNodeRunning CheckNodeUse IsNodeUsed StopNode Superseded",
        _READY | {"check_node": _UNUSED, "stop_node": _LEFT},
    ),
    Scenario("BootNode AbandonNode RedisNodeFailed", {"boot_node": _fails_task("NodeFailedError")}),
    Scenario("BootNode NodeReady AbandonNode RedisNodeFailed", _READY | {"ready_node": _fails("RuntimeError")}),
    Scenario(
        "BootNode NodeReady RedisNodeRunning CheckNodeUse AbandonNode RedisNodeFailed",
        _READY | {"check_node": _fails("RuntimeError")},
    ),
    Scenario(
        "BootNode NodeReady RedisNodeRunning CheckNodeUse IsNodeUsed SaveNode AbandonNode RedisNodeFailed",
        _READY | {"check_node": _UNSAVED, "save_node": _fails_task("AnyError")},
    ),
    Scenario(
        "BootNode NodeReady RedisNodeRunning CheckNodeUse IsNodeUsed StopNode AbandonNode RedisNodeFailed",
        _READY
        | {"check_node": _UNUSED, "stop_node": _fails("NodeFailedError"), "abandon_node": _fails("RuntimeError")},
    ),
]

_WAIT = _gives({"outcome": "used", "wait_s": 1, "ticks": 1})


def _is_wanted_once(stage: Stage, payload: dict[str, Any]) -> Any:
    return (_WAIT if stage.functions.calls.count("tick") == 1 else _UNUSED)(stage, payload)


_POOL_SCENARIOS = [
    Scenario("WarmPool IsPoolUsed PoolUnused", {"tick": _UNUSED}),
    Scenario("WarmPool IsPoolUsed PoolRunning WarmPool IsPoolUsed PoolUnused", {"tick": _is_wanted_once}),
    Scenario("WarmPool IsPoolUsed Superseded", {"tick": _OVER}),
    Scenario("WarmPool PoolFailed", {"tick": _fails("FunctionFailedError")}),
]


class Stage(MachineStage):
    """The machines with scripted functions, the real table, and a test's substitutions."""

    def __init__(self) -> None:
        self.functions = Functions(self)
        update_item = update_item_of(lambda: clients().dynamodb)
        super().__init__({"lambda:invoke": self.functions.invoke, "aws-sdk:dynamodb:updateItem": update_item})

    def item(self, pk: str, sk: str) -> dict[str, Any]:
        answer = clients().dynamodb.get_item(TableName=TABLE, Key=to_values({"pk": pk, "sk": sk}))
        return to_plain(answer.get("Item", {}))

    def walk(
        self,
        machine: str,
        given: Mapping[str, Any],
        *,
        substitutions: Mapping[str, str] | None = None,
        running: str = "",
        name: str = "",
    ) -> dict[str, Any]:
        """Return the description of an execution that has ended.

        Args:
            machine: The machine's file.
            given: The execution's input.
            substitutions: Values in place of those that work.
            running: How the node's check ends RedisRunning: `success` or an error's name; empty: it does not.
            name: The execution's; empty: its own.
        """

        async def work() -> dict[str, Any]:
            execution = self.start(
                self._create(machine, substitutions or {}), given, name or str(given.get("name", ""))
            )
            if running:
                await self._end_running(running)
            return await self.ended(execution)

        return dict(self.do(work()))

    async def _end_running(self, how: str) -> None:
        """End RedisRunning as the node's check does: by the token in the lease."""
        while not (token := self.item("NODE#node-1", "LEASE#h").get("running")):
            await asyncio.sleep(0.1)
        if how == "success":
            output = json.dumps({"outcome": "idle", "queue_us": [1, 2]})
            self.states.answer("SendTaskSuccess", {"taskToken": token, "output": output})
        else:
            self.states.answer("SendTaskFailure", {"taskToken": token, "error": how, "cause": "scripted"})

    def entered(self, arn: str) -> list[str]:
        events = self.events(arn)
        return [event["stateEnteredEventDetails"]["name"] for event in events if "stateEnteredEventDetails" in event]

    def all_events(self, arn: str) -> list[dict[str, Any]]:
        """Return the events of an execution, however many."""
        page = self.states.answer("GetExecutionHistory", {"executionArn": arn})
        events = list(page["events"])
        while token := page.get("nextToken"):
            page = self.states.answer("GetExecutionHistory", {"executionArn": arn, "nextToken": token})
            events += page["events"]
        return events

    def _create(self, machine: str, substitutions: Mapping[str, str]) -> str:
        arn = f"arn:aws:states:{REGION}:123456789012:stateMachine:{machine}"
        known = {
            "CacheFunctionArn": "cache",
            "RedisControlFunctionArn": "control",
            "PoolControlFunctionArn": "pool_control",
            "TableName": TABLE,
            "RedisNodeArn": arn,
        }
        text = (_DEFINITIONS / f"{machine}.asl.json").read_text()
        for placeholder, value in {**known, **substitutions}.items():
            text = text.replace(f"${{{placeholder}}}", value)
        self.states.answer("CreateStateMachine", {"name": machine, "definition": text})
        return arn


@pytest.fixture
def stage() -> Iterator[Stage]:
    with mocked_aws():
        make_stack()
        made = Stage()
        yield made
        made.close()


@pytest.mark.parametrize("scenario", _KEY_SCENARIOS, ids=lambda scenario: scenario.way.replace(" ", "-"))
def test_way_of_a_key(stage: Stage, scenario: Scenario) -> None:
    stage.functions.answers = scenario.answers
    put_row("KEY#h", "ROUTE", {"phase": "lambda", "epoch": scenario.row_epoch, "tier": "lambda"})
    put_row("NODE#node-1", "LEASE#h", {"epoch": scenario.lease_epoch})

    ended = stage.walk(
        "key_lifecycle",
        _KEY_INPUT | scenario.input,
        substitutions=scenario.substitutions,
        running=scenario.complete_running,
        name=scenario.name,
    )

    assert stage.entered(ended["executionArn"]) == scenario.states, (ended.get("error"), ended.get("cause"))
    assert ended["status"] == scenario.status


@pytest.mark.parametrize("scenario", _NODE_SCENARIOS, ids=lambda scenario: scenario.way.replace(" ", "-"))
def test_way_of_a_node(stage: Stage, scenario: Scenario) -> None:
    stage.functions.answers = scenario.answers

    ended = stage.walk("redis_node", _NODE_INPUT | scenario.input, substitutions=scenario.substitutions)

    assert stage.entered(ended["executionArn"]) == scenario.states, (ended.get("error"), ended.get("cause"))
    assert ended["status"] == scenario.status


@pytest.mark.parametrize("scenario", _POOL_SCENARIOS, ids=lambda scenario: scenario.way.replace(" ", "-"))
def test_way_of_the_pool(stage: Stage, scenario: Scenario) -> None:
    stage.functions.answers = scenario.answers

    ended = stage.walk("pool", _POOL_INPUT)

    assert stage.entered(ended["executionArn"]) == scenario.states, (ended.get("error"), ended.get("cause"))
    assert ended["status"] == scenario.status


def test_tick_of_the_pool_says_how_many_there_were_before_it(stage: Stage) -> None:
    stage.functions.answers = {"tick": _is_wanted_once}

    stage.walk("pool", _POOL_INPUT)

    assert [payload["ticks"] for payload in stage.functions.payloads] == [0, 1]


@pytest.mark.parametrize(
    "error", ["ServiceTransientError", "Lambda.TooManyRequestsException", "Sandbox.Timedout", "Runtime.ExitError"]
)
def test_passing_error_of_a_tick_does_not_end_the_pool(stage: Stage, error: str) -> None:
    answers = iter([_fails(error)] * 3)
    stage.functions.answers = {"tick": lambda stage, payload: next(answers, _UNUSED)(stage, payload)}

    ended = stage.walk("pool", _POOL_INPUT)

    assert ended["status"] == "SUCCEEDED"


def test_execution_that_a_person_started_with_the_input_of_another_touches_nothing(stage: Stage) -> None:
    row = {"phase": "lambda", "epoch": 7, "tier": "lambda", "holder": "one"}
    put_row("KEY#h", "ROUTE", row)

    ended = stage.walk("key_lifecycle", _KEY_INPUT, name="by-hand")

    assert stage.entered(ended["executionArn"]) == ["IsNodeRunning", "Superseded"]
    assert ended["status"] == "SUCCEEDED"
    assert stage.functions.calls == []
    assert stage.item("KEY#h", "ROUTE").items() >= row.items()


def test_return_to_s3_writes_the_row(stage: Stage) -> None:
    stage.functions.answers = _IDLE
    row = {"phase": "lambda", "epoch": 7, "tier": "lambda", "holder": "one", "failures": 3, "not_before_us": 1}
    put_row("KEY#h", "ROUTE", row)
    now_ms = stage.clock.now_us() // 1000

    stage.walk("key_lifecycle", _KEY_INPUT)

    row = stage.item("KEY#h", "ROUTE")
    assert (row["phase"], row["changed_at_us"]) == ("s3", now_ms * 1000)
    assert not {"tier", "holder", "failures", "not_before_us", "deadline_at_us"} & set(row)


def test_failed_life_cools_down_twice_as_long_as_the_last_one(stage: Stage) -> None:
    stage.functions.answers = _DOWN
    put_row("KEY#h", "ROUTE", {"phase": "lambda", "epoch": 7, "tier": "lambda", "holder": "one"})

    ended = stage.walk("key_lifecycle", _KEY_INPUT | {"failures": 1})

    row = stage.item("KEY#h", "ROUTE")
    assert (row["phase"], row["failures"]) == ("s3", 2)
    assert row["not_before_us"] - row["changed_at_us"] == 120_000_000
    assert (ended["error"], ended["cause"]) == ("RelayDownError", "scripted")


def test_cache_functions_that_send_no_heartbeat_fail_their_life_after_three_minutes(stage: Stage) -> None:
    put_row("KEY#h", "ROUTE", {"phase": "lambda", "epoch": 7, "tier": "lambda", "holder": "one"})

    ended = stage.walk("key_lifecycle", _KEY_INPUT)

    assert (ended["status"], ended["error"]) == ("FAILED", "Timeout")
    assert ended["cause"].startswith("three times no heartbeat for 60 s")
    assert [payload["attempt"] for payload in stage.functions.payloads] == [0, 1, 2]
    assert stage.item("KEY#h", "ROUTE")["phase"] == "s3"
    assert stage.clock.monotonic_s() == pytest.approx(3 * 60 + 2, abs=0.1)


@pytest.mark.parametrize("error", ["ServiceTransientError", "Lambda.Unknown", "Lambda.ClientExecutionTimeoutException"])
@pytest.mark.parametrize("operation", ["join", "seed", "leave"])
def test_passing_error_of_a_step_is_no_failure_of_the_life(stage: Stage, operation: str, error: str) -> None:
    usual = {**_BOOTED, "leave": _gives({})}
    answers = iter([_fails(error)] * 3)
    stage.functions.answers = usual | {
        operation: lambda stage, payload: next(answers, usual[operation])(stage, payload),
    }
    put_row("NODE#node-1", "LEASE#h", {"epoch": 7})

    ended = stage.walk("key_lifecycle", _KEY_INPUT | {"entry": "redis"}, running="success")

    assert ended["status"] == "SUCCEEDED"
    assert stage.functions.calls.count(operation) == 4


@pytest.mark.parametrize("error", ["ServiceTransientError", "Sandbox.Timedout", "Runtime.ExitError"])
@pytest.mark.parametrize("operation", ["boot_node", "ready_node", "check_node", "save_node", "stop_node"])
def test_passing_error_of_a_step_does_not_take_the_node_away(stage: Stage, operation: str, error: str) -> None:
    usual = {**_READY, **_SAVED, "check_node": _UNSAVED, "stop_node": _gives({})}
    answers = iter([_fails(error)] * 3)
    stage.functions.answers = usual | {
        operation: lambda stage, payload: next(answers, usual[operation])(stage, payload),
    }

    ended = stage.walk("redis_node", _NODE_INPUT)

    assert ended["status"] == "SUCCEEDED"
    assert "abandon_node" not in stage.functions.calls


@pytest.mark.parametrize("error", ["Runtime.ExitError", "RuntimeError", "Lambda.Unknown"])
def test_abandoning_a_node_is_repeated_whatever_it_died_of(stage: Stage, error: str) -> None:
    attempts = iter([_fails(error)] * 3 + [_gives({})])
    stage.functions.answers = {
        "boot_node": _fails_task("NodeFailedError"),
        "abandon_node": lambda stage, payload: next(attempts)(stage, payload),
    }

    ended = stage.walk("redis_node", _NODE_INPUT)

    assert (ended["status"], ended["error"]) == ("FAILED", "NodeFailedError")
    assert stage.functions.calls.count("abandon_node") == 4


def test_cache_function_whose_start_meets_a_passing_error_is_started_again(stage: Stage) -> None:
    answers = iter([_fails_task("ServiceTransientError"), _completes({"outcome": "idle"})])
    stage.functions.answers = {"cache": lambda stage, payload: next(answers)(stage, payload)}
    put_row("KEY#h", "ROUTE", {"phase": "lambda", "epoch": 7, "tier": "lambda"})

    ended = stage.walk("key_lifecycle", _KEY_INPUT)

    assert ended["status"] == "SUCCEEDED"
    assert [payload["attempt"] for payload in stage.functions.payloads] == [0, 1]


def test_what_was_served_from_redis_is_handed_to_the_last_step(stage: Stage) -> None:
    stage.functions.answers = _BOOTED
    put_row("NODE#node-1", "LEASE#h", {"epoch": 7})

    stage.walk("key_lifecycle", _KEY_INPUT | {"entry": "redis"}, running="success")

    left = stage.functions.payloads[-1]
    assert (left["op"], left["queue_us"], left["is_failed"]) == ("leave", [1, 2], False)


def test_stop_is_repeated_until_the_instance_has_started(stage: Stage) -> None:
    attempts = iter([_fails("InstancePendingTransientError")] * 2 + [_gives({})])
    stage.functions.answers = _READY | {
        "check_node": _UNUSED,
        "stop_node": lambda stage, payload: next(attempts)(stage, payload),
    }

    ended = stage.walk("redis_node", _NODE_INPUT)

    assert ended["status"] == "SUCCEEDED"
    assert stage.functions.calls.count("stop_node") == 3
    assert stage.clock.monotonic_s() == pytest.approx(20, abs=0.1)


def test_instance_that_does_not_announce_itself_fails_its_run_after_seven_minutes(stage: Stage) -> None:
    ended = stage.walk("redis_node", _NODE_INPUT)

    assert (ended["status"], ended["error"]) == ("FAILED", "Timeout")
    assert ended["cause"] == "the instance did not announce itself within 420 s"
    assert stage.functions.calls == ["boot_node", "abandon_node"]
    assert stage.clock.monotonic_s() == pytest.approx(420, abs=0.1)


def test_database_that_is_not_saved_in_ten_minutes_is_abandoned_with_a_cause(stage: Stage) -> None:
    stage.functions.answers = _READY | {"check_node": _UNSAVED}

    ended = stage.walk("redis_node", _NODE_INPUT)

    assert stage.functions.calls == ["boot_node", "ready_node", "check_node", "save_node", "abandon_node"]
    assert (ended["status"], ended["error"]) == ("FAILED", "Timeout")
    assert ended["cause"].startswith("the instance did not save its database within 600 s")
    assert stage.clock.monotonic_s() == pytest.approx(600, abs=0.1)


@pytest.mark.parametrize(("checks", "transitions"), [(1, 6), (2, 9), (3, 12)])
def test_a_run_takes_six_transitions_and_three_for_each_further_check(
    stage: Stage, checks: int, transitions: int
) -> None:
    left = iter([_gives(_GO_ON)] * (checks - 1))
    stage.functions.answers = _READY | {
        "check_node": lambda stage, payload: next(left, _UNUSED)(stage, payload),
    }

    ended = stage.walk("redis_node", _NODE_INPUT)

    assert stage.functions.calls.count("check_node") == checks
    assert len(stage.entered(ended["executionArn"])) == transitions


def test_key_that_was_hot_for_thirty_days_returns_to_s3_without_a_failure(stage: Stage) -> None:
    stage.functions.answers = _BOOTED
    put_row("NODE#node-1", "LEASE#h", {"epoch": 7})

    ended = stage.walk("key_lifecycle", _KEY_INPUT | {"entry": "redis"})

    assert ended["status"] == "SUCCEEDED"
    assert stage.clock.monotonic_s() == pytest.approx(30 * 24 * 3600, abs=1)


@pytest.mark.slow
@pytest.mark.parametrize(("entry", "state"), [("lambda", "Lambda"), ("restricted", "RestrictedLambda")])
def test_key_that_one_invocation_after_another_served_for_a_month_returns_to_s3_without_a_failure(
    stage: Stage, entry: str, state: str
) -> None:
    stage.functions.answers = {"cache": _fails_task("InvocationEndsTransientError")}
    put_row("KEY#h", "ROUTE", {"epoch": 7, "phase": "lambda"})

    ended = stage.walk("key_lifecycle", _KEY_INPUT | {"entry": entry})

    events = stage.all_events(ended["executionArn"])
    entered = [event["stateEnteredEventDetails"]["name"] for event in events if "stateEnteredEventDetails" in event]
    assert entered == ["IsNodeRunning", state, "IsPromoted", "ReturnToS3"]
    assert json.loads(ended["output"])["ended"] == "it was hot for 30 days, and may begin anew"
    assert 28 < stage.functions.calls.count("cache") * _SERVES_ALONE_S / (24 * 3600) < 30
    assert len(events) < 25_000  # what Step Functions keeps of an execution


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
