"""moto's server, where it differs from cheroot's."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import pytest

from burstcache_local.moto.server import _for_this_machine, _Server
from support.waiting import LIMIT_S


class Connection:
    """One whose answer has just been sent while the server stops."""

    def __init__(self, server: _Server) -> None:
        self.rfile, self._server, self.is_closed = self, server, False
        self.socket = socket.socket()

    def has_data(self) -> bool:
        self._server.stop()
        return False

    def close(self) -> None:
        self.is_closed = True
        self.socket.close()


def test_a_connection_whose_answer_is_sent_while_the_server_stops_is_closed() -> None:
    server = _Server(("127.0.0.1", 0), cast(Any, None))
    server.prepare()
    connection = Connection(server)

    server.put_conn(connection)

    assert connection.is_closed


@contextmanager
def _serving() -> Iterator[_Server]:
    def answer(environ: Any, start_response: Any) -> list[bytes]:
        start_response("200 OK", [("Content-Length", "2")])
        return [b"ok"]

    server = _Server(("127.0.0.1", 0), _for_this_machine(answer), numthreads=2)
    server.prepare()
    thread = threading.Thread(target=server.serve)
    thread.start()
    try:
        yield server
    finally:
        server.stop()
        thread.join()


@pytest.mark.parametrize("sent", [b"G", b"GET / HTTP/1.1\r\n", b"GET / HTTP/1.1\r\nHost: localhost\r\nX: "])
def test_headers_that_do_not_end_are_waited_for_a_limited_time(sent: bytes) -> None:
    with _serving() as server, socket.create_connection(server.bind_addr, LIMIT_S) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        received = b""
        while not received.endswith(b"ok"):
            received += client.recv(65_536)

        server.head_limit_s = 0.05  # not before: a busy machine sends the first request later
        client.sendall(sent)

        assert client.recv(65_536).startswith(b"HTTP/1.1 408 Request Timeout")


@pytest.mark.parametrize(("host", "status"), [("127.0.0.1:80", b"200"), ("bucket.localhost", b"200"), ("evil", b"403")])
def test_only_names_of_this_machine_are_answered(host: str, status: bytes) -> None:
    with _serving() as server, socket.create_connection(server.bind_addr, LIMIT_S) as client:
        client.sendall(f"GET / HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())

        assert client.recv(65_536).split()[1] == status
