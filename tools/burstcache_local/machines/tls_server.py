"""The end of TLS: python tls_server.py LISTENER KEY HOST PORT.

It accepts at the descriptor LISTENER with the key and certificate that the descriptor KEY is of, and joins each
connection to one of its own to the server at HOST and PORT. It ends when it is killed.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import sys
from functools import partial
from typing import cast

import uvloop

_HANDSHAKE_S = 5.0  # at most, of a client


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


class _ClientEnd(_End):
    """The end of a client, joined to a connection of its own to the server."""

    def __init__(self, server: tuple[str, int]) -> None:
        self._server = server

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.transport.pause_reading()
        self.other = _End()
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
    listening = await asyncio.get_running_loop().create_server(
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
