"""A hub's self-signed certificate: created at start, sent to members in their invocations, and never stored."""

from __future__ import annotations

import ssl
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat

from burstcache.pool import handshake
from burstcache.pool.tls import server_tls

_VALIDITY = timedelta(days=365)  # a hub that runs longer without a restart cannot accept members
_CLOCK_SKEW = timedelta(hours=1)
_NAME = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "burstcache hub")])


def hub_tls(now: datetime) -> tuple[ssl.SSLContext, str]:
    """Return a hub's TLS context with a new certificate, and that certificate as PEM.

    Args:
        now: The current time, with a time zone. The certificate is valid from one hour earlier.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = (
        x509.CertificateBuilder(_NAME, _NAME, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + _VALIDITY)
        .sign(key, hashes.SHA256())
    )
    pem = certificate.public_bytes(Encoding.PEM)
    password = handshake.nonce().hex()  # the context can only load the key from a file, so the key is encrypted there
    key_pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(password.encode()))
    return server_tls(pem + key_pem, password), pem.decode()
