"""Messages and writes of the state machines, compared with `core.messages`, `core.table` and `core.phases`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, get_args, get_type_hints

import jsonata
import pytest

from burstcache.core import phases, table
from burstcache.core.messages.executions import KeyExecutionInput, NodeExecutionInput, PoolExecutionInput
from burstcache.core.messages.operations import Operation, Serve
from burstcache.core.messages.pool import MemberOperation
from burstcache.core.messages.pool_control import PoolOperation
from burstcache.core.policy import cool_down_us
from support.project import ROOT

_MACHINES = {
    name: json.loads((ROOT / "statemachines" / f"{name}.asl.json").read_text())["States"]
    for name in ("key_lifecycle", "pool", "redis_node")
}
_TASKS = {
    f"{machine}/{name}": state["Arguments"]
    for machine, states in _MACHINES.items()
    for name, state in states.items()
    if state["Type"] == "Task"
}
_PAYLOADS = {name: arguments["Payload"] for name, arguments in _TASKS.items() if "Payload" in arguments}
_WRITES = {name: arguments for name, arguments in _TASKS.items() if "UpdateExpression" in arguments}
_OPERATIONS = {
    function: {get_args(get_type_hints(kind)["op"])[0]: kind for kind in get_args(kinds)}
    for function, kinds in (
        ("redis_control", Operation),
        ("pool_control", PoolOperation),
        ("pool_member", MemberOperation),
    )
}
_BY_OP = {op: kind for operations in _OPERATIONS.values() for op, kind in operations.items()}
_WORDS_OF_EXPRESSIONS = {"SET", "REMOVE", "ADD"}


@pytest.mark.parametrize("name", _PAYLOADS)
def test_payload_has_exactly_the_fields_of_its_message(name: str) -> None:
    payload = _PAYLOADS[name]
    operations = _OPERATIONS["pool_control" if name.startswith("pool/") else "redis_control"]
    kind = operations[payload["op"]] if "op" in payload else Serve

    assert set(payload) == set(get_type_hints(kind))


def test_every_step_of_the_machines_is_an_operation_and_every_other_one_is_for_people_or_events() -> None:
    sent = {payload["op"] for payload in _PAYLOADS.values() if "op" in payload}

    of_others = {
        "hold",
        "release",
        "ping",
        "stop_cache",
        "instance_stopped",
        "attend_node",
        "follow_writes",
        "hub",
        "round",
        "reader",
        "code",
    }
    of_others |= {"serve", "warm"}  # of hubs, and of a round
    assert set(_BY_OP) - sent == of_others


@pytest.mark.parametrize(
    ("function", "op"), [(function, op) for function, operations in _OPERATIONS.items() for op in operations]
)
def test_every_operation_has_a_sample_event_with_its_fields(function: str, op: str) -> None:
    sample = json.loads((ROOT / "events" / function / f"{op}.json").read_text())

    assert set(sample) == set(get_type_hints(_OPERATIONS[function][op]))


@pytest.mark.parametrize(
    ("machine", "kind"),
    [("key_lifecycle", KeyExecutionInput), ("redis_node", NodeExecutionInput), ("pool", PoolExecutionInput)],
)
def test_the_machines_read_nothing_but_the_fields_of_their_input(machine: str, kind: type) -> None:
    read = set(re.findall(r"Execution\.Input\.(\w+)", json.dumps(_MACHINES[machine])))

    assert read <= set(get_type_hints(kind))


@pytest.mark.parametrize("name", _WRITES)
def test_a_write_of_the_machines_names_columns_of_the_table(name: str) -> None:
    key = {part: _WRITES[name]["Key"][part]["S"] for part in ("pk", "sk")}
    columns = table.LeaseColumns if "LEASE#" in key["sk"] else table.KeyColumns
    text = f"{_WRITES[name]['UpdateExpression']} {_WRITES[name]['ConditionExpression']}"

    named = set(re.findall(r"(?<![:\w])[A-Za-z_]+", text)) - _WORDS_OF_EXPRESSIONS

    assert named <= set(get_type_hints(columns))


def test_the_machines_write_under_the_keys_of_the_table() -> None:
    returned, running = (
        _MACHINES["key_lifecycle"][name]["Arguments"]["Key"] for name in ("ReturnToS3", "RedisRunning")
    )

    assert _filled(returned["pk"]["S"]) == table.key_item("h")["pk"]
    assert returned["sk"]["S"] == table.key_item("h")["sk"]
    assert (_filled(running["pk"]["S"]), _filled(running["sk"]["S"])) == tuple(table.lease_item("n", "h").values())


def test_a_return_to_s3_takes_off_all_that_a_life_wrote() -> None:
    kept = {
        "key",
        "epoch",
        "entry",
        "window",
        "trigger",
        "ready_at_us",
        "joined_at_us",
        "etag",
        "size_bytes",
        "attempt",
    }
    kept |= {"lives_until_us", "served", "use", "expires_at", "life_expires_at"}

    for name in ("ReturnToS3", "ReturnToS3Failed"):
        expression = _MACHINES["key_lifecycle"][name]["Arguments"]["UpdateExpression"]
        touched = set(re.findall(r"(?<![:\w])[a-z_0-9]+", expression))
        assert touched | kept == set(get_type_hints(table.KeyColumns)), name


@pytest.mark.parametrize("failures", [0, 1, 2, 5, 6, 7, 30, 2000])  # the last: twelve weeks of them
def test_the_machine_cools_down_as_the_policy_does(failures: int) -> None:
    values = _MACHINES["key_lifecycle"]["ReturnToS3Failed"]["Arguments"]["ExpressionAttributeValues"]
    expression = values[":not_before"]["N"].removeprefix("{% ").removesuffix(" %}").replace("$millis()", "1000")

    not_before_us = int(_evaluate(expression, failures=failures))

    assert not_before_us - 1_000_000 == cool_down_us(failures)


# Phases


def _edges(machine: str) -> Iterator[tuple[str, str]]:
    """Yield from each state that has a phase the states with one that come next, Choices skipped."""
    states = _MACHINES[machine]
    phase_of: dict[str, Any] = {"key_lifecycle": phases.KEY_PHASE_OF_STATE, "redis_node": phases.NODE_PHASE_OF_STATE}
    has_phase = phase_of[machine]

    def after(name: str) -> Iterator[str]:
        state = states[name]
        for part in (state, *state.get("Choices", ()), *state.get("Catch", ())):
            for following in filter(None, (part.get("Next"), part.get("Default"))):
                yield from [following] if following in has_phase else after(following)

    for name in has_phase:
        yield from ((name, following) for following in after(name))


def test_every_state_that_does_something_has_a_phase() -> None:
    for machine, of_state in (
        ("key_lifecycle", phases.KEY_PHASE_OF_STATE),
        ("redis_node", phases.NODE_PHASE_OF_STATE),
    ):
        doing = {name for name, state in _MACHINES[machine].items() if state["Type"] in ("Task", "Wait")}
        assert set(of_state) == doing


@pytest.mark.parametrize(("state", "following"), sorted(set(_edges("key_lifecycle"))), ids="-".join)
def test_states_of_a_key_follow_each_other_as_its_phases_may(state: str, following: str) -> None:
    before, then = phases.KEY_PHASE_OF_STATE[state], phases.KEY_PHASE_OF_STATE[following]

    assert before in phases.KEY_PHASES_BEFORE[then]


@pytest.mark.parametrize(("state", "following"), sorted(set(_edges("redis_node"))), ids="-".join)
def test_states_of_a_node_follow_each_other_as_its_phases_may(state: str, following: str) -> None:
    before, then = phases.NODE_PHASE_OF_STATE[state], phases.NODE_PHASE_OF_STATE[following]

    assert before == then or before in phases.NODE_PHASES_BEFORE[then]


@pytest.mark.parametrize("entry", get_args(phases.Entry))
def test_an_execution_enters_the_state_of_the_first_phase_in_its_row(entry: phases.Entry) -> None:
    choice = _MACHINES["key_lifecycle"]["IsNodeRunning"]
    by_entry = [way for way in choice["Choices"] if "entry" in way["Condition"]]
    ways = {re.findall(r"'(\w+)'", way["Condition"])[0]: way["Next"] for way in by_entry}

    state = ways.get(entry, choice["Default"])

    assert phases.KEY_PHASE_OF_STATE[state] == phases.FIRST_PHASE[entry]


def _filled(text: str) -> str:
    expression = text.removeprefix("{% ").removesuffix(" %}")
    return str(_evaluate(expression, key_hash="h", node="n"))


def _evaluate(expression: str, **input_: Any) -> Any:
    for path in ("$states.context.Execution.Input", "$states.input"):
        expression = expression.replace(path, "input")
    return jsonata.Jsonata(expression).evaluate({"input": input_})
