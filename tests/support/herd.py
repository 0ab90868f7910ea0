"""A thundering herd: environments, each a process as on Lambda, that request the same result at once.

    python -m support.herd BACKEND COUNT FOLDER [kill]

Prints JSON: the number of computations, and each environment's result and statistics. With `kill`, the first process
that computes is killed half-way.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sys
import time
from multiprocessing.queues import SimpleQueue
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import burstcache.results.stores.redis_store  # noqa: F401  (once, before the forks)
from burstcache.results import cached
from support.waiting import LIMIT_S, until

_COMPUTING_S = 0.3


def ask(backend: str, folder: Path, barrier: Barrier, answers: SimpleQueue[Any]) -> None:
    """Run one environment."""

    @cached(backend=backend, version="1", timeout_ms=LIMIT_S * 1000)
    def work(name: str) -> str:
        (folder / f"{os.getpid()}.computing").touch()
        if (folder / "kill").exists():
            signal.pause()
        time.sleep(_COMPUTING_S)
        return f"the result of {name}"

    barrier.wait()
    try:
        answer = work("one")
    except Exception as error:
        answer = repr(error)
    answers.put((answer, work.results.stats()))


def main(backend: str, count: str, folder: str, *options: str) -> None:
    """Run the environments and print their results."""
    fork = multiprocessing.get_context("fork")
    barrier, answers = fork.Barrier(int(count)), fork.SimpleQueue()
    if "kill" in options:
        Path(folder, "kill").touch()
    arguments = (backend, Path(folder), barrier, answers)
    processes = [fork.Process(target=ask, args=arguments, daemon=True) for _ in range(int(count))]
    for process in processes:
        process.start()
    if "kill" in options:
        (victim,) = until(lambda: list(Path(folder).glob("*.computing")))
        Path(folder, "kill").unlink()
        os.kill(int(victim.stem), signal.SIGKILL)
    received = [answers.get() for _ in range(int(count) - len(options))]
    computations = len(list(Path(folder).glob("*.computing")))
    print(json.dumps({"computations": computations, "answers": received}))


if __name__ == "__main__":
    main(*sys.argv[1:])
