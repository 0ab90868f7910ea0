"""A self-signed certificate in ACM, since a load balancer needs one. Importing it costs nothing."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

_VALID = timedelta(days=2)
_SUFFIX = ".burstcache.invalid"


def import_certificate(acm: Any, stack_name: str, tags: Mapping[str, str]) -> str:
    """Return the ARN of a stack's certificate in ACM. Import one unless an interrupted run has."""
    for arn in _certificates(acm, stack_name):
        return arn
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    domain = stack_name + _SUFFIX
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, domain[:64])])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + _VALID)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(domain)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    answer = acm.import_certificate(
        Certificate=certificate.public_bytes(pem),
        PrivateKey=key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
        Tags=[{"Key": key_, "Value": value} for key_, value in tags.items()],
    )
    return str(answer["CertificateArn"])


def delete_certificates(acm: Any, stack_name: str) -> None:
    """Delete a stack's certificates."""
    for arn in _certificates(acm, stack_name):
        acm.delete_certificate(CertificateArn=arn)


def certificate_names(acm: Any, stack_name: str) -> list[str]:
    """Return the domains of a stack's certificates."""
    return [stack_name + _SUFFIX for _ in _certificates(acm, stack_name)]


def _certificates(acm: Any, stack_name: str) -> list[str]:
    pages = acm.get_paginator("list_certificates").paginate()
    found = [each for page in pages for each in page["CertificateSummaryList"]]
    return [each["CertificateArn"] for each in found if each.get("DomainName") == stack_name + _SUFFIX]
