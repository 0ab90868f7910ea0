"""The relay's certificate: what it says, whom it convinces, when it is issued anew."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from cryptography import x509
from moto import mock_aws

from custom_resources.certificate import RelayCertificate, issue_certificate, keep_certificate

_NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
# As long as names of balancers get; a common name has no room for it.
_NLB = "burstcache-p-RelayB-ABCDEFGHIJKL-0123456789abcdef.elb.ap-southeast-2.amazonaws.com"


def issued(name: str = _NLB) -> RelayCertificate:
    return issue_certificate(name, issue="1", now=_NOW)


def handshake(certificate: RelayCertificate, *, trusted: RelayCertificate, called: str, tmp_path: Any) -> None:
    """A TLS handshake in memory; raises what the client raises."""
    (tmp_path / "chain.pem").write_text(certificate.certificate_pem + certificate.private_key_pem)
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(tmp_path / "chain.pem")
    trusting = ssl.create_default_context(cadata=trusted.ca_pem)
    trusting.verify_flags |= ssl.VERIFY_X509_STRICT  # the default from Python 3.13 on
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = trusting.wrap_bio(to_client, to_server, server_hostname=called)
    server = serving.wrap_bio(to_server, to_client, server_side=True)
    for side in (client, server) * 2:
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue


@pytest.mark.parametrize("name", [_NLB, "127.0.0.1", "::1"])
def test_a_client_that_trusts_the_authority_believes_the_relay(name: str, tmp_path: Any) -> None:
    certificate = issue_certificate(name, issue="1", now=datetime.now(UTC))

    handshake(certificate, trusted=certificate, called=name, tmp_path=tmp_path)


def test_a_client_does_not_believe_another_name(tmp_path: Any) -> None:
    certificate = issue_certificate(_NLB, issue="1", now=datetime.now(UTC))

    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        handshake(certificate, trusted=certificate, called="example.com", tmp_path=tmp_path)


def test_a_client_does_not_believe_another_authority(tmp_path: Any) -> None:
    certificate, other = (issue_certificate(_NLB, issue="1", now=datetime.now(UTC)) for _ in range(2))

    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(certificate, trusted=other, called=_NLB, tmp_path=tmp_path)


def test_the_authority_fits_into_a_functions_environment() -> None:
    assert len(issued().ca_pem) < 1024  # of the 4 KB for all variables together


def test_the_certificate_lasts_for_ten_years() -> None:
    certificate = x509.load_pem_x509_certificate(issued().certificate_pem.encode())

    assert certificate.not_valid_before_utc < _NOW
    assert certificate.not_valid_after_utc == _NOW + timedelta(days=3650)


def test_the_serial_is_the_certificates() -> None:
    certificate = issued()

    assert (
        int(certificate.serial, 16)
        == x509.load_pem_x509_certificate(certificate.certificate_pem.encode()).serial_number
    )


def test_the_authority_can_sign_nothing_but_certificates_of_its_own() -> None:
    authority = x509.load_pem_x509_certificate(issued().ca_pem.encode())

    constraints = authority.extensions.get_extension_for_class(x509.BasicConstraints)

    assert constraints.critical
    assert (constraints.value.ca, constraints.value.path_length) == (True, 0)


@pytest.fixture
def secrets(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    with mock_aws():
        client = boto3.client("secretsmanager", region_name="eu-central-1")
        client.create_secret(Name="tls")  # as CloudFormation makes it: without a value
        yield client


def test_an_empty_secret_gets_a_certificate(secrets: Any) -> None:
    kept = keep_certificate(secrets, "tls", _NLB, issue="1")

    stored = json.loads(secrets.get_secret_value(SecretId="tls")["SecretString"])
    assert RelayCertificate(**stored) == kept
    assert (kept.dns_name, kept.issue) == (_NLB, "1")


def test_asking_again_changes_nothing(secrets: Any) -> None:
    first = keep_certificate(secrets, "tls", _NLB, issue="1")

    assert keep_certificate(secrets, "tls", _NLB, issue="1") == first


@pytest.mark.parametrize(("name", "issue"), [("other.example.com", "1"), (_NLB, "2")], ids=["name", "issue"])
def test_another_name_or_issue_replaces_it(secrets: Any, name: str, issue: str) -> None:
    first = keep_certificate(secrets, "tls", _NLB, issue="1")

    second = keep_certificate(secrets, "tls", name, issue=issue)

    assert second.serial != first.serial
    assert keep_certificate(secrets, "tls", name, issue=issue) == second


@pytest.mark.parametrize("content", ["not json", "{}", '["list"]', '{"serial": "1"}'])
def test_what_is_not_ours_is_replaced(secrets: Any, content: str) -> None:
    secrets.put_secret_value(SecretId="tls", SecretString=content)

    kept = keep_certificate(secrets, "tls", _NLB, issue="1")

    assert json.loads(secrets.get_secret_value(SecretId="tls")["SecretString"])["serial"] == kept.serial


def test_a_secret_that_is_absent_is_an_error(secrets: Any) -> None:
    with pytest.raises(ClientError, match="ResourceNotFoundException"):
        keep_certificate(secrets, "absent", _NLB, issue="1")
