"""TLS certificates of relay, Redis and hub, each issued once for a server's name and kept in a SecureString parameter.

The authority's key is discarded after it has signed the certificate, so that nobody can ever sign a second one.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

# An expired certificate takes its server's tier down, and nothing requires a short validity.
_VALIDITY = timedelta(days=3650)
_CLOCK_SKEW = timedelta(days=1)
# A balancer's name exceeds the 64 characters of a common name. Clients check the alternative name only.
_AUTHORITY_NAME = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "burstcache authority")])
_SERVER_NAME = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "burstcache")])


@dataclass(frozen=True, slots=True)
class ServerCertificate:
    """A server's certificate, and the authority that signed this certificate and no other."""

    certificate: x509.Certificate
    authority: x509.Certificate

    @property
    def serial(self) -> str:
        """The certificate's serial number, as hex digits."""
        return f"{self.certificate.serial_number:x}"

    @property
    def ca_pem(self) -> str:
        """The authority's certificate: what clients trust."""
        return _pem(self.authority)

    def is_for(self, dns_name: str) -> bool:
        """Return True if clients that connect to this name (or IP address) accept the certificate."""
        names = self.certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        return _alternative_name(dns_name) in names


def issue_certificate(dns_name: str, *, now: datetime) -> tuple[ServerCertificate, str]:
    """Issue a certificate that is valid for ten years, and return it with its PEM text.

    Args:
        dns_name: Name (or IP address) under which clients connect to the server.
        now: Start of its validity; timezone-aware.

    Returns:
        The certificate, and PEM of its private key, itself and the authority, in this order: NATS and Redis read key
        and chain from this one file.
    """
    authority_key = ec.generate_private_key(ec.SECP256R1())
    server_key = ec.generate_private_key(ec.SECP256R1())
    authority_id = x509.SubjectKeyIdentifier.from_public_key(authority_key.public_key())
    authority = (
        _builder(_AUTHORITY_NAME, authority_key, now)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(key_cert_sign=True), critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    certificate = (
        _builder(_SERVER_NAME, server_key, now)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(digital_signature=True), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(authority_id), critical=False)
        .add_extension(x509.SubjectAlternativeName([_alternative_name(dns_name)]), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    key_pem = server_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    return ServerCertificate(certificate, authority), key_pem + _pem(certificate) + _pem(authority)


def keep_certificate(parameters: Any, name: str, dns_name: str) -> ServerCertificate:
    """Return the certificate in the parameter if it is for this name, else a new one that replaces it.

    Args:
        parameters: A boto3 client of Systems Manager.
        name: The parameter; it may be absent.
        dns_name: Name (or IP address) under which clients connect to the server.

    Raises:
        botocore.exceptions.ClientError: The parameter cannot be read or written.
    """
    if kept := _read(parameters, name, dns_name):
        return kept
    issued, pem = issue_certificate(dns_name, now=datetime.now(UTC))
    try:
        parameters.put_parameter(Name=name, Value=pem, Type="SecureString")
    except parameters.exceptions.ParameterAlreadyExists:
        if kept := _read(parameters, name, dns_name):  # Lambda may deliver CloudFormation's request twice, even at once
            return kept
        parameters.put_parameter(Name=name, Value=pem, Type="SecureString", Overwrite=True)
    return issued


def _read(parameters: Any, name: str, dns_name: str) -> ServerCertificate | None:
    """Return the certificate in the parameter if it is for this name."""
    try:
        pem = parameters.get_parameter(Name=name, WithDecryption=True)["Parameter"]["Value"]
    except parameters.exceptions.ParameterNotFound:
        return None
    try:
        kept = ServerCertificate(*x509.load_pem_x509_certificates(pem.encode()))
    except (TypeError, ValueError):  # not ours: replaced
        return None
    return kept if kept.is_for(dns_name) else None


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(Encoding.PEM).decode()


def _builder(subject: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(_AUTHORITY_NAME)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + _VALIDITY)
        # Python's strict verification, the default from 3.13 on, requires key identifiers.
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
