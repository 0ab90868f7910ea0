"""Certificates of the stack's servers, each signed by its own CA, and their verification."""

from __future__ import annotations

import ssl

_WRONG = {9: "is not valid yet", 10: "has expired", 62: "is for another name", 64: "is for another address"}


def client_context(ca_pem: str) -> ssl.SSLContext:
    """Return a TLS context that trusts only this CA. All connections of a process may share it.

    Args:
        ca_pem: PEM of the CA. Empty: the machine's CAs.

    Raises:
        ssl.SSLError: `ca_pem` is not a certificate.
    """
    return ssl.create_default_context(cadata=ca_pem or None)


def rejection_reason(error: ssl.SSLCertVerificationError) -> str:
    """Describe the reason for a failed verification, as the end of a sentence.

    Source:
        OpenSSL, x509_vfy.h: X509_V_ERR_*.
    """
    return f"shows a certificate that {_WRONG.get(error.verify_code, 'is not of the authority that is expected')}"
