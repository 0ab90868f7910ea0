"""A proxy on loopback whose answers come in pieces, as over a link that is nearly dead."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress


class TricklingProxy:
    """Passes on what clients send, and answers in pieces.

    Args:
        port: Where the server listens on 127.0.0.1.
        piece_bytes: How much of an answer is sent at a time [bytes].
        between: Called before each piece; False: nothing comes any more, and the connection stays open.
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
