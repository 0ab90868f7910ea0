"""A TLS server that terminates TLS for a plaintext server: python tls_server.py LISTENER KEY HOST PORT.

The program accepts connections on the file descriptor LISTENER, with the key and certificate in the file descriptor
KEY. It forwards each connection to HOST and PORT over a plaintext connection, and runs until it is killed.

SIGUSR1 throttles the server's responses to 200 bytes/s per connection, to simulate exhausted bandwidth. SIGUSR2 ends
the throttling.
"""

from __future__ import annotations

import asyncio
import signal
import socket
import ssl
import sys
from functools import partial
from typing import cast

import uvloop

_HANDSHAKE_S = 5.0  # timeout of a client's handshake
_CHUNK_BYTES, _CHUNK_S = 20, 0.1  # size and interval of chunks on a throttled connection


class _Connection(asyncio.Protocol):
    """One side of a proxied connection, which forwards received data to the other side. Both sides close together."""

    other: _Connection
    transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def connection_lost(self, error: Exception | None) -> None:
        if hasattr(self.other, "transport"):
            self.other.transport.close()

    def data_received(self, data: bytes) -> None:
        if not self.other.transport.is_closing():
            self.other.transport.write(data)

    def pause_writing(self) -> None:
        if not self.other.transport.is_closing():
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        if not self.other.transport.is_closing():
            self.other.transport.resume_reading()


class _ServerConnection(_Connection):
    """A connection to the plaintext server, with optional throttling of responses."""

    is_throttled = False  # shared by all connections

    def __init__(self) -> None:
        self._backlog = bytearray()  # received but not yet forwarded
        self._sending: asyncio.Task[None] | None = None

    def connection_lost(self, error: Exception | None) -> None:
        if self._sending is not None:
            self._sending.cancel()
        super().connection_lost(error)

    def data_received(self, data: bytes) -> None:
        if not self.is_throttled and not self._backlog:
            return super().data_received(data)
        self._backlog += data
        if self._sending is None or self._sending.done():
            self._sending = asyncio.get_running_loop().create_task(self._send())

    async def _send(self) -> None:
        while self._backlog:
            size_bytes = _CHUNK_BYTES if self.is_throttled else len(self._backlog)
            chunk = bytes(self._backlog[:size_bytes])
            del self._backlog[:size_bytes]
            super().data_received(chunk)
            await asyncio.sleep(_CHUNK_S)


class _ClientConnection(_Connection):
    """A client's connection, which opens a connection to the plaintext server and joins the two."""

    def __init__(self, server: tuple[str, int]) -> None:
        self._server = server

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.transport.pause_reading()
        self.other = _ServerConnection()
        self.other.other = self
        self._joining = asyncio.get_running_loop().create_task(self._join())

    def connection_lost(self, error: Exception | None) -> None:
        self._joining.cancel()
        super().connection_lost(error)

    async def _join(self) -> None:
        try:
            await asyncio.get_running_loop().create_connection(lambda: self.other, *self._server)
        except OSError:
            self.transport.abort()
        else:
            self.transport.resume_reading()


async def _serve(listener: socket.socket, tls: ssl.SSLContext, server: tuple[str, int]) -> None:
    loop = asyncio.get_running_loop()
    for number, is_throttled in ((signal.SIGUSR1, True), (signal.SIGUSR2, False)):
        loop.add_signal_handler(number, setattr, _ServerConnection, "is_throttled", is_throttled)
    front = await loop.create_server(
        partial(_ClientConnection, server), sock=listener, ssl=tls, ssl_handshake_timeout=_HANDSHAKE_S
    )
    await front.serve_forever()


def main() -> None:
    """Serve until the process is killed."""
    listener, key, host, port = sys.argv[1:]
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(f"/proc/self/fd/{key}")
    uvloop.run(_serve(socket.socket(fileno=int(listener)), tls, (host, int(port))))


if __name__ == "__main__":
    main()
