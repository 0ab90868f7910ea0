"""TLS between hub and member: the certificate in an invocation is the only trusted one."""

from __future__ import annotations

import asyncio
import ssl
from datetime import UTC, datetime

import pytest

from burstcache.core.messages.pool_control import KnownHub
from burstcache.pool.certificate import hub_tls
from burstcache.pool.remote_hub import Address


def _address(port: int, certificate: str) -> Address:
    return Address.of(KnownHub(id="hub-1", host="127.0.0.1", port=port, token="ab" * 32, certificate=certificate))


async def _version(server_tls: ssl.SSLContext, certificate: str) -> str | None:
    """Return the version of TLS of a connection to a server with this context."""
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", ssl=server_tls)
    async with server:
        address = _address(server.sockets[0].getsockname()[1], certificate)
        _, writer = await asyncio.open_connection(address.host, address.port, ssl=address.tls, server_hostname="")
        version = writer.get_extra_info("ssl_object").version()
        writer.close()
        return str(version)


def test_a_hub_is_reached_over_tls_1_3_by_its_own_certificate() -> None:
    tls, certificate = hub_tls(datetime.now(UTC))

    assert asyncio.run(_version(tls, certificate)) == "TLSv1.3"


def test_a_hub_with_another_certificate_is_refused() -> None:
    (tls, _), (_, other) = hub_tls(datetime.now(UTC)), hub_tls(datetime.now(UTC))

    with pytest.raises(ssl.SSLCertVerificationError):
        asyncio.run(_version(tls, other))


def test_a_hub_without_a_certificate_is_reached_without_tls() -> None:
    assert _address(4_000, "") == Address("127.0.0.1", 4_000, None)
