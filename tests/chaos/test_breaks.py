"""The breaks count their effects."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

from chaos.breaks import executions_stopped, killed

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


def test_a_server_that_the_shell_of_a_task_has_started_is_killed_too(tmp_path: Path) -> None:
    server, stage = tmp_path / "chaos-server", _stage(_Cloud())
    server.write_text("#!/bin/sh\necho ready\nread line\n")
    server.chmod(0o700)
    command = ["/bin/sh", "-c", f"{server}; exit 3"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as shell:
        assert shell.stdout
        assert shell.stdout.readline() == "ready\n"
        with killed("chaos-server")(stage):
            assert shell.wait(30) == 3

    assert stage.counts == {"chaos-server killed": 1}
