"""Forks of the local Lambda service: each order is answered, to its own caller, however far the zygote falls behind."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from burstcache_local.errors import StartLostError
from burstcache_local.lambdas.forks import Fork, Forks
from support.servers import freeze
from support.waiting import LIMIT_S

BURST = 100

# Stands in for AWS's runtime client, which takes too long to import for thousands of forks.
RUNTIME_CLIENT = """
import os, pathlib, time

def main(arguments):
    pathlib.Path(f"{arguments[1]}.pid").write_text(str(os.getpid()))
    time.sleep(1000)
"""


class Nursery:
    """Orders forks that write their process id into a file of their own name and then wait."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "awslambdaric").mkdir()
        (folder / "awslambdaric" / "__init__.py").touch()
        (folder / "awslambdaric" / "__main__.py").write_text(RUNTIME_CLIENT)
        self.forks = Forks(folder / "zygote.log")

    @property
    def zygote_pid(self) -> int:
        assert self.forks.zygote_pid
        return self.forks.zygote_pid

    async def fork(self, name: str) -> Fork:
        # An order of about 2 KB, as a real one: a hundred of them fill the socket of a zygote that does not read.
        environment = {"FILLING": "x" * 2000}
        return await self.forks.fork(name, env=environment, root=self.folder, log=self.folder / "fork.log")

    async def pid_of(self, name: str) -> int:
        """Return the process id that the fork of this name has written down itself."""
        path = self.folder / f"{name}.pid"
        while not path.exists() or not path.read_text():
            await asyncio.sleep(0.01)
        return int(path.read_text())

    def run(self, scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
        async def work() -> None:
            self.forks.start()
            try:
                await asyncio.wait_for(scenario(), LIMIT_S)
            finally:
                self.forks.stop()

        asyncio.run(work())


@pytest.fixture
def nursery(folder: Path) -> Nursery:
    return Nursery(folder)


async def ended(forks: list[Fork]) -> list[int]:
    return await asyncio.gather(*(fork.ended for fork in forks))


def test_a_burst_of_orders_and_one_more_are_all_answered_again_and_again(nursery: Nursery) -> None:
    async def scenario() -> None:
        for burst in range(20):
            if burst % 2:  # the socket fills
                freeze(nursery.zygote_pid)
            orders = [asyncio.ensure_future(nursery.fork(f"{burst}-{number}")) for number in range(BURST)]
            await asyncio.sleep(0)  # all orders are given
            os.kill(nursery.zygote_pid, signal.SIGCONT)
            born = [*await asyncio.gather(*orders), await nursery.fork(f"{burst}-more")]

            assert len({fork.pid for fork in born}) == BURST + 1
            for fork in born:
                fork.kill()
            assert set(await ended(born)) == {-signal.SIGKILL}

    nursery.run(scenario)


def test_a_fork_is_answered_to_the_caller_that_ordered_it(nursery: Nursery) -> None:
    async def scenario() -> None:
        freeze(nursery.zygote_pid)
        orders = [asyncio.ensure_future(nursery.fork(f"f{number}")) for number in range(BURST)]
        await asyncio.sleep(0)
        os.kill(nursery.zygote_pid, signal.SIGCONT)
        born = await asyncio.gather(*orders)

        assert [fork.pid for fork in born] == [await nursery.pid_of(f"f{number}") for number in range(BURST)]

    nursery.run(scenario)


def test_a_kill_ends_its_own_fork_and_no_other(nursery: Nursery) -> None:
    async def scenario() -> None:
        first, second, third = [await nursery.fork(name) for name in ("first", "second", "third")]
        await nursery.pid_of("third")

        second.kill()

        assert await second.ended == -signal.SIGKILL
        assert (first.ended.done(), third.ended.done()) == (False, False)
        assert Path(f"/proc/{first.pid}").exists()
        second.kill()  # of one that has ended: nothing happens
        assert await nursery.fork("fourth")

    nursery.run(scenario)


def test_a_fork_whose_caller_has_given_up_is_killed(nursery: Nursery) -> None:
    async def scenario() -> None:
        freeze(nursery.zygote_pid)
        order = asyncio.ensure_future(nursery.fork("unwanted"))
        await asyncio.sleep(0)
        order.cancel()
        await asyncio.sleep(0)
        os.kill(nursery.zygote_pid, signal.SIGCONT)

        await nursery.fork("wanted")

        while nursery.forks._running.keys() != {2}:
            await asyncio.sleep(0.01)

    nursery.run(scenario)


def test_orders_in_flight_fail_when_the_zygote_is_killed_and_the_next_one_starts_another(nursery: Nursery) -> None:
    async def scenario() -> None:
        living = await nursery.fork("living")
        freeze(nursery.zygote_pid)
        orders = [asyncio.ensure_future(nursery.fork(f"lost{number}")) for number in range(BURST)]
        orders[0].cancel()
        await asyncio.sleep(0)

        os.kill(nursery.zygote_pid, signal.SIGKILL)

        outcomes = await asyncio.gather(*orders, return_exceptions=True)
        assert isinstance(outcomes[0], asyncio.CancelledError)
        assert all(isinstance(outcome, StartLostError) for outcome in outcomes[1:])
        assert await living.ended == -signal.SIGKILL
        assert (await nursery.fork("next")).pid == await nursery.pid_of("next")

    nursery.run(scenario)
