"""Redis over TLS: a real one behind the certificate that the stack's function issues."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta

import pytest

from burstcache.access import RedisAccess, RedisNode
from burstcache.adapters.redis_objects import RedisObjects
from burstcache.core.errors import RedisDownError
from support.redis_in_process import NO_SECRETS
from support.servers import TlsRedis
from support.waiting import LIMIT_S, free_port

MakeRedis = Callable[..., TlsRedis]
Connect = Callable[[TlsRedis, str], RedisObjects]
_NOW = datetime.now(UTC)


@pytest.fixture
def make_redis() -> Iterator[MakeRedis]:
    with ExitStack() as closers:

        def make(**more: object) -> TlsRedis:
            server = TlsRedis(free_port(), **more)  # type: ignore[arg-type]
            closers.callback(server.kill)
            server.start()
            return server

        yield make


@pytest.fixture
def connect() -> Iterator[Connect]:
    with ExitStack() as closers:

        def connect(server: TlsRedis, ca_pem: str) -> RedisObjects:
            node = RedisNode("node-1", "i-1", "127.0.0.1", server.port)
            objects = RedisObjects(node, NO_SECRETS, RedisAccess(ca_pem=ca_pem), timeout_s=LIMIT_S)
            closers.callback(objects.close)
            return objects

        yield connect


def test_a_node_with_the_stacks_certificate_is_believed_at_any_address(make_redis: MakeRedis, connect: Connect) -> None:
    server = make_redis()

    objects = connect(server, server.ca_pem)

    objects.leave_out({"hash": 1})
    assert objects.read_guest("hash", at_us=1, leases=False) == (None, "")
    assert [hit.size_bytes for hit in objects.hits()] == [1]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"name": "another.internal"}, "is for another name"),
        ({"issued_at": _NOW - timedelta(days=4000)}, "has expired"),
        ({"issued_at": _NOW + timedelta(days=4000)}, "is not valid yet"),
    ],
    ids=["name", "expired", "not yet valid"],
)
def test_a_wrong_certificate_is_not_believed(
    make_redis: MakeRedis, connect: Connect, wrong: dict[str, object], said: str
) -> None:
    server = make_redis(**wrong)

    with pytest.raises(RedisDownError, match=f"^Redis at 127.0.0.1 shows a certificate that {said}$"):
        connect(server, server.ca_pem).ping()


def test_a_certificate_of_another_authority_is_not_believed(make_redis: MakeRedis, connect: Connect) -> None:
    server, another = make_redis(), make_redis()

    with pytest.raises(RedisDownError, match="that is not of the authority that is expected$"):
        connect(server, another.ca_pem).ping()


def test_a_client_without_tls_hears_nothing(make_redis: MakeRedis, connect: Connect) -> None:
    server = make_redis()

    with pytest.raises(RedisDownError):
        connect(server, "").ping()


def test_a_connection_that_was_lost_is_made_anew(make_redis: MakeRedis, connect: Connect) -> None:
    server = make_redis()
    objects = connect(server, server.ca_pem)
    objects.ping()
    server.kill()
    server.start()

    objects.ping()


def test_an_authority_that_is_no_certificate_is_named(make_redis: MakeRedis, connect: Connect) -> None:
    with pytest.raises(RedisDownError, match="does not contain a certificate"):
        connect(make_redis(), "no certificate").ping()


def test_handshakes_that_are_under_way_keep_no_end_waiting(make_redis: MakeRedis) -> None:
    server = make_redis()

    with ExitStack() as clients:
        for _ in range(8):
            clients.enter_context(socket.create_connection(("127.0.0.1", server.port), LIMIT_S))  # and never a word
        server.kill()
