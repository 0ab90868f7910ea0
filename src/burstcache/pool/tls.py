"""TLS contexts for both ends of the pool's connections.

A member trusts the certificate in its invocation and no other. IAM controls who may invoke a member, so this
certificate needs neither an authority nor a host name.
"""

from __future__ import annotations

import ssl
import tempfile


def server_tls(pem: bytes, password: str | None = None) -> ssl.SSLContext:
    """Return a hub's TLS context.

    Args:
        pem: The hub's certificate and its private key.
        password: Decrypts the private key. None: the key is not encrypted.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    with tempfile.NamedTemporaryFile() as file:  # a context only loads from files; only the owner can read this file
        file.write(pem)
        file.flush()
        context.load_cert_chain(file.name, password=password)
    return context


def member_tls(certificate: str) -> ssl.SSLContext:
    """Return a member's TLS context, which trusts this certificate (PEM) and no other."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # the certificate itself is pinned
    context.load_verify_locations(cadata=certificate)
    return context
