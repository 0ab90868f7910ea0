"""INIT of the functions before their first event: trusted certificates, and the order of their parts."""

from __future__ import annotations

import os
import re
import ssl
from pathlib import Path

import botocore
import pytest

from burstcache.handlers import _init
from burstcache.handlers._init import at_init

_ROOTS = Path(_init._AMAZON_ROOTS)
_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)
_OF_AMAZON = re.compile(r"Amazon Root CA|Starfield Services Root")


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_CA_BUNDLE", "")  # so that it is as before after the test
    monkeypatch.delenv("AWS_CA_BUNDLE")
    monkeypatch.setenv("LAMBDA_TASK_ROOT", "/var/task")


def trusted() -> str | None:
    """Return the certificates that a function trusts when its parts are built."""
    return at_init(lambda: os.environ.get("AWS_CA_BUNDLE"))()


def test_a_function_trusts_amazons_roots_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "")  # as the template sets it

    assert trusted() == str(_ROOTS)


def test_a_bundle_that_is_given_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_CA_BUNDLE", "/opt/ours.pem")

    assert trusted() == "/opt/ours.pem"


@pytest.mark.parametrize("variable", ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"])
def test_an_endpoint_of_ones_own_may_have_any_certificate(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, "https://localhost:4566")

    assert trusted() is None


def test_outside_lambda_nothing_is_made_and_trust_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LAMBDA_TASK_ROOT")
    made: list[str] = []

    at_init(lambda: made.append("part"))

    assert made == []
    assert "AWS_CA_BUNDLE" not in os.environ


def test_the_roots_are_those_of_amazon_that_botocore_has() -> None:
    theirs = Path(botocore.__file__).with_name("cacert.pem").read_text()
    entries = theirs.split("# Issuer: ")
    of_amazon = {_certificate(entry) for entry in entries if _OF_AMAZON.search(entry.partition("# Serial")[0])}

    assert set(_CERTIFICATE.findall(_ROOTS.read_text())) == of_amazon, f"see the head of {_ROOTS.name}"


def test_a_connection_can_trust_the_roots() -> None:
    context = ssl.create_default_context(cafile=str(_ROOTS))

    assert len(context.get_ca_certs()) == 5


def _certificate(entry: str) -> str:
    (certificate,) = _CERTIFICATE.findall(entry)
    return str(certificate)
