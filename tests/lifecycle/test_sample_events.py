"""Every sample event of the control plane goes through its handler."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from burstcache.core.keys import key_hash
from burstcache.core.policy import CHECKS_PER_PART
from burstcache.core.pool.retention import NO_TOTALS
from support.aws import put_row
from support.functions import NODE, POOL_MEMBERS
from support.hub_service import add_hub_service
from support.project import ROOT
from support.world import World

_EVENTS = ROOT / "events"
_HANDLERS = ("scheduler", "cache", "redis_control", "state", "origin", "janitor", "pool_control")
_SAMPLES = [path for handler in _HANDLERS for path in sorted((_EVENTS / handler).glob("*.json"))]
_KEY, _EPOCH = "hello.txt", 1763632800000
_DATABASE, _HOLDER = "state-orders", "sample"

# The node's phase that a step finds, where it is not `running`.
_NODE_PHASES = {
    "boot_node": "booting",
    "ready_node": "booting",
    "save_node": "stopping",
    "stop_node": "stopping",
    "abandon_node": "booting",
    "instance_stopped": "stopping",
}
_ANSWERS: dict[str, Callable[[dict[str, Any]], bool]] = {
    "scheduler/object_requested": lambda answer: answer == {"outcome": "remembered"},
    "scheduler/requests_served": lambda answer: answer == {_KEY: "remembered"},
    "scheduler/key_start_requested": lambda answer: answer == {"outcome": "already_hot"},
    "scheduler/cache_function_failed": lambda answer: answer == {"outcome": "remembered"},  # its task is over
    "scheduler/cache_function_never_began": lambda answer: answer == {"outcome": "remembered"},
    "cache/serve": lambda answer: answer == {"end": "idle"},
    "redis_control/join": lambda answer: answer == {},
    "redis_control/seed": lambda answer: answer == {"node": NODE, "generation": _EPOCH},
    "redis_control/leave": lambda answer: "last_request" in answer,
    "redis_control/boot_node": lambda answer: answer == {},
    "redis_control/ready_node": lambda answer: answer["checks"] == 0,
    "redis_control/check_node": lambda answer: answer["checks"] == 1 + CHECKS_PER_PART // 2,  # its instant is long over
    "redis_control/save_node": lambda answer: answer == {},
    "redis_control/stop_node": lambda answer: answer["phase"] == "booting",  # the instance had stopped, and a key waits
    "redis_control/instance_stopped": lambda answer: answer["phase"] == "booting",
    "redis_control/instance_state_changed": lambda answer: answer == {},  # of another instance
    "redis_control/task_state_changed": lambda answer: answer == {"phase": "running"},  # of a former run
    "redis_control/attend_node": lambda answer: answer == {"phase": "running"},
    "redis_control/abandon_node": lambda answer: answer == {"phase": "stopped"},
    "redis_control/hold": lambda answer: answer["phase"] == "running",
    "redis_control/release": lambda answer: answer == {"phase": "stopped"},
    "redis_control/ping": lambda answer: answer["pong"] is True,
    "redis_control/stop_cache": lambda answer: answer == {"stopped": False},
    "redis_control/follow_writes": lambda answer: answer == {"writes": [{"refreshed": "", "copies": 0}]},
    "state/acquire": lambda answer: (answer["phase"], answer["held_until_us"] > 0) == ("running", True),
    "state/keep": lambda answer: (answer["phase"], answer["held_until_us"] > 0) == ("running", True),
    "state/release": lambda answer: answer == {"phase": "running", "held_until_us": 0, "host": ""},
    "origin/object_created": lambda answer: answer == {"refreshed": "", "copies": 0},
    "pool_control/hub": lambda answer: len(answer["members"]) == POOL_MEMBERS,
    "pool_control/code": lambda answer: bool(answer["zip"]),
    "pool_control/reader": lambda answer: answer["hubs"] == [],  # it has just been started
    "pool_control/leave": lambda answer: answer == {},
    "pool_control/round": lambda answer: answer == {"did_run": True},
    "pool_control/tick": lambda answer: answer["ticks"] == 1,
    "janitor/scheduled": lambda answer: answer["nodes"] == [NODE, _DATABASE],
}


@pytest.fixture
def world(make_world: Callable[..., World]) -> World:
    """A world with a database and a hub, whose machines hold what they are given."""
    world = make_world(databases=["orders"])
    add_hub_service(world)
    return world


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
    items |= {
        (f"NODE#{_DATABASE}", "NODE"): items[f"NODE#{NODE}", "NODE"],
        (f"NODE#{_DATABASE}", f"LEASE#{_HOLDER}"): {"held_until_us": deadline},
    }
    hub = json.loads((_EVENTS / "pool_control/hub.json").read_text())["hub"]
    address = {name: value for name, value in hub.items() if name != "id"}
    seen = {"reported_at_us": world.clock.now_us(), "used_at_us": world.clock.now_us(), "used": "{}"}
    items |= {
        ("POOL", "STATE"): {"generation": 1, "part": 1, "deadline_at_us": deadline},
        ("POOL", f"HUB#{hub['id']}"): address | seen | {"totals": json.dumps(NO_TOTALS)},
    }
    for (pk, sk), item in items.items():
        put_row(pk, sk, item)
    world.put_object(_KEY)


def _name(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


@pytest.mark.parametrize("path", _SAMPLES, ids=_name)
def test_sample_event_goes_through_its_handler(world: World, path: Path) -> None:
    _arrange(world, path.stem)

    answer = world.invoke(path.parent.name, json.loads(path.read_text()))

    assert _ANSWERS[_name(path)](answer), answer


def test_every_sample_of_the_control_plane_has_an_expectation() -> None:
    assert {_name(path) for path in _SAMPLES} == set(_ANSWERS)
