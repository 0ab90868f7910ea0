"""Every sample event of the control plane goes through its handler."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from burstcache.adapters.items import to_values
from burstcache.core.keys import key_hash
from support.project import ROOT
from support.world import NODE, World

_EVENTS = ROOT / "events"
_HANDLERS = ("scheduler", "cache", "redis_control", "janitor")
_SAMPLES = [path for handler in _HANDLERS for path in sorted((_EVENTS / handler).glob("*.json"))]
_KEY, _EPOCH = "hello.txt", 1763632800000
_CONTEXT = SimpleNamespace(aws_request_id="request", get_remaining_time_in_millis=lambda: 60_000)

# The node's phase that a step finds, where it is not `running`.
_NODE_PHASES = {"start_node": "booting", "await_node": "booting", "stop_node": "stopping", "abandon_node": "booting"}
_ANSWERS: dict[str, Callable[[dict[str, Any]], bool]] = {
    "object_requested": lambda answer: answer == {"outcome": "remembered"},
    "key_start_requested": lambda answer: answer == {"outcome": "already_hot"},
    "serve": lambda answer: answer == {"end": "idle"},
    "join": lambda answer: answer == {},
    "seed": lambda answer: answer == {"node": NODE, "generation": _EPOCH},
    "leave": lambda answer: answer == {},
    "start_node": lambda answer: answer == {},
    "await_node": lambda answer: answer["next"] == "continue",
    "check_node": lambda answer: answer["next"] == "continue",
    "stop_node": lambda answer: answer["phase"] == "booting",
    "abandon_node": lambda answer: answer == {"phase": "stopped"},
    "hold": lambda answer: answer["phase"] == "running",
    "release": lambda answer: answer == {"phase": "stopped"},
    "ping": lambda answer: answer["pong"] is True,
    "stop_cache": lambda answer: answer == {"stopped": False},
    "origin_changed": lambda answer: answer == {"refreshed": ""},
    "scheduled": lambda answer: answer["nodes"] == [NODE],
}


@pytest.fixture
def deployed(world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """The world as the functions' environment, with the life and the run that the samples speak of."""
    node = world.settings.redis_nodes[0]
    environment = {
        "TABLE_NAME": world.name,
        "BUCKET_NAME": world.settings.bucket_name,
        "KEY_LIFECYCLE_ARN": world.key_machine,
        "REDIS_NODE_ARN": world.node_machine,
        "RELAY_URL": world.settings.relay.url,
        "RELAY_USER": "control",
        "REDIS_NODES": f"{node.name}={node.instance_id}@{node.host}:{node.port}",
        "REDIS_CONTROL_FUNCTION_NAME": "redis-control",
        "MAX_HOT_KEYS": "3",
        "MAX_OBJECT_BYTES": "4194304",
        "POLICY_OVERRIDES": "tick_s=0.2",
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "256",
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    from burstcache.settings import settings

    settings.cache_clear()
    yield world
    settings.cache_clear()


def _arrange(world: World, sample: str) -> None:
    deadline = world.now_us() + 600_000_000
    life = {"key": _KEY, "phase": "lambda", "epoch": _EPOCH, "trigger": "1:r", "deadline_at_us": deadline}
    life |= {"changed_at_us": world.now_us()}
    run = {"phase": _NODE_PHASES.get(sample, "running"), "generation": _EPOCH, "part": 1, "joins": 1}
    lease = {"key": _KEY, "epoch": _EPOCH}
    items = {
        (f"KEY#{key_hash(_KEY)}", "ROUTE"): life,
        (f"NODE#{NODE}", "NODE"): run | {"deadline_at_us": deadline, "ready_at_us": world.now_us()},
        (f"NODE#{NODE}", f"LEASE#{key_hash(_KEY)}"): lease,
    }
    for (pk, sk), item in items.items():
        world.aws["dynamodb"].put_item(TableName=world.name, Item=to_values({"pk": pk, "sk": sk} | item))
    world.put_object(_KEY)


@pytest.mark.parametrize("path", _SAMPLES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_sample_event_goes_through_its_handler(deployed: World, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.reload(importlib.import_module(f"burstcache.handlers.{path.parent.name}"))
    _arrange(deployed, path.stem)
    if path.parent.name == "janitor":  # its calls of Redis control would need a Lambda service
        invoked = deployed.janitor()
        monkeypatch.setattr(module, "_janitor", lambda: invoked)

    answer = module.handler(json.loads(path.read_text()), _CONTEXT)

    assert _ANSWERS[path.stem](answer), answer
    _close(module)


def test_every_sample_of_the_control_plane_has_an_expectation() -> None:
    assert {path.stem for path in _SAMPLES} == set(_ANSWERS)


def _close(module: Any) -> None:
    if environment := getattr(module, "_environment", None):
        environment().close()
    if control := getattr(module, "_control", None):
        control().relay.close()
