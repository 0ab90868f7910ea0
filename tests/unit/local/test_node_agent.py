"""The servers of an instance of the local run: one at a time, however fast the instance stops and boots."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from burstcache.adapters.redis_connection import SERVER_NAME
from burstcache_local.machines import nodes
from burstcache_local.machines.nodes import NodeAgent, NodeTimes
from custom_resources.certificate import issue_certificate
from support.processes import REDIS, processes_named
from support.waiting import LIMIT_S, until

pytestmark = pytest.mark.slow  # it starts Redis servers


class Instance(SimpleNamespace):
    """Instance of moto with the fields that the agent reads."""

    def __init__(self, **tags: str) -> None:
        super().__init__(id="i-1", private_ip="127.9.8.7", user_data="", instance_type="t4g.small", tags=tags)
        self._state = SimpleNamespace(name="stopped", code=80)

    @property
    def state(self) -> str:
        return str(self._state.name)

    def get_tags(self) -> list[dict[str, str]]:
        return [{"key": key, "value": value} for key, value in self.tags.items()]


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[NodeAgent]:
    monkeypatch.setattr(nodes, "_DRAIN_S", 0)
    monkeypatch.setattr(nodes, "publish_state", lambda instance: None)
    services: Any = SimpleNamespace(cloud_url="http://127.0.0.1:1")
    agent = NodeAgent(services, NodeTimes(boot_s=0, stop_s=0), tmp_path)
    yield agent
    agent.stop()


def test_a_server_of_the_boot_before_does_not_come_again(agent: NodeAgent) -> None:
    instance = Instance()
    for _ in range(2):
        agent.enter(instance, "pending")
        until(lambda: instance.state == "running")
        agent.enter(instance, "stopping")
        until(lambda: instance.state == "stopped")
    agent.enter(instance, "pending")

    until(lambda: [thread.name for thread in threading.enumerate()].count("pending i-1") == 1)

    agent.enter(instance, "stopping")
    until(lambda: instance.state == "stopped")
    assert not processes_named(REDIS)


def test_a_save_that_hangs_ends_with_the_agent(agent: NodeAgent, monkeypatch: pytest.MonkeyPatch) -> None:
    program = "#!\nimport sys, time\nif sys.argv[1] == 'save': time.sleep(3600)\n"
    monkeypatch.setattr(nodes, "_secret", lambda *names: program)
    tags = {"burstcache-node": "state-a", "burstcache-state": "rdb", "burstcache-state-bucket": "b"}
    instance = Instance(**tags)
    agent.enter(instance, "pending")
    until(lambda: instance.state == "running")
    agent.enter(instance, "stopping")
    until(lambda: processes_named("burstcache-stat"))  # the kernel keeps fifteen characters

    agent.stop()

    assert not processes_named("burstcache-stat")


def test_an_instance_that_stops_while_the_agent_ends_hangs_up_once(
    agent: NodeAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, pem = issue_certificate(SERVER_NAME, now=datetime.now(UTC))
    monkeypatch.setattr(nodes, "_DRAIN_S", LIMIT_S)
    monkeypatch.setattr(nodes, "_secret", lambda *names: pem)
    instance = Instance()
    instance.user_data = "burstcache-secret redis tls > burstcache.pem"
    agent.enter(instance, "pending")
    until(lambda: instance.state == "running")
    agent.enter(instance, "stopping")

    agent.stop()

    until(lambda: instance.state == "stopped")
