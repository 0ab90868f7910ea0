"""Server of a gateway: listens, runs a process per core, and ends without losing a request."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import ssl
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

import uvloop

from burstcache.client.client import Client
from burstcache.core.errors import in_one_line
from burstcache.gateway.access import Access
from burstcache.gateway.application import GatewayApplication
from burstcache.gateway.forward_proxy import ForwardProxy
from burstcache.gateway.generations import Generations
from burstcache.gateway.http_connection import HttpConnection
from burstcache.gateway.object_cache import ObjectCache
from burstcache.gateway.origin import Origin
from burstcache.gateway.s3_requests import Targets
from burstcache.gateway.service_manager import inherited_sockets
from burstcache.logs import logger

_BACKLOG = 1024
_LISTENS, _SIGNAL = b".", b"!"
_RESTART_S = 1.0  # the least time between two starts of a process that fails at once


@dataclass(frozen=True)
class ServerSettings:
    """How a gateway listens.

    Attributes:
        host: The address to listen on.
        port: The TCP port. 0: a free one.
        unix_socket: Path of a Unix socket, beside the port. Empty: none.
        processes: Number of processes.
        drain_s: How long a stopping gateway waits for requests under way [s].
        tls: Creates the TLS context. None: plain HTTP.
        domains: Names of the gateway for bucket names in the host.
        permitted_s: How long S3's answer permits further hits through the forward proxy [s]. None: there is no proxy.
    """

    host: str = "127.0.0.1"
    port: int = 9000
    unix_socket: str = ""
    processes: int = 1
    drain_s: float = 30.0
    tls: Callable[[], ssl.SSLContext] | None = None
    domains: tuple[str, ...] = ()
    permitted_s: float | None = None


@dataclass(frozen=True)
class Parts:
    """What each process makes for itself: connections and threads do not survive a fork."""

    client: Callable[[], Client]
    origin: Callable[[Client], Origin]
    access: Callable[[], Access]


class Observer(Protocol):
    """Learns of the states of a gateway, in its first process."""

    def ready(self, port: int) -> None:
        """Note that all processes listen. The port is 0 if they listen on Unix sockets alone."""

    def stopping(self) -> None:
        """Note that the gateway accepts no more connections."""


def serve(settings: ServerSettings, parts: Parts, observer: Observer) -> int:
    """Serve until SIGTERM or SIGINT. Return the exit code.

    Args:
        settings: How to listen.
        parts: What each process makes for itself.
        observer: Learns when all processes listen, and when they stop.

    Raises:
        OSError: The address cannot be bound.
    """
    sockets = inherited_sockets()
    is_own = not sockets
    sockets = sockets or _listen(settings)
    port = next((each.getsockname()[1] for each in sockets if each.family != socket.AF_UNIX), 0)
    generations = Generations(settings.processes)
    run = partial(_run_process, settings, parts, sockets, generations)
    try:
        if settings.processes == 1:
            run(0, lambda: observer.ready(port), observer.stopping)
            return 0
        return _supervise(settings, sockets, run, lambda: observer.ready(port), observer.stopping)
    finally:
        if is_own and settings.unix_socket:
            Path(settings.unix_socket).unlink(missing_ok=True)


def _listen(settings: ServerSettings) -> list[socket.socket]:
    """Return the listening sockets, which all processes share."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    tcp = socket.create_server((settings.host, settings.port), family=family, backlog=_BACKLOG)
    tcp.setblocking(False)
    sockets = [tcp]
    if settings.unix_socket:
        path = Path(settings.unix_socket)
        if path.is_socket():  # left by a gateway that was killed
            probe = socket.socket(socket.AF_UNIX)
            try:
                probe.connect(str(path))
            except OSError:
                path.unlink()
            finally:
                probe.close()
        unix = socket.socket(socket.AF_UNIX)
        former = os.umask(0o177)  # this user alone
        try:
            unix.bind(str(path))
        except OSError as error:
            tcp.close()
            unix.close()
            raise OSError(error.errno, error.strerror, str(path)) from error
        finally:
            os.umask(former)
        unix.listen(_BACKLOG)
        unix.setblocking(False)
        sockets.append(unix)
    return sockets


def _supervise(
    settings: ServerSettings,
    sockets: list[socket.socket],
    run: Callable[..., None],
    ready: Callable[[], None],
    stopping: Callable[[], None],
) -> int:
    """Run the processes, start those anew that die, and stop all when this process is stopped."""
    reading, writing = os.pipe()  # one byte per process that listens, and one per signal
    lifeline, held = os.pipe()  # this process alone holds the other end: it closes when this process dies
    is_stopping = False
    children: dict[int, int] = {}  # index by process id

    def start(index: int) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid:
            children[pid] = index
            return
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        code = 1
        try:
            os.close(held)
            run(index, partial(os.write, writing, _LISTENS), lambda: None, lifeline)
            code = 0
        except BaseException as error:
            print(f"burstcache: {in_one_line(error)}", file=sys.stderr, flush=True)
        finally:
            os._exit(code)

    def note_signal(number: int, _: object) -> None:
        nonlocal is_stopping
        is_stopping = is_stopping or number != signal.SIGCHLD
        os.write(writing, _SIGNAL)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
        signal.signal(number, note_signal)
    for index in range(settings.processes):
        start(index)
    listening, is_told, started_s = 0, False, time.monotonic()
    while children:
        listening += os.read(reading, 64).count(_LISTENS)
        if listening >= settings.processes and not is_told and not is_stopping:
            is_told = True
            ready()
        if is_stopping:
            if sockets[0].fileno() >= 0:
                stopping()
                for each in sockets:  # as long as one process has them open, the kernel accepts connections
                    each.close()
            for pid in children:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGTERM)
        while children and (ended := os.waitpid(-1, os.WNOHANG))[0]:
            index, code = children.pop(ended[0]), os.waitstatus_to_exitcode(ended[1])
            if is_stopping:
                continue
            if not is_told:  # it will not do better the next time
                is_stopping = True
                os.write(writing, _SIGNAL)
                continue
            logger().error("a process of the gateway ended, another one starts", code=code)
            while not is_stopping and time.monotonic() < started_s + _RESTART_S:
                time.sleep(_RESTART_S / 20)
            started_s = time.monotonic()
            if not is_stopping:
                start(index)
    return 0 if is_told else 1


def _run_process(
    settings: ServerSettings,
    parts: Parts,
    sockets: list[socket.socket],
    generations: Generations,
    index: int,
    ready: Callable[[], object],
    stopping: Callable[[], None],
    lifeline: int | None = None,
) -> None:
    uvloop.run(_serve(settings, parts, sockets, generations, index, ready, stopping, lifeline))


async def _serve(
    settings: ServerSettings,
    parts: Parts,
    sockets: list[socket.socket],
    generations: Generations,
    index: int,
    ready: Callable[[], object],
    stopping: Callable[[], None],
    lifeline: int | None,
) -> None:
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    if lifeline is not None:
        loop.add_reader(lifeline, stopped.set)
    client = parts.client()
    origin = parts.origin(client)
    await origin.open()
    cache, targets = ObjectCache(client, generations, index), Targets(("localhost", *settings.domains))
    proxy = None if settings.permitted_s is None else ForwardProxy(cache, origin, permitted_s=settings.permitted_s)
    application = GatewayApplication(cache, origin, targets, parts.access(), proxy)
    connections: set[HttpConnection] = set()
    tls = None if settings.tls is None else settings.tls()
    make = partial(HttpConnection, application, connections)
    servers = [
        await loop.create_unix_server(make, sock=each, backlog=_BACKLOG)
        if each.family == socket.AF_UNIX
        else await loop.create_server(make, sock=each, ssl=tls, backlog=_BACKLOG)
        for each in sockets
    ]
    try:
        ready()
        await stopped.wait()
        if lifeline is not None:
            loop.remove_reader(lifeline)
        stopping()
        for server in servers:
            server.close()
        await _drain(connections, settings.drain_s)
    finally:
        await origin.close()
        await asyncio.to_thread(client.close)


async def _drain(connections: set[HttpConnection], within_s: float) -> None:
    """Close all connections after their responses, or after a time."""
    for each in list(connections):
        each.close_when_idle()
    deadline_s = time.monotonic() + within_s
    while connections and time.monotonic() < deadline_s:
        await asyncio.wait([each.closed for each in list(connections)], timeout=deadline_s - time.monotonic())
    for each in list(connections):
        each.abort()
