"""Every sample event of the control plane goes through its handler."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from burstcache.core.keys import key_hash
from support.aws import put_row
from support.functions import NODE
from support.project import ROOT
from support.world import World

_EVENTS = ROOT / "events"
_HANDLERS = ("scheduler", "cache", "redis_control", "origin", "janitor")
_SAMPLES = [path for handler in _HANDLERS for path in sorted((_EVENTS / handler).glob("*.json"))]
_KEY, _EPOCH = "hello.txt", 1763632800000

# The node's phase that a step finds, where it is not `running`.
_NODE_PHASES = {
    "boot_node": "booting",
    "ready_node": "booting",
    "stop_node": "stopping",
    "abandon_node": "booting",
    "instance_stopped": "stopping",
}
_ANSWERS: dict[str, Callable[[dict[str, Any]], bool]] = {
    "object_requested": lambda answer: answer == {"outcome": "remembered"},
    "requests_served": lambda answer: answer == {_KEY: "remembered"},
    "key_start_requested": lambda answer: answer == {"outcome": "already_hot"},
    "serve": lambda answer: answer == {"end": "idle"},
    "join": lambda answer: answer == {},
    "seed": lambda answer: answer == {"node": NODE, "generation": _EPOCH},
    "leave": lambda answer: "last_request" in answer,
    "boot_node": lambda answer: answer == {},
    "ready_node": lambda answer: answer["checks"] == 0,
    "check_node": lambda answer: answer["checks"] == 1,
    "stop_node": lambda answer: answer["phase"] == "booting",  # the instance had stopped, and a key waits
    "instance_stopped": lambda answer: answer["phase"] == "booting",
    "instance_state_changed": lambda answer: answer == {},  # of another instance
    "abandon_node": lambda answer: answer == {"phase": "stopped"},
    "hold": lambda answer: answer["phase"] == "running",
    "release": lambda answer: answer == {"phase": "stopped"},
    "ping": lambda answer: answer["pong"] is True,
    "stop_cache": lambda answer: answer == {"stopped": False},
    "follow_write": lambda answer: answer == {"refreshed": ""},
    "object_created": lambda answer: answer == {"refreshed": ""},
    "scheduled": lambda answer: answer["nodes"] == [NODE],
}


def _arrange(world: World, sample: str) -> None:
    deadline = world.clock.now_us() + 600_000_000
    phase = "redis_bootup" if sample == "seed" else "lambda"
    life = {"key": _KEY, "phase": phase, "node": NODE, "epoch": _EPOCH, "trigger": "1:r", "deadline_at_us": deadline}
    life |= {"changed_at_us": world.clock.now_us()}
    run = {"phase": _NODE_PHASES.get(sample, "running"), "generation": _EPOCH, "part": 1, "joins": 1}
    lease = {"key": _KEY, "epoch": _EPOCH}
    items = {
        (f"KEY#{key_hash(_KEY)}", "ROUTE"): life,
        (f"NODE#{NODE}", "NODE"): run | {"deadline_at_us": deadline, "ready_at_us": world.clock.now_us()},
        (f"NODE#{NODE}", f"LEASE#{key_hash(_KEY)}"): lease,
    }
    for (pk, sk), item in items.items():
        put_row(pk, sk, item)
    world.put_object(_KEY)


@pytest.mark.parametrize("path", _SAMPLES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_sample_event_goes_through_its_handler(world: World, path: Path) -> None:
    _arrange(world, path.stem)

    answer = world.invoke(path.parent.name, json.loads(path.read_text()))

    assert _ANSWERS[path.stem](answer), answer


def test_every_sample_of_the_control_plane_has_an_expectation() -> None:
    assert {path.stem for path in _SAMPLES} == set(_ANSWERS)
