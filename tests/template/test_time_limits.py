"""What waits for what: time limits of clients, functions and states fit into each other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from burstcache.adapters.clients import Clients, Profile

_CONNECTING_S = 2 * 1  # two tries
_BEFORE_AND_AFTER_S = 1 + 1 + 1  # the digest, a tier that does not answer, the report
# How long a service of the instance may take to stop before it is killed (systemd-system.conf, DefaultTimeoutStopSec).
_INSTANCE_STOPS_S = 90


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


def test_object_can_be_copied_from_a_slow_s3_within_the_time_of_its_state(states: dict[str, Any]) -> None:
    assert 2 * _wait_for_s3_s("control") < states["SeedRedis"]["TimeoutSeconds"]  # it is asked again whether it is new


def test_cache_function_that_waits_for_a_slow_s3_is_not_taken_for_dead(states: dict[str, Any]) -> None:
    for name in ("Lambda", "RestrictedLambda"):
        assert _CONNECTING_S + _wait_for_s3_s("patient") < states[name]["HeartbeatSeconds"]


def test_key_that_joins_a_stopping_node_waits_for_its_stop_and_its_boot(states: dict[str, Any], root: Path) -> None:
    node = _states(root, "redis_node")
    steps_s = [node[name]["TimeoutSeconds"] for name in ("StopNode", "BootNode", "NodeReady")]

    assert sum(steps_s) + _INSTANCE_STOPS_S < states["RedisBootup"]["TimeoutSeconds"]
