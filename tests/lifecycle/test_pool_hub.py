"""The hub for readers that members cannot dial runs while they read, and not longer."""

from __future__ import annotations

import base64
import io
import zipfile
from collections.abc import Callable
from typing import Any

import pytest

from burstcache.control.pool_hubs import STARTING_REPORT_S
from burstcache.core.errors import InvalidSettingError
from burstcache.core.messages.pool_control import HubTotals, KnownHub, PoolPlan
from burstcache.core.pool.retention import NO_TOTALS, REPORT_S
from support.functions import KEEP_S
from support.hub_service import add_hub_service
from support.world import World

_HUB = KnownHub(id="hub-1", host="2600:1f18::5", port=4_230, token="ab" * 32, certificate="")
_OTHER = KnownHub(id="hub-2", host="10.0.0.5", port=4_231, token="cd" * 32, certificate="")


class Stack:
    """A world whose stack has a service of ECS for its hub."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._ecs = add_hub_service(world)

    @property
    def tasks(self) -> int:
        """Return the number of hubs that ECS is to run."""
        (service,) = self._ecs.describe_services(cluster="cluster", services=["hub"])["services"]
        return int(service["desiredCount"])

    def read(self, totals: HubTotals | None = None, *, is_reading: bool = True) -> PoolPlan:
        """Report as a reader that needs the hub."""
        event: dict[str, Any] = {"op": "reader", "id": "reader-1", "totals": totals or {**NO_TOTALS}}
        event["is_reading"] = is_reading
        plan: PoolPlan = self.world.invoke("pool_control", event)
        return plan

    def report(self, hub: KnownHub = _HUB, *, takes_readers: bool = True) -> PoolPlan:
        """Report as a hub."""
        event = {"op": "hub", "hub": hub, "totals": {**NO_TOTALS}, "used": {}, "takes_readers": takes_readers}
        plan: PoolPlan = self.world.invoke("pool_control", event)
        return plan


@pytest.fixture
def stack(make_world: Callable[..., World]) -> Stack:
    """A stack with a hub that does not run."""
    return Stack(make_world(runs_machines=True))


def test_nothing_runs_until_a_reader_comes(stack: Stack) -> None:
    stack.report(_OTHER, takes_readers=False)

    assert stack.tasks == 0


def test_a_reader_starts_the_hub_and_asks_again_soon(stack: Stack) -> None:
    plan = stack.read()

    assert stack.tasks == 1
    assert (plan["hubs"], plan["report_s"]) == ([], STARTING_REPORT_S)


def test_a_reader_learns_of_hubs_that_take_it_in_and_of_no_others(stack: Stack) -> None:
    stack.read()
    stack.report(_OTHER, takes_readers=False)
    stack.report()

    plan = stack.read()

    assert (plan["hubs"], plan["report_s"]) == ([_HUB], REPORT_S)
    assert stack.report(_OTHER, takes_readers=False)["hubs"] == [_HUB]


def test_of_two_hubs_a_reader_learns_first_of_the_one_that_reported_last(stack: Stack) -> None:
    replacement = KnownHub(**{**_HUB, "id": "hub-3", "host": "2600:1f18::6"})
    stack.read()
    stack.report()
    stack.world.clock.sleep(30)
    stack.report(replacement)

    assert stack.read()["hubs"] == [replacement, _HUB]


def test_the_hub_ends_when_no_reader_has_read_for_as_long_as_the_pool_is_kept(stack: Stack) -> None:
    stack.read()
    stack.world.clock.sleep(KEEP_S - 1)
    stack.read(is_reading=False)
    stack.report()
    assert stack.tasks == 1

    stack.world.clock.sleep(1)
    stack.read(is_reading=False)
    stack.report()

    assert stack.tasks == 0


def test_a_reader_that_reads_nothing_starts_no_hub(stack: Stack) -> None:
    plan = stack.read(is_reading=False)

    assert stack.tasks == 0
    assert (plan["hubs"], plan["report_s"]) == ([], REPORT_S)


def test_a_hub_that_starts_for_nobody_ends(stack: Stack) -> None:
    stack.read()
    stack.world.clock.sleep(KEEP_S)

    stack.world.invoke("pool_control", {"op": "code"})

    assert stack.tasks == 0


def test_a_stack_that_is_paused_runs_no_hub(stack: Stack) -> None:
    stack.read()
    stack.world.pauses.begin("test")

    stack.report()
    plan = stack.read()

    assert stack.tasks == 0
    assert plan["members"] == []


def test_what_readers_have_stored_keeps_members_alive(stack: Stack) -> None:
    stack.read()
    stack.read({**NO_TOTALS, "stored_bytes": 1_000})

    assert len(stack.world.executions_of(stack.world.pool_machine)) == 1


def test_a_reader_alone_keeps_no_schedule(stack: Stack) -> None:
    stack.read()
    stack.read({**NO_TOTALS, "stored_bytes": 1_000})
    asked = len(stack.world.members.invoked)

    stack.world.clock.sleep(3 * REPORT_S)
    assert not stack.read()["is_round_due"]

    assert len(stack.world.members.invoked) > asked


def test_a_stack_without_such_a_hub_says_so(make_world: Callable[..., World]) -> None:
    with pytest.raises(InvalidSettingError, match="PoolHub fargate"):
        make_world().invoke("pool_control", {"op": "reader", "id": "reader-1", "totals": {**NO_TOTALS}})


def test_code_of_a_hub_is_pool_controls_own(stack: Stack) -> None:
    text = stack.world.invoke("pool_control", {"op": "code"})["zip"]

    assert len(text) < 6_000_000
    with zipfile.ZipFile(io.BytesIO(base64.b64decode(text))) as package:
        names = package.namelist()
    assert "burstcache/pool/hub_service.py" in names
    assert not [name for name in names if "__pycache__" in name]
