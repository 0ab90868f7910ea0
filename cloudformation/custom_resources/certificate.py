"""The relay's TLS certificate: issued once for the balancer's name and kept in a secret.

The authority's key is thrown away after it has signed the certificate, so that nobody can ever sign a second one.
"""

from __future__ import annotations

import ipaddress
import json
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from botocore.exceptions import ClientError
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

# A relay whose certificate expires takes every fast tier with it, and nothing demands a short life of this one.
_VALIDITY = timedelta(days=3650)
_CLOCK_SKEW = timedelta(days=1)
# A common name holds 64 characters, which a balancer's name exceeds; clients look at the alternative name only.
_AUTHORITY_NAME = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "burstcache relay authority")])
_RELAY_NAME = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "burstcache relay")])


@dataclass(frozen=True, slots=True)
class RelayCertificate:
    """What the secret holds, as JSON with these names."""

    dns_name: str
    issue: str  # another number asks for another certificate
    serial: str  # hex digits
    ca_pem: str
    certificate_pem: str
    private_key_pem: str


def issue_certificate(dns_name: str, *, issue: str, now: datetime) -> RelayCertificate:
    """Return a new certificate, valid for ten years, and the authority that vouches for it.

    Args:
        dns_name: Name (or IP address) by which clients call the relay.
        issue: Stored with the certificate.
        now: Start of its life; aware.
    """
    authority_key = ec.generate_private_key(ec.SECP256R1())
    relay_key = ec.generate_private_key(ec.SECP256R1())
    authority_id = x509.SubjectKeyIdentifier.from_public_key(authority_key.public_key())
    authority = (
        _builder(_AUTHORITY_NAME, authority_key, now)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(key_cert_sign=True), critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    certificate = (
        _builder(_RELAY_NAME, relay_key, now)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(digital_signature=True), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(authority_id), critical=False)
        .add_extension(x509.SubjectAlternativeName([_alternative_name(dns_name)]), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    return RelayCertificate(
        dns_name=dns_name,
        issue=issue,
        serial=f"{certificate.serial_number:x}",
        ca_pem=authority.public_bytes(Encoding.PEM).decode(),
        certificate_pem=certificate.public_bytes(Encoding.PEM).decode(),
        private_key_pem=relay_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode(),
    )


def keep_certificate(secrets: Any, secret_id: str, dns_name: str, *, issue: str) -> RelayCertificate:
    """Return the certificate in the secret if it is of this name and issue, else a new one that replaces it.

    Args:
        secrets: A boto3 client of Secrets Manager.
        secret_id: The secret; it may be empty.
        dns_name: Name (or IP address) by which clients call the relay.
        issue: Number of the certificate for this name.

    Raises:
        botocore.exceptions.ClientError: The secret cannot be read or written.
    """
    kept = _read(secrets, secret_id)
    if kept and (kept.dns_name, kept.issue) == (dns_name, issue):
        return kept
    issued = issue_certificate(dns_name, issue=issue, now=datetime.now(UTC))
    secrets.put_secret_value(SecretId=secret_id, SecretString=json.dumps(asdict(issued)))
    return issued


def _read(secrets: Any, secret_id: str) -> RelayCertificate | None:
    try:
        text = secrets.get_secret_value(SecretId=secret_id)["SecretString"]
    except ClientError as error:
        # Secrets Manager's answer for a secret without a value and for an absent one; writing shows which it is.
        if error.response["Error"]["Code"] == "ResourceNotFoundException":
            return None
        raise
    try:
        return RelayCertificate(**json.loads(text))
    except (TypeError, ValueError):  # not ours or of an older form: replaced
        return None


def _builder(subject: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(_AUTHORITY_NAME)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + _VALIDITY)
        # Python's strict verification, the default from 3.13 on, asks for key identifiers.
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _usage(*, digital_signature: bool = False, key_cert_sign: bool = False) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=digital_signature,
        key_cert_sign=key_cert_sign,
        crl_sign=False,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _alternative_name(dns_name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(dns_name))
    except ValueError:
        return x509.DNSName(dns_name)
