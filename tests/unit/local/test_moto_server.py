"""moto's server, where it differs from cheroot's."""

from __future__ import annotations

import socket
from typing import Any, cast

from burstcache_local.moto.server import _Server


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
