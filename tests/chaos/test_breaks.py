"""The breaks count their effects."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from types import SimpleNamespace
from typing import Any

from chaos.breaks import executions_stopped

_STATES = {"A": {"Type": "Task"}, "B": {"Type": "Wait"}, "C": {"Type": "Choice"}}


class _Cloud:
    def __init__(self) -> None:
        self.outputs = {"MachineArn": "machine"}
        self.seen: Callable[[Any, str], None] = lambda execution, state: None

    @contextmanager
    def entering(self, seen: Callable[[Any, str], None]) -> Iterator[None]:
        self.seen = seen
        yield


def _stage(cloud: _Cloud) -> Any:
    states = SimpleNamespace(
        describe_state_machine=lambda **_: {"definition": json.dumps({"States": _STATES})},
        list_executions=lambda **_: {"executions": []},
    )
    return SimpleNamespace(cloud=cloud, counts=Counter(), chance=Random(1), client=lambda service: states)


def _execution(name: str) -> tuple[Any, asyncio.Event]:
    stopped = asyncio.Event()

    def stop(error: str, cause: str) -> None:
        stopped.set()

    return SimpleNamespace(arn=name, machine_arn="machine", status="RUNNING", stop=stop), stopped


def test_one_execution_is_stopped_in_each_state_that_one_enters_and_other_states_are_counted_as_0() -> None:
    async def scenario() -> None:
        cloud = _Cloud()
        stage = _stage(cloud)
        (first, is_first_stopped), (second, is_second_stopped) = _execution("first"), _execution("second")
        with executions_stopped("MachineArn")(stage):
            cloud.seen(first, "A")
            await is_first_stopped.wait()
            cloud.seen(second, "A")
            cloud.seen(second, "C")
            await is_second_stopped.wait()

        assert stage.counts == {"stopped in A": 1, "stopped in B": 0, "stopped in C": 1}

    asyncio.run(asyncio.wait_for(scenario(), 30))
