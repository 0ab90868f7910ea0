"""A hub's certificate: made by itself at its start, carried to members by their invocations, kept nowhere."""

from __future__ import annotations

import ssl
import tempfile
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat

from burstcache.pool import proof

_VALIDITY = timedelta(days=365)  # a hub that has not been restarted for longer lets no member in
_CLOCK_SKEW = timedelta(hours=1)
_NAME = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "burstcache hub")])


def hub_tls(now: datetime) -> tuple[ssl.SSLContext, str]:
    """Return a hub's side of TLS with a new certificate, and the certificate as PEM.

    Args:
        now: Start of the certificate's life; aware.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = (
        x509.CertificateBuilder(_NAME, _NAME, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + _VALIDITY)
        .sign(key, hashes.SHA256())
    )
    pem = certificate.public_bytes(Encoding.PEM)
    password = proof.nonce().hex()  # a context reads files alone, so the key passes the disk encrypted
    key_pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(password.encode()))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    with tempfile.NamedTemporaryFile() as file:
        file.write(pem + key_pem)
        file.flush()
        context.load_cert_chain(file.name, password=password)
    return context, pem.decode()
