"""Fixtures of the lifecycle tests (conftest): worlds on a virtual clock, one per test."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pytest

from burstcache.core.node_kinds import NodeKind
from burstcache.core.policies import LivePolicy
from support.aws import mocked_aws
from support.world import World


@pytest.fixture
def make_world(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., World]]:
    """Yield a factory of worlds, and close them after the test."""
    made: list[World] = []

    def make(
        *,
        runs_machines: bool = False,
        has_relay: bool = True,
        policy: LivePolicy | None = None,
        nodes: int = 1,
        databases: Sequence[str] = (),
        redis_on: NodeKind = "ec2",
        state_on: NodeKind = "ec2",
    ) -> World:
        made.append(
            World(
                monkeypatch,
                runs_machines=runs_machines,
                has_relay=has_relay,
                policy=policy,
                nodes=nodes,
                databases=databases,
                redis_on=redis_on,
                state_on=state_on,
            )
        )
        return made[-1]

    with mocked_aws():
        yield make
        for world in made:
            world.close()


@pytest.fixture
def world(make_world: Callable[..., World]) -> World:
    """Build a world whose state machines stop at their first task, so that the test takes every step itself."""
    return make_world()
