"""The custom resource answers CloudFormation, whatever happens."""

from __future__ import annotations

import json
import threading
import urllib.error
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from custom_resources import certificate, credentials
from custom_resources.certificate import RelayCertificate
from support.project import ROOT

_SAMPLES = ROOT / "events/credentials"
_KEPT = RelayCertificate("nlb", "1", "abc", "CA", "CERTIFICATE", "KEY")


class CloudFormation:
    """The end of a ResponseURL: keeps what is PUT to it, after refusing the first few."""

    def __init__(self) -> None:
        self.answers: list[dict[str, Any]] = []
        self.content_types: list[str | None] = []
        self.refusals_left = 0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_PUT(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                refused = outer.refusals_left > 0
                outer.refusals_left -= refused
                if not refused:
                    outer.answers.append(json.loads(body))
                    outer.content_types.append(self.headers["Content-Type"])
                self.send_response(503 if refused else 200)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/answer?signature=1"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def cloudformation(monkeypatch: pytest.MonkeyPatch) -> Iterator[CloudFormation]:
    monkeypatch.setattr("custom_resources.answer.time.sleep", lambda _: None)
    monkeypatch.setattr("custom_resources.credentials.boto3.client", lambda service, config: service)
    end = CloudFormation()
    yield end
    end.close()


def event(url: str, request_type: str = "Create", **more: Any) -> dict[str, Any]:
    return {
        "RequestType": request_type,
        "ResponseURL": url,
        "StackId": "stack",
        "RequestId": "request",
        "LogicalResourceId": "RelayCertificate",
        "ResourceProperties": {"ServiceToken": "arn", "SecretId": "secret", "DnsName": "nlb", "Issue": "1"},
        **more,
    }


def keeps(monkeypatch: pytest.MonkeyPatch, outcome: RelayCertificate | Exception) -> list[tuple[Any, ...]]:
    asked = []

    def keep(secrets: Any, secret_id: str, dns_name: str, *, issue: str) -> RelayCertificate:
        asked.append((secrets, secret_id, dns_name, issue))
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    monkeypatch.setattr(certificate, "keep_certificate", keep)
    return asked


def test_a_create_is_answered_with_the_authority(
    cloudformation: CloudFormation, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = keeps(monkeypatch, _KEPT)

    credentials.handler(event(cloudformation.url), None)

    assert asked == [("secretsmanager", "secret", "nlb", "1")]
    assert cloudformation.answers == [
        {
            "StackId": "stack",
            "RequestId": "request",
            "LogicalResourceId": "RelayCertificate",
            "Status": "SUCCESS",
            "PhysicalResourceId": "secret",
            "Data": {"CaPem": "CA", "Serial": "abc"},
        }
    ]


def test_no_key_leaves_the_secret(cloudformation: CloudFormation, monkeypatch: pytest.MonkeyPatch) -> None:
    keeps(monkeypatch, _KEPT)

    credentials.handler(event(cloudformation.url), None)

    assert "KEY" not in json.dumps(cloudformation.answers)


def test_the_answer_has_no_content_type(cloudformation: CloudFormation, monkeypatch: pytest.MonkeyPatch) -> None:
    keeps(monkeypatch, _KEPT)

    credentials.handler(event(cloudformation.url), None)

    assert cloudformation.content_types == [""]  # another one breaks the signature of the real URL


def test_an_update_keeps_the_physical_id(cloudformation: CloudFormation, monkeypatch: pytest.MonkeyPatch) -> None:
    keeps(monkeypatch, _KEPT)

    credentials.handler(event(cloudformation.url, "Update", PhysicalResourceId="before"), None)

    assert cloudformation.answers[0]["PhysicalResourceId"] == "before"  # or CloudFormation deletes what it replaced


def test_a_delete_does_nothing(cloudformation: CloudFormation, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = keeps(monkeypatch, _KEPT)

    credentials.handler(event(cloudformation.url, "Delete", PhysicalResourceId="secret"), None)

    assert asked == []
    assert (cloudformation.answers[0]["Status"], cloudformation.answers[0]["PhysicalResourceId"]) == (
        "SUCCESS",
        "secret",
    )


def test_a_failure_is_answered_with_its_reason(cloudformation: CloudFormation, monkeypatch: pytest.MonkeyPatch) -> None:
    keeps(monkeypatch, RuntimeError("no secret " + "x" * 9999))

    credentials.handler(event(cloudformation.url), None)

    (answer,) = cloudformation.answers
    assert answer["Status"] == "FAILED"
    assert answer["Reason"].startswith("RuntimeError: no secret")
    assert len(json.dumps(answer)) < 4096


@pytest.mark.parametrize("missing", ["SecretId", "DnsName", "Issue"])
def test_a_property_that_is_missing_is_named(cloudformation: CloudFormation, missing: str) -> None:
    asked = event(cloudformation.url)
    del asked["ResourceProperties"][missing]

    credentials.handler(asked, None)

    assert cloudformation.answers[0]["Status"] == "FAILED"
    assert missing in cloudformation.answers[0]["Reason"]
    assert cloudformation.answers[0]["PhysicalResourceId"]


@pytest.mark.parametrize("sample", sorted(_SAMPLES.glob("*.json")), ids=lambda path: path.stem)
def test_a_sample_event_is_answered(
    cloudformation: CloudFormation, monkeypatch: pytest.MonkeyPatch, sample: Path
) -> None:
    keeps(monkeypatch, _KEPT)
    asked = json.loads(sample.read_text())

    credentials.handler({**asked, "ResponseURL": cloudformation.url}, None)

    (answer,) = cloudformation.answers
    assert answer["Status"] == "SUCCESS"
    assert answer["PhysicalResourceId"] == asked["ResourceProperties"]["SecretId"]


def test_an_answer_that_is_refused_is_sent_again(
    cloudformation: CloudFormation, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeps(monkeypatch, _KEPT)
    cloudformation.refusals_left = 3

    credentials.handler(event(cloudformation.url), None)

    assert len(cloudformation.answers) == 1


def test_an_answer_that_cannot_be_delivered_is_an_error(
    cloudformation: CloudFormation, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeps(monkeypatch, _KEPT)
    cloudformation.refusals_left = 4

    with pytest.raises(urllib.error.HTTPError, match="503"):
        credentials.handler(event(cloudformation.url), None)
