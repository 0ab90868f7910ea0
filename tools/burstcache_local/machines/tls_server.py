"""The end of TLS: python tls_server.py LISTENER KEY HOST PORT.

It accepts at the descriptor LISTENER with the key and certificate that the descriptor KEY is of, and joins each
connection to one of its own to the server at HOST and PORT. It ends when it is killed.

SIGUSR1 makes the link thin, as if its bandwidth were used up: answers come at 200 bytes a second. SIGUSR2 ends that.
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

_HANDSHAKE_S = 5.0  # at most, of a client
_PIECE_BYTES, _PIECE_S = 20, 0.1  # of an answer over a thin link


class _End(asyncio.Protocol):
    """One of two joined connections: what it hears goes out at the other, and they end together."""

    other: _End
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


class _ServerEnd(_End):
    """The end of the server, whose answers may have to go over a thin link."""

    is_thin = False  # of all connections

    def __init__(self) -> None:
        self._late = bytearray()  # what has not gone out yet
        self._sending: asyncio.Task[None] | None = None

    def connection_lost(self, error: Exception | None) -> None:
        if self._sending is not None:
            self._sending.cancel()
        super().connection_lost(error)

    def data_received(self, data: bytes) -> None:
        if not self.is_thin and not self._late:
            return super().data_received(data)
        self._late += data
        if self._sending is None or self._sending.done():
            self._sending = asyncio.get_running_loop().create_task(self._send())

    async def _send(self) -> None:
        while self._late:
            size_bytes = _PIECE_BYTES if self.is_thin else len(self._late)
            piece = bytes(self._late[:size_bytes])
            del self._late[:size_bytes]
            super().data_received(piece)
            await asyncio.sleep(_PIECE_S)


class _ClientEnd(_End):
    """The end of a client, joined to a connection of its own to the server."""

    def __init__(self, server: tuple[str, int]) -> None:
        self._server = server

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.transport.pause_reading()
        self.other = _ServerEnd()
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
    for number, is_thin in ((signal.SIGUSR1, True), (signal.SIGUSR2, False)):
        loop.add_signal_handler(number, setattr, _ServerEnd, "is_thin", is_thin)
    listening = await loop.create_server(
        partial(_ClientEnd, server), sock=listener, ssl=tls, ssl_handshake_timeout=_HANDSHAKE_S
    )
    await listening.serve_forever()


def main() -> None:
    """Serve until the end of the process."""
    listener, key, host, port = sys.argv[1:]
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(f"/proc/self/fd/{key}")
    uvloop.run(_serve(socket.socket(fileno=int(listener)), tls, (host, int(port))))


if __name__ == "__main__":
    main()
