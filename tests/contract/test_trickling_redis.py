"""A Redis whose answers come in pieces, from a real server over a nearly dead link: an operation has one deadline."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress

import pytest

from burstcache.access import RedisAccess, RedisNode
from burstcache.adapters.adaptive_timeout import MOST_S, AdaptiveTimeout
from burstcache.adapters.redis_objects import RedisObjects
from burstcache.core.errors import RedisDownError
from burstcache.web.entry import Entry
from support.clock import ManualClock
from support.redis_in_process import NO_SECRETS
from support.servers import RedisServer, Silence, TlsRedis
from support.waiting import LIMIT_S, free_port

_HASH = "0" * 32
_BODY = b"x" * 1_000_000  # more than one read of a socket takes
_ENTRY = Entry({"etag": '"1"', "content-length": str(len(_BODY))}, _BODY)


class TricklingProxy:
    """Proxy that forwards requests and sends the answers in pieces.

    Args:
        port: Port of the server on 127.0.0.1.
        piece_bytes: Size of a piece [bytes].
        between: Called before each piece. False: nothing more arrives, and the connection stays open.
    """

    def __init__(self, port: int, piece_bytes: int, between: Callable[[], bool]) -> None:
        self._server_port = port
        self._piece_bytes = piece_bytes
        self._between = between
        self.connections = 0

    def __enter__(self) -> TricklingProxy:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._open: list[socket.socket] = []
        self._threads = [self._start(self._accept)]
        return self

    def __exit__(self, *_: object) -> None:
        for each in (self._listener, *self._open):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        for thread in self._threads:
            thread.join()

    def _start(self, target: Callable[..., None], *arguments: object) -> threading.Thread:
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        thread.start()
        return thread

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self.connections += 1
                server = socket.create_connection(("127.0.0.1", self._server_port))
                self._open += (client, server)
                self._threads += (self._start(self._ask, client, server), self._start(self._answer, server, client))

    def _ask(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while data := client.recv(1 << 16):
                server.sendall(data)
            server.shutdown(socket.SHUT_RDWR)

    def _answer(self, server: socket.socket, client: socket.socket) -> None:
        with suppress(OSError):
            while data := server.recv(1 << 16):
                for start in range(0, len(data), self._piece_bytes):
                    if not self._between():
                        return
                    client.sendall(data[start : start + self._piece_bytes])


def _objects(port: int, clock: ManualClock | None = None, **more: object) -> RedisObjects:
    node = RedisNode("node-1", "i-1", "127.0.0.1", port)
    return RedisObjects(node, NO_SECRETS, RedisAccess(), clock=clock, **more)  # type: ignore[arg-type]


@pytest.fixture
def _stored(server: RedisServer) -> None:
    objects = _objects(server.port, timeout_s=LIMIT_S)
    assert objects.put(_HASH, _ENTRY, objects.take_lease(_HASH))
    objects.close()


@pytest.mark.usefixtures("_stored")
@pytest.mark.parametrize("has_patience", [True, False])
def test_an_answer_in_pieces_is_left_at_the_deadline_and_its_connection_is_not_used_again(
    server: RedisServer, has_patience: bool
) -> None:
    clock, pieces_s = ManualClock(), [0.0]

    def between() -> bool:
        clock.now_s += pieces_s[0]
        return True

    patience = AdaptiveTimeout(least_s=LIMIT_S, most_s=LIMIT_S, clock=clock) if has_patience else None
    with TricklingProxy(server.port, 20, between) as proxy:
        objects = _objects(proxy.port, clock, adaptive_timeout=patience, timeout_s=LIMIT_S)
        objects.ping()
        pieces_s[0] = LIMIT_S / 5  # no piece late by itself

        with pytest.raises(RedisDownError):
            objects.read(_HASH, at_us=1)

        pieces_s[0] = 0.0
        assert objects.read_meta(_HASH) == Entry(_ENTRY.meta, b"")
        assert proxy.connections == 2
        objects.close()


@pytest.mark.usefixtures("_stored")
def test_an_answer_in_pieces_within_the_deadline_is_received_whole(server: RedisServer) -> None:
    with TricklingProxy(server.port, 1_000, lambda: True) as proxy:
        objects = _objects(proxy.port, ManualClock(), timeout_s=LIMIT_S)

        assert objects.read(_HASH, at_us=1) == _ENTRY
        objects.close()


def test_a_log_in_in_pieces_is_left_at_the_deadline(server: RedisServer) -> None:
    allowed = iter([True])  # one byte of the answer to AUTH, and then none
    with TricklingProxy(server.port, 1, lambda: next(allowed, False)) as proxy:
        node = RedisNode("node-1", "i-1", "127.0.0.1", proxy.port)
        access = RedisAccess(user="reader", password_parameter="/password")
        objects = RedisObjects(node, _Password(), access, adaptive_timeout=AdaptiveTimeout(least_s=0.05))  # type: ignore[arg-type]

        with pytest.raises(RedisDownError, match="Timeout"):
            objects.ping()
        objects.close()


class _Password:
    def read(self, name: str) -> str:
        return "wrong"

    def forget(self) -> None:
        """Do nothing."""


@pytest.mark.parametrize("piece_bytes", [1, 20])
def test_a_handshake_of_tls_in_pieces_is_left_at_the_deadline(piece_bytes: int) -> None:
    redis, over, pieces = TlsRedis(free_port()), threading.Event(), [0]
    redis.start()

    def between() -> bool:
        pieces[0] += 1
        return not over.wait(0.1)

    try:
        with TricklingProxy(redis.port, piece_bytes, between) as proxy:
            node = RedisNode("node-1", "i-1", "127.0.0.1", proxy.port)
            patience = AdaptiveTimeout(least_s=0.5, most_s=0.5)
            objects = RedisObjects(node, NO_SECRETS, RedisAccess(ca_pem=redis.ca_pem), adaptive_timeout=patience)

            with pytest.raises(RedisDownError):
                objects.ping()

            assert pieces[0] * piece_bytes < 500  # of more than 1,000 bytes that a handshake has
            over.set()
            objects.close()
    finally:
        redis.kill()


def test_a_redis_that_never_answers_is_left_at_the_deadline() -> None:
    with Silence() as silence:
        port = int(silence.address.rpartition(":")[2])
        objects = _objects(port, adaptive_timeout=AdaptiveTimeout(least_s=0.05, most_s=MOST_S))

        with pytest.raises(RedisDownError, match="Timeout"):
            objects.ping()
        assert silence.connections() == 1
        objects.close()
