"""Whether a replay keeps its schedule: requests at a constant rate to a server that only answers, on one core.

Next to it stands the same schedule with requests that are not sent: what the event loop and its timers are late by
themselves.

    python -m benchmarks.replay [--seconds 10] [--rates 500 1000 2000]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import multiprocessing
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager
from multiprocessing.connection import Connection

import uvloop

from benchmarks.support.common import environment
from burstcache_replay.schedule import Answer, Outcome, Send, replay
from burstcache_replay.summary import Spread, is_failed
from burstcache_replay.targets import front_door
from burstcache_terminal.text import table_text

_BODY = bytes(1024)
_ANSWER = b"HTTP/1.1 200 OK\r\nX-Cache-Tier: s3\r\nContent-Length: %d\r\n\r\n" % len(_BODY) + _BODY


class _Answers(asyncio.Protocol):
    """Answers each request in the same way, without reading what it asks for."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._transport.write(_ANSWER * data.count(b"\r\n\r\n"))


def _serve(told: Connection, core: int) -> None:
    os.sched_setaffinity(0, {core})

    async def main() -> None:
        server = await asyncio.get_running_loop().create_server(_Answers, "127.0.0.1", 0)
        told.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(main())


@contextlib.contextmanager
def _server(core: int) -> Iterator[str]:
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.Process(target=_serve, args=(theirs, core), daemon=True)
    process.start()
    try:
        yield f"http://127.0.0.1:{ours.recv()}/objects"
    finally:
        process.kill()
        process.join()


@contextlib.asynccontextmanager
async def _nowhere() -> AsyncIterator[Send]:
    async def send(number: int) -> Answer:
        return Answer(200)

    yield send


def _replayed(target: AbstractAsyncContextManager[Send], due_s: list[float]) -> list[Outcome]:
    outcomes: list[Outcome] = []

    async def main() -> None:
        async with target as send:
            await replay(due_s, send, outcomes.append)

    gc.freeze()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
    return outcomes


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--rates", type=int, nargs="+", default=[500, 1000, 2000, 3000], help="requests a second")
    args = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))
    rows = []
    with _server(cores[-1]) as url:
        os.sched_setaffinity(0, {cores[0]})
        for rate in args.rates:
            due_s = [number / rate for number in range(round(rate * args.seconds))]
            bare = Spread.of([outcome.late_s for outcome in _replayed(_nowhere(), due_s)])
            sent = _replayed(front_door(url, ["key"] * len(due_s), {}, 30.0), due_s)
            assert not any(map(is_failed, sent))
            late = Spread.of([outcome.late_s for outcome in sent])
            service = Spread.of([outcome.service_s for outcome in sent])
            times = (late.p50_ms, late.p99_ms, late.max_ms, service.p50_ms, service.p99_ms, bare.p99_ms, bare.max_ms)
            rows.append((f"{rate:,}", *(f"{each_ms:.2f}" for each_ms in times)))
    print(environment())
    header = ("requests/s", "late p50", "p99", "max", "answer p50", "p99", "not sent: late p99", "max ms")
    print(table_text(header, rows, right=range(len(header))))


if __name__ == "__main__":
    main()
