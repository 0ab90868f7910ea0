"""Certificates of the stack's servers, each signed by an authority of its own: what is believed, and what is not."""

from __future__ import annotations

import ssl

_WRONG = {9: "is not valid yet", 10: "has expired", 62: "is for another name", 64: "is for another address"}


def trusting(ca_pem: str) -> ssl.SSLContext:
    """Return what believes this authority alone; it may serve all connections of a process.

    Args:
        ca_pem: PEM of the authority; empty: the machine's own ones are believed.

    Raises:
        ssl.SSLError: The text is not a certificate.
    """
    return ssl.create_default_context(cadata=ca_pem or None)


def refusal(error: ssl.SSLCertVerificationError) -> str:
    """Return why a certificate is not believed, as the end of a sentence.

    Source:
        OpenSSL, x509_vfy.h: X509_V_ERR_*.
    """
    return f"shows a certificate that {_WRONG.get(error.verify_code, 'is not of the authority that is expected')}"
