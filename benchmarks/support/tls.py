"""TLS in front of a server that has none, with a certificate of an authority that is made for it."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import ipaddress
import ssl
import threading
import urllib.parse
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

_CHUNK_BYTES = 1 << 16
_LOOPBACK = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))


def authority(folder: Path, server: x509.GeneralName = _LOOPBACK) -> str:
    """Write server.pem and server.key for a server into a folder; return the PEM of the authority that signed them."""
    authority_key, server_key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    authority_name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "benchmark's authority")])
    is_authority = x509.BasicConstraints(ca=True, path_length=0)
    names = x509.SubjectAlternativeName([server])
    authority_pem = _certificate(authority_name, authority_name, authority_key, authority_key, is_authority)
    server_name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "benchmark's server")])
    (folder / "server.pem").write_bytes(_certificate(server_name, authority_name, server_key, authority_key, names))
    (folder / "server.key").write_bytes(
        server_key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    return authority_pem.decode()


def _certificate(
    name: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    issuer_key: ec.EllipticCurvePrivateKey,
    extension: x509.ExtensionType,
) -> bytes:
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(extension, critical=False)
    )
    return builder.sign(issuer_key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


class Terminator:
    """Listens on a port of 127.0.0.1, in a thread of its own, and passes on what arrives over TLS."""

    def __init__(self, server_url: str, folder: Path) -> None:
        self._port = urllib.parse.urlsplit(server_url).port
        self._tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._tls.load_cert_chain(folder / "server.pem", folder / "server.key")
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="tls", daemon=True)
        self._writers: set[asyncio.StreamWriter] = set()
        self.url = ""

    def __enter__(self) -> Terminator:
        self._thread.start()
        started = asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._tls)
        self._server = asyncio.run_coroutine_threadsafe(started, self._loop).result()
        self.url = f"https://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._server.close)
        self.drop()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def drop(self) -> None:
        """Close all connections, as a service does that has not heard of a client for long."""

        async def drop() -> None:
            for writer in list(self._writers):
                writer.close()

        asyncio.run_coroutine_threadsafe(drop(), self._loop).result()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        onward_reader, onward_writer = await asyncio.open_connection("127.0.0.1", self._port)
        self._writers.add(writer)
        with contextlib.suppress(OSError):
            await asyncio.gather(_pass_on(reader, onward_writer), _pass_on(onward_reader, writer))
        self._writers.discard(writer)


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while chunk := await reader.read(_CHUNK_BYTES):
            writer.write(chunk)
            await writer.drain()
    finally:
        writer.close()
