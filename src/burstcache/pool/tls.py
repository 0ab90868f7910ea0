"""A member's side of TLS: it believes the certificate that its invocation carries, and no other.

IAM says who may invoke a member, so a certificate in the invocation needs no authority and no name.
"""

from __future__ import annotations

import ssl


def member_tls(certificate: str) -> ssl.SSLContext:
    """Return a member's side of TLS, which believes this certificate (PEM) and no other."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # the certificate itself is known
    context.load_verify_locations(cadata=certificate)
    return context
