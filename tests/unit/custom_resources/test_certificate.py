"""A server's certificate: what it says, whom it convinces, when it is issued anew."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import boto3
import pytest
from cryptography import x509
from moto import mock_aws

from custom_resources.certificate import ServerCertificate, issue_certificate, keep_certificate

_NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
# As long as names of balancers get; a common name has no room for it.
_NLB = "burstcache-p-RelayB-ABCDEFGHIJKL-0123456789abcdef.elb.ap-southeast-2.amazonaws.com"


def issued(name: str = _NLB) -> ServerCertificate:
    certificate, _ = issue_certificate(name, now=_NOW)
    return certificate


def handshake(pem: str, *, trusted: ServerCertificate, called: str, tmp_path: Path) -> None:
    """A TLS handshake in memory; raises what the client raises."""
    (tmp_path / "bundle.pem").write_text(pem)
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(tmp_path / "bundle.pem")
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
def test_a_client_that_trusts_the_authority_believes_the_relay(name: str, tmp_path: Path) -> None:
    certificate, pem = issue_certificate(name, now=datetime.now(UTC))

    handshake(pem, trusted=certificate, called=name, tmp_path=tmp_path)


def test_a_client_does_not_believe_another_name(tmp_path: Path) -> None:
    certificate, pem = issue_certificate(_NLB, now=datetime.now(UTC))

    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        handshake(pem, trusted=certificate, called="example.com", tmp_path=tmp_path)


def test_a_client_does_not_believe_another_authority(tmp_path: Path) -> None:
    (_, pem), (other, _) = (issue_certificate(_NLB, now=datetime.now(UTC)) for _ in range(2))

    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(pem, trusted=other, called=_NLB, tmp_path=tmp_path)


def test_the_authority_fits_into_a_functions_environment() -> None:
    assert len(issued().ca_pem) < 1024  # of the 4 KB for all variables together


def test_all_of_it_fits_into_a_standard_parameter() -> None:
    _, pem = issue_certificate(_NLB, now=_NOW)

    assert len(pem) < 4096


def test_the_certificate_lasts_for_ten_years() -> None:
    certificate = issued().certificate

    assert certificate.not_valid_before_utc < _NOW
    assert certificate.not_valid_after_utc == _NOW + timedelta(days=3650)


def test_the_serial_is_the_certificates() -> None:
    certificate = issued()

    assert int(certificate.serial, 16) == certificate.certificate.serial_number


def test_the_authority_can_sign_nothing_but_certificates_of_its_own() -> None:
    constraints = issued().authority.extensions.get_extension_for_class(x509.BasicConstraints)

    assert constraints.critical
    assert (constraints.value.ca, constraints.value.path_length) == (True, 0)


@pytest.fixture
def parameters() -> Iterator[Any]:
    with mock_aws():
        yield boto3.client("ssm", "eu-central-1", aws_access_key_id="test", aws_secret_access_key="test")


def stored(parameters: Any) -> str:
    kept = parameters.get_parameter(Name="/tls", WithDecryption=True)["Parameter"]
    assert kept["Type"] == "SecureString"
    return str(kept["Value"])


def test_an_absent_parameter_gets_a_certificate(parameters: Any, tmp_path: Path) -> None:
    kept = keep_certificate(parameters, "/tls", _NLB)

    handshake(stored(parameters), trusted=kept, called=_NLB, tmp_path=tmp_path)


def test_asking_again_changes_nothing(parameters: Any) -> None:
    first = keep_certificate(parameters, "/tls", _NLB)

    assert keep_certificate(parameters, "/tls", _NLB) == first


def test_two_deliveries_at_once_keep_one_certificate(parameters: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    put, others = parameters.put_parameter, []

    def put_late(**asked: Any) -> Any:
        monkeypatch.undo()
        others.append(keep_certificate(parameters, "/tls", _NLB))
        return put(**asked)

    monkeypatch.setattr(parameters, "put_parameter", put_late)

    assert [keep_certificate(parameters, "/tls", _NLB)] == others
    assert others[0].ca_pem in stored(parameters)


def test_another_name_replaces_it(parameters: Any) -> None:
    first = keep_certificate(parameters, "/tls", _NLB)

    second = keep_certificate(parameters, "/tls", "other.example.com")

    assert second.serial != first.serial
    assert keep_certificate(parameters, "/tls", "other.example.com") == second


@pytest.mark.parametrize("content", ["no certificate", issued().ca_pem], ids=["text", "authority-alone"])
def test_what_is_not_ours_is_replaced(parameters: Any, content: str, tmp_path: Path) -> None:
    parameters.put_parameter(Name="/tls", Value=content, Type="SecureString")

    kept = keep_certificate(parameters, "/tls", _NLB)

    handshake(stored(parameters), trusted=kept, called=_NLB, tmp_path=tmp_path)
