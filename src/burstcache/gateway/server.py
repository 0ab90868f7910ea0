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
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

import uvloop

from burstcache.client.client import Client
from burstcache.core.errors import in_one_line
from burstcache.gateway.access import Access
from burstcache.gateway.access_log import STANDARD_OUTPUT
from burstcache.gateway.application import GatewayApplication
from burstcache.gateway.forward_proxy import ForwardProxy
from burstcache.gateway.generations import Generations
from burstcache.gateway.http_connection import Application, HttpConnection
from burstcache.gateway.object_cache import ObjectCache
from burstcache.gateway.observation import Observation
from burstcache.gateway.origin import S3Origin
from burstcache.gateway.own_paths import ObservedApplication, OwnPathsApplication
from burstcache.gateway.prometheus import GatewayMetrics
from burstcache.gateway.recorder import Unrecorded
from burstcache.gateway.registration import METRICS_PATH, RegisteredGateway, registered
from burstcache.gateway.s3_requests import Targets
from burstcache.gateway.service_manager import inherited_sockets
from burstcache.gateway.tracing import start_tracing
from burstcache.logs import logger

_BACKLOG = 1024
_LISTENS, _SIGNAL = b".", b"!"
_RESTART_S = 1.0  # the least time between two starts of a process that fails at once


@dataclass(frozen=True)
class ServerSettings:
    """Settings of the listening sockets and processes.

    Attributes:
        host: The address to listen on.
        port: The TCP port. 0: a free one.
        unix_socket: Path of a Unix socket, beside the port. Empty: none.
        bucket: The bucket that it caches.
        processes: Number of processes.
        drain_s: How long a stopping gateway waits for requests under way [s].
        tls: Creates the TLS context. None: plain HTTP.
        domains: Names of the gateway for bucket names in the host.
        metrics_address: Host and port of a listener for metrics and health alone. None: the port for S3 has them.
        access_log: The access log. Empty: none. `-`: standard output.
        accepts_unsigned: Whether requests need no signature.
        disk: The directory of the disk tier, empty without one.
        permitted_s: How long S3's answer permits further hits through the forward proxy [s]. None: there is no proxy.
    """

    host: str = "127.0.0.1"
    port: int = 9000
    unix_socket: str = ""
    bucket: str = ""
    processes: int = 1
    drain_s: float = 30.0
    tls: Callable[[], ssl.SSLContext] | None = None
    domains: tuple[str, ...] = ()
    metrics_address: tuple[str, int] | None = None
    access_log: str = ""
    accepts_unsigned: bool = False
    disk: str = ""
    permitted_s: float | None = None


@dataclass(frozen=True)
class Parts:
    """Factories of each process's own parts: connections and threads do not survive a fork."""

    client: Callable[[], Client]
    origin: Callable[[Client], S3Origin]
    access: Callable[[], Access]


@dataclass(frozen=True)
class Shared:
    """The parts that all processes share."""

    sockets: list[socket.socket]
    metrics_socket: socket.socket | None
    generations: Generations
    metrics: GatewayMetrics


class LifecycleObserver(Protocol):
    """Learns of the states of a gateway, in its first process."""

    def ready(self, port: int) -> None:
        """Note that all processes listen. The port is 0 if they listen on Unix sockets alone."""

    def stopping(self) -> None:
        """Note that the gateway accepts no more connections."""


def serve(settings: ServerSettings, parts: Parts, observer: LifecycleObserver) -> int:
    """Serve until SIGTERM or SIGINT. Return the exit code.

    Args:
        settings: How to listen.
        parts: What each process makes for itself.
        observer: Learns when all processes listen, and when they stop.

    Raises:
        OSError: The address cannot be bound.
    """
    inherited = inherited_sockets()
    shared = Shared(
        inherited or _listen(settings),
        None if settings.metrics_address is None else _listen_tcp(*settings.metrics_address),
        Generations(settings.processes),
        GatewayMetrics(settings.processes, started_s=time.time()),
    )
    port = next((each.getsockname()[1] for each in shared.sockets if each.family != socket.AF_UNIX), 0)
    run = partial(_run_process, settings, parts, shared)
    with ExitStack() as until_end:
        if not inherited and settings.unix_socket:
            until_end.callback(Path(settings.unix_socket).unlink, missing_ok=True)

        def tell() -> None:
            if port:
                entry = _entry(settings, shared)
                until_end.enter_context(registered(entry))
            observer.ready(port)
            if shared.metrics_socket is not None:
                print(f"{_url('http', shared.metrics_socket)}{METRICS_PATH} shows what it does", flush=True)

        if settings.processes == 1:
            run(0, tell, observer.stopping)
            return 0
        return _supervise(settings, shared, run, tell, observer.stopping)


def _entry(settings: ServerSettings, shared: Shared) -> RegisteredGateway:
    """Return the entry of the gateway for other programs of this machine."""

    tcp = next(each for each in shared.sockets if each.family != socket.AF_UNIX)
    own = _url("http" if settings.tls is None else "https", tcp)
    if shared.metrics_socket is not None:
        metrics_url = _url("http", shared.metrics_socket) + METRICS_PATH
    else:  # a certificate is for a name, by which this machine may not reach it
        metrics_url = own + METRICS_PATH if settings.tls is None else ""
    return RegisteredGateway(own, metrics_url, os.getpid(), settings.bucket)


def _url(scheme: str, listener: socket.socket) -> str:
    """Return the URL of a socket as seen from this machine."""
    host, port = listener.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"


def _listen_tcp(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.create_server((host, port), family=family, backlog=_BACKLOG)
    listener.setblocking(False)
    return listener


def _listen(settings: ServerSettings) -> list[socket.socket]:
    """Return the listening sockets for S3's requests, which all processes share."""
    sockets = [_listen_tcp(settings.host, settings.port)]
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
            sockets[0].close()
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
    shared: Shared,
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
        if _reopens_log(settings):
            signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until the log is open
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

    def pass_on(number: int, _: object) -> None:
        for pid in children:
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
        signal.signal(number, note_signal)
    if _reopens_log(settings):
        signal.signal(signal.SIGHUP, pass_on)
    for index in range(settings.processes):
        start(index)
    listening, is_told, started_s = 0, False, time.monotonic()
    while children:
        listening += os.read(reading, 64).count(_LISTENS)
        if listening >= settings.processes and not is_told and not is_stopping:
            is_told = True
            ready()
        if is_stopping:
            if shared.sockets[0].fileno() >= 0:
                stopping()
                for each in shared.sockets:  # as long as one process has them open, the kernel accepts connections
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
            shared.generations.increment_all()
            logger().error("a process of the gateway ended, another one starts", reason=f"{ended[0]} ended with {code}")
            while not is_stopping and time.monotonic() < started_s + _RESTART_S:
                time.sleep(_RESTART_S / 20)
            started_s = time.monotonic()
            if not is_stopping:
                start(index)
    return 0 if is_told else 1


def _reopens_log(settings: ServerSettings) -> bool:
    """Return True if SIGHUP opens the access log anew. Otherwise it ends the gateway, as it ends most programs."""
    return settings.access_log not in ("", STANDARD_OUTPUT)


def _run_process(
    settings: ServerSettings,
    parts: Parts,
    shared: Shared,
    index: int,
    ready: Callable[[], object],
    stopping: Callable[[], None],
    lifeline: int | None = None,
) -> None:
    uvloop.run(_serve(settings, parts, shared, index, ready, stopping, lifeline))


async def _serve(
    settings: ServerSettings,
    parts: Parts,
    shared: Shared,
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
    targets = Targets(("localhost", *settings.domains))
    observation = Observation(
        shared.metrics,
        index,
        targets,
        names=settings.domains,
        accepts_unsigned=settings.accepts_unsigned,
        log_file=settings.access_log,
    )
    if _reopens_log(settings):
        loop.add_signal_handler(signal.SIGHUP, observation.reopen_log)
    observation.s3.watch(client.s3)
    tracing = start_tracing(os.environ, targets, client.s3)
    origin = parts.origin(client)
    await origin.open(**observation.s3.session_arguments(*([] if tracing is None else [tracing.trace_config()])))
    cache = ObjectCache(client, shared.generations, index, observation.note_failed_invalidation)
    proxy = None if settings.permitted_s is None else ForwardProxy(cache, origin, permitted_s=settings.permitted_s)
    served: Application = GatewayApplication(cache, origin, targets, parts.access(), proxy)
    if tracing is not None:
        served = tracing.traced(served)
    application = ObservedApplication(served, observation.own_paths)
    connections: set[HttpConnection] = set()
    tls = None if settings.tls is None else settings.tls()
    make = partial(HttpConnection, application, connections, observation.recorder)
    servers = [
        await loop.create_unix_server(make, sock=each, backlog=_BACKLOG)
        if each.family == socket.AF_UNIX
        else await loop.create_server(make, sock=each, ssl=tls, backlog=_BACKLOG)
        for each in shared.sockets
    ]
    watchers: set[HttpConnection] = set()
    if shared.metrics_socket is not None:
        make = partial(HttpConnection, OwnPathsApplication(observation.own_paths), watchers, Unrecorded())
        await loop.create_server(make, sock=shared.metrics_socket, backlog=_BACKLOG)
    watching = loop.create_task(observation.watch(client, settings.disk if index == 0 else ""))
    try:
        ready()
        await stopped.wait()
        if lifeline is not None:
            loop.remove_reader(lifeline)
        observation.own_paths.is_draining = True
        stopping()
        for server in servers:
            server.close()
        await _drain(connections, settings.drain_s)
    finally:
        watching.cancel()
        for each in list(watchers):
            each.abort()
        await origin.close()
        cache.close()
        await asyncio.to_thread(client.close)
        if tracing is not None:
            await tracing.close()
        observation.close()


async def _drain(connections: set[HttpConnection], within_s: float) -> None:
    """Close all connections after their responses, or after a time."""
    for each in list(connections):
        each.close_when_idle()
    deadline_s = time.monotonic() + within_s
    while connections and time.monotonic() < deadline_s:
        await asyncio.wait([each.closed for each in list(connections)], timeout=deadline_s - time.monotonic())
    for each in list(connections):
        each.abort()
