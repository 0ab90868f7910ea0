"""Time limits of clients, functions and states: each waits longer than what it calls."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from burstcache.adapters.clients import Clients, Profile
from burstcache.control.pool_life import TICK_TAKES_S
from burstcache.control.retry import RETRY_DEADLINE_S
from burstcache.core import deadlines
from burstcache.core.digest import FORGOTTEN_S
from burstcache.core.parameters import US_PER_S
from burstcache.core.policy import CHECK_LATENESS_US

_CONNECTING_S = 2 * 1  # two tries
_BEFORE_AND_AFTER_S = 1 + 1 + 1  # the digest, a tier that does not answer, the report
# How long a service of the instance may take to stop before it is killed (systemd-system.conf, DefaultTimeoutStopSec).
_INSTANCE_STOPS_S = 90
_JANITOR_LOOKS_AGAIN_S = 5


@pytest.fixture
def states(root: Path) -> dict[str, Any]:
    return _states(root, "key_lifecycle")


def _states(root: Path, machine: str) -> dict[str, Any]:
    return dict(json.loads((root / "statemachines" / f"{machine}.asl.json").read_text())["States"])


def _wait_for_s3_s(profile: Profile) -> int:
    config: Any = Clients(profile).s3.meta.config
    return int(config.read_timeout)


def test_slow_s3_is_waited_for_as_long_as_the_front_door_allows(functions: dict[str, Any]) -> None:
    proxy_s = functions["ProxyFunction"]["Timeout"]

    assert proxy_s - 6 <= _CONNECTING_S + _BEFORE_AND_AFTER_S + _wait_for_s3_s("read") < proxy_s


_LAST_TRY_S = 1.0  # of a part that takes a connection and says nothing
_LAMBDA_TRIES_AGAIN_S = 60  # AWS Lambda Developer Guide, "Error handling for asynchronous invocations"


def test_an_event_is_tried_again_although_its_function_took_all_its_time_to_fail(functions: dict[str, Any]) -> None:
    """So what fails for less than a minute leaves no event in a queue for a person."""
    for name, function in functions.items():
        config = function.get("EventInvokeConfig", {})
        if config.get("MaximumRetryAttempts", 0) and "MaximumEventAgeInSeconds" in config:
            assert config["MaximumEventAgeInSeconds"] >= function["Timeout"] + _LAMBDA_TRIES_AGAIN_S, name


@pytest.mark.parametrize("profile", ["write", "caller"])
def test_a_write_is_waited_for_that_waits_for_a_node_and_the_relay(
    profile: Profile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    config: Any = Clients(profile).functions.meta.config
    starts_s = 2  # of the origin function and of Redis control, together

    assert starts_s + 2 * (RETRY_DEADLINE_S + _LAST_TRY_S) + FORGOTTEN_S < config.read_timeout


def test_object_can_be_copied_from_a_slow_s3_within_the_time_of_its_state(states: dict[str, Any]) -> None:
    assert 2 * _wait_for_s3_s("control") < states["SeedRedis"]["TimeoutSeconds"]  # it is asked again whether it is new


def test_cache_function_that_waits_for_a_slow_s3_is_not_taken_for_dead(states: dict[str, Any]) -> None:
    for name in ("Lambda", "RestrictedLambda"):
        assert _CONNECTING_S + _wait_for_s3_s("patient") < states[name]["HeartbeatSeconds"]


def _worst_s(state: dict[str, Any], function_s: int, *, waits: bool = False) -> float:
    """Return the longest duration of a state, including all retries.

    Args:
        state: The state.
        function_s: The time limit of the function that it calls.
        waits: Whether the last attempt waits for a token: those before it have failed in the function.
    """
    limit_s: int = state["TimeoutSeconds"]
    attempt_s, worst_s = min(limit_s, function_s) if waits else limit_s, float(limit_s)
    for retry in state["Retry"]:
        for repeat in range(retry["MaxAttempts"]):
            pause_s = retry["IntervalSeconds"] * retry["BackoffRate"] ** repeat
            worst_s += attempt_s + min(pause_s, retry.get("MaxDelaySeconds", pause_s))
    return worst_s


def _unannounced_s(state: dict[str, Any]) -> float:
    """Return the longest duration of a state's retries if no cache function announces itself any more."""
    repeats = [retry for retry in state["Retry"] if retry["ErrorEquals"] != ["InvocationEndsTransientError"]]
    pauses_s: list[float] = [
        min(retry["IntervalSeconds"] * retry["BackoffRate"] ** repeat, retry.get("MaxDelaySeconds", 60))
        for retry in repeats
        for repeat in range(retry["MaxAttempts"])
    ]
    return sum(pauses_s) + len(pauses_s) * float(state["HeartbeatSeconds"])


@pytest.fixture
def worst_s(root: Path, functions: dict[str, Any]) -> Callable[[str], float]:
    """Return a function from a state's name to the state's longest duration."""
    all_states, function_s = _states(root, "key_lifecycle") | _states(root, "redis_node"), _control_s(functions)
    all_states |= _states(root, "pool")

    def worst(name: str) -> float:
        state = all_states[name]
        return _worst_s(state, function_s, waits=state["Resource"].endswith("waitForTaskToken"))

    return worst


def _control_s(functions: dict[str, Any]) -> int:
    return int(functions["RedisControlFunction"]["Timeout"])


def _janitor_s(resources: dict[str, Any]) -> int:
    """Return the longest delay until the janitor acts on a visible fault."""
    minutes = re.fullmatch(r"rate\((\d+) minutes\)", resources["JanitorRule"]["Properties"]["ScheduleExpression"])
    assert minutes is not None
    return 60 * int(minutes[1]) + _JANITOR_LOOKS_AGAIN_S


def test_stop_that_hangs_is_forced_within_ten_minutes(resources: dict[str, Any]) -> None:
    assert deadlines.STOP_HANGS_S > 2 * _INSTANCE_STOPS_S
    assert deadlines.STOP_HANGS_S + _janitor_s(resources) < 600


def test_key_that_joins_a_stopping_node_waits_for_its_stop_and_its_boot(
    worst_s: Callable[[str], float], functions: dict[str, Any], resources: dict[str, Any], states: dict[str, Any]
) -> None:
    hangs_s = _janitor_s(resources) + _control_s(functions) + _INSTANCE_STOPS_S

    node_s = worst_s("StopNode") + hangs_s + worst_s("BootNode") + worst_s("NodeReady")
    assert node_s < states["RedisBootup"]["TimeoutSeconds"]


def test_no_row_of_a_key_is_past_its_deadline_while_its_execution_is_on_its_way(
    worst_s: Callable[[str], float], states: dict[str, Any], functions: dict[str, Any]
) -> None:
    joining_s = _control_s(functions)  # a repeat of it begins the deadline anew
    limit_s = {name: state.get("TimeoutSeconds", 0) for name, state in states.items()}

    assert limit_s["Lambda"] + _unannounced_s(states["Lambda"]) + worst_s("ReturnToS3") <= deadlines.ANNOUNCED_S
    assert states["Lambda"]["HeartbeatSeconds"] + _unannounced_s(states["Lambda"]) <= deadlines.STARTED_S
    assert joining_s + limit_s["RedisBootup"] + worst_s("SeedRedis") < deadlines.BOOTUP_S
    assert limit_s["RedisRunning"] + worst_s("RedisShutdown") + worst_s("ReturnToS3Failed") < deadlines.RUNNING_S


def test_no_row_of_a_node_is_past_its_deadline_while_its_execution_is_on_its_way(
    worst_s: Callable[[str], float], root: Path, functions: dict[str, Any]
) -> None:
    boot = _states(root, "redis_node")["BootNode"]
    before_it_waits_s = _worst_s(boot, _control_s(functions), waits=True) - boot["TimeoutSeconds"]

    assert before_it_waits_s < deadlines.BOOT_S
    assert _control_s(functions) + boot["TimeoutSeconds"] + worst_s("NodeReady") < deadlines.BOOT_S
    assert worst_s("StopNode") + _INSTANCE_STOPS_S < deadlines.STOP_S
    save = _states(root, "redis_node")["SaveNode"]
    assert _control_s(functions) + save["TimeoutSeconds"] < deadlines.SAVE_S  # each attempt begins it anew
    assert max(worst_s("NodeReady"), worst_s("CheckNodeUse")) < CHECK_LATENESS_US / US_PER_S


def test_pool_is_not_past_its_deadline_while_a_tick_is_on_its_way(
    worst_s: Callable[[str], float], root: Path, functions: dict[str, Any]
) -> None:
    assert functions["PoolControlFunction"]["Timeout"] < _states(root, "pool")["WarmPool"]["TimeoutSeconds"]
    assert worst_s("WarmPool") < TICK_TAKES_S
