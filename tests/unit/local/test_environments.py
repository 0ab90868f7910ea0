"""Environments: what a queued invocation holds is passed on, whoever is cancelled or lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from burstcache_local.functions import FunctionSpec, Outcome
from burstcache_local.lambdas import environments
from burstcache_local.lambdas.background import Background
from burstcache_local.lambdas.environments import Environments
from burstcache_local.lambdas.limits import LambdaLimits

CORES = 2
DONE, LOST = Outcome(b"null"), Outcome(b"null", "Runtime.ExitError", reusable=False)


class Process:
    """An environment without a process. Its init phase ends with `init`, its extensions are done with `idle`."""

    def __init__(self, *_: object) -> None:
        self.init, self.idle = asyncio.Event(), asyncio.Event()
        self.is_lost = False

    async def start(self, _clock_ahead_s: float) -> None:
        """Start at once."""

    async def ready(self) -> float:
        await self.init.wait()
        return 1.0

    async def settle(self) -> bool:
        await self.idle.wait()
        return not self.is_lost

    async def close(self) -> None:
        self.is_lost = True


class Rig:
    """Environments, their specification, and a way to let all tasks run until they wait."""

    def __init__(self, folder: Path, environments_of_a_function: int) -> None:
        self.background = Background()
        limits = LambdaLimits(environments=environments_of_a_function)
        self.environments = Environments(folder, limits, self.background, lambda: 0.0)
        self.spec = FunctionSpec("app", "arn", "app.handler", 300, 128, folder, {})

    def begin(self, tenant: str = "") -> asyncio.Task[Any]:
        return asyncio.ensure_future(self.environments.take(self.spec, tenant))

    async def take(self, tenant: str = "") -> Any:
        return await self.environments.take(self.spec, tenant)

    async def give_back(self, process: Any, outcome: Outcome = DONE, tenant: str = "") -> None:
        self.environments.give_back(self.spec, tenant, process, outcome)
        process.idle.set()
        await settled()

    async def free_start_slots(self) -> int:
        """Return the number of cold starts that may begin at once."""
        slots, taken = self.environments._starting, 0
        while not slots.locked():
            await slots.acquire()
            taken += 1
        for _ in range(taken):
            slots.release()
        return taken

    def count(self, tenant: str = "") -> int:
        return self.environments._pools["app", tenant].count


Scenario = Callable[[Rig], Coroutine[Any, Any, None]]


async def settled() -> None:
    """Let all tasks run until they wait for an event."""
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    monkeypatch.setattr(environments, "Environment", Process)
    monkeypatch.setattr("os.cpu_count", lambda: CORES)

    def work(scenario: Scenario, environments_of_a_function: int = 9) -> None:
        async def within() -> None:
            rig = Rig(tmp_path, environments_of_a_function)
            try:
                await scenario(rig)
            finally:
                rig.background.cancel()

        asyncio.run(within())

    return work


def test_a_tenant_whose_environment_is_lost_takes_a_start_slot_for_the_next_one(run: Callable[..., None]) -> None:
    async def scenario(rig: Rig) -> None:
        lost = await rig.take("pool-0")
        lost.init.set()
        await settled()
        rig.environments.give_back(rig.spec, "pool-0", lost, DONE)
        next_one = rig.begin("pool-0")
        await settled()
        lost.is_lost = True
        lost.idle.set()
        (await next_one).init.set()
        await settled()

        assert await rig.free_start_slots() == CORES

    run(scenario)


@pytest.mark.parametrize("is_passed_on", [None, DONE, LOST], ids=["waits", "environment", "slot"])
def test_a_caller_cancelled_before_its_cold_start_keeps_nothing(
    run: Callable[..., None], is_passed_on: Outcome | None
) -> None:
    async def scenario(rig: Rig) -> None:
        busy = [await rig.take() for _ in range(CORES)]
        waiting = rig.begin()
        await settled()
        busy[0].idle.set()
        if is_passed_on is not None:
            pool = rig.environments._pools["app", ""]
            if is_passed_on is LOST:
                rig.environments._make_room(pool)
            else:
                rig.environments._keep(pool, busy[0])
        waiting.cancel()
        await settled()
        for process in busy:
            process.init.set()
        await settled()

        assert waiting.cancelled()
        assert await rig.free_start_slots() == CORES
        assert rig.count() == CORES - (is_passed_on is LOST)
        assert rig.environments._pools["app", ""].free == ([busy[0]] if is_passed_on is DONE else [])

    run(scenario)


def test_a_caller_cancelled_as_its_start_slot_comes_releases_it(run: Callable[..., None]) -> None:
    async def scenario(rig: Rig) -> None:
        busy = [await rig.take() for _ in range(CORES)]
        waiting = rig.begin()
        await settled()
        for process in busy:
            process.init.set()
        rig.environments._starting.release()
        await asyncio.sleep(0)
        waiting.cancel()
        await settled()
        await rig.environments._starting.acquire()

        assert await rig.free_start_slots() == CORES
        assert rig.count() == CORES

    run(scenario)


@pytest.mark.parametrize("outcome", [DONE, LOST], ids=["environment", "slot"])
def test_what_a_queued_caller_gets_as_it_is_cancelled_goes_to_the_next_one(
    run: Callable[..., None], outcome: Outcome
) -> None:
    async def scenario(rig: Rig) -> None:
        busy = await rig.take()
        busy.init.set()
        first, second = rig.begin(), rig.begin()
        await settled()
        pool = rig.environments._pools["app", ""]
        if outcome is LOST:
            rig.environments._make_room(pool)
        else:
            rig.environments._keep(pool, busy)
        first.cancel()
        await settled()

        assert first.cancelled()
        assert second.done()
        assert (second.result() is busy) == (outcome is DONE)
        assert rig.count() == 1

    run(scenario, environments_of_a_function=1)


def test_a_caller_cancelled_with_the_slot_of_a_lost_environment_passes_it_on(run: Callable[..., None]) -> None:
    async def scenario(rig: Rig) -> None:
        first = await rig.take()
        first.init.set()
        await settled()
        for _ in range(CORES):
            await rig.environments._starting.acquire()
        waiting = rig.begin()
        await settled()
        await rig.give_back(first, LOST)
        waiting.cancel()
        await settled()

        assert waiting.cancelled()
        assert rig.count() == 0

    run(scenario, environments_of_a_function=1)


def test_provisioning_that_is_cancelled_leaves_no_place_taken(run: Callable[..., None]) -> None:
    async def scenario(rig: Rig) -> None:
        for _ in range(CORES):
            await rig.environments._starting.acquire()
        provisioning = asyncio.ensure_future(rig.environments.provision(rig.spec, 1))
        await settled()
        provisioning.cancel()
        await settled()

        assert rig.count() == 0

    run(scenario)


def test_a_queued_caller_starts_an_environment_in_the_place_that_another_did_not_need(
    run: Callable[..., None],
) -> None:
    async def scenario(rig: Rig) -> None:
        busy = [await rig.take() for _ in range(CORES)]
        reserving = rig.begin()  # reserves the last place, and waits for a start slot
        queued = rig.begin()
        await settled()
        await rig.give_back(busy[0])
        for process in busy:
            process.init.set()
        await settled()

        assert reserving.result() is busy[0]
        assert queued.done()
        assert rig.count() == CORES + 1

    run(scenario, environments_of_a_function=CORES + 1)
