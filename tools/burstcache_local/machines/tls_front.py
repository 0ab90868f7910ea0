"""TLS in front of a server that has none: the Redis that one can install from a wheel is built without it.

Clients connect and verify as they do on AWS; only the end of the encryption is another program.
"""

from __future__ import annotations

import asyncio
import ssl
import tempfile
from collections.abc import Callable
from typing import cast

from burstcache_local.loop import LoopThread

_HANDSHAKE_S = 5.0  # at most, of a client; the end waits for it


class TlsFront:
    """Listens with a certificate and passes on what it hears, from `open` to `close`."""

    def __init__(self, address: tuple[str, int], server: tuple[str, int], pem: str) -> None:
        """Remember what to do.

        Args:
            address: Where clients connect.
            server: Where the server listens, without TLS.
            pem: A private key and its certificate.
        """
        self._address, self._server = address, server
        self._tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:  # OpenSSL takes them from a file only
            file.write(pem)
            file.flush()
            self._tls.load_cert_chain(file.name)
        self._open: set[asyncio.Transport] = set()

    def open(self) -> None:
        """Listen."""
        self._is_over = False
        self._loop = LoopThread()
        self._listener = self._loop.run(self._listen())

    def close(self) -> None:
        """Hang up, and listen no longer."""
        self._loop.run(self._hang_up())
        self._loop.stop()

    async def _listen(self) -> asyncio.Server:
        loop = asyncio.get_running_loop()
        return await loop.create_server(
            lambda: _ClientEnd(self._open, self._server, lambda: self._is_over),
            *self._address,
            ssl=self._tls,
            ssl_handshake_timeout=_HANDSHAKE_S,
        )

    async def _hang_up(self) -> None:
        self._is_over = True
        closed = asyncio.ensure_future(self._listener.wait_closed())
        await asyncio.sleep(0)  # after `close` it would wait for nothing
        self._listener.close()
        for transport in tuple(self._open):
            transport.abort()  # a client that goes on listening would keep an orderly end waiting
        await closed  # handshakes included: uvloop's loop cannot be closed before they are over


class _End(asyncio.Protocol):
    """One of two joined connections: what it hears goes out at the other, and they end together."""

    other: _End
    transport: asyncio.Transport

    def __init__(self, open_: set[asyncio.Transport]) -> None:
        self._open = open_

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self._open.add(self.transport)

    def connection_lost(self, error: Exception | None) -> None:
        self._open.discard(self.transport)
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

    def __init__(self, open_: set[asyncio.Transport], server: tuple[str, int], is_over: Callable[[], bool]) -> None:
        super().__init__(open_)
        self._server, self._is_over = server, is_over

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.transport.pause_reading()
        self.other = _End(self._open)
        self.other.other = self
        self._joining = asyncio.get_running_loop().create_task(self._join())

    def connection_lost(self, error: Exception | None) -> None:
        self._joining.cancel()
        super().connection_lost(error)

    async def _join(self) -> None:
        if self._is_over():  # its handshake was under way
            self.transport.abort()
            return
        try:
            await asyncio.get_running_loop().create_connection(lambda: self.other, *self._server)
        except OSError:
            self.transport.abort()
        else:
            self.transport.resume_reading()
