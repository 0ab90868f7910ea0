"""The custom resources for credentials answer CloudFormation, whatever happens."""

from __future__ import annotations

import json
import threading
import urllib.error
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto import mock_aws

from custom_resources import credentials
from support.project import ROOT

_SAMPLES = ROOT / "events/credentials"


class CloudFormation:
    """The end of a ResponseURL: keeps what is PUT to it, after refusing the first few."""

    def __init__(self) -> None:
        self.answers: list[dict[str, Any]] = []
        self.content_types: list[str | None] = []
        self.refusals_left = 0
        self.instead_of_answers: list[bytes] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_PUT(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if outer.instead_of_answers:
                    self.wfile.write(outer.instead_of_answers.pop())
                    return
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
def parameters() -> Iterator[Any]:
    """The parameter store, empty."""
    with mock_aws():
        yield boto3.client("ssm", "eu-central-1", aws_access_key_id="test", aws_secret_access_key="test")


@pytest.fixture
def cloudformation(monkeypatch: pytest.MonkeyPatch, parameters: Any) -> Iterator[CloudFormation]:
    monkeypatch.setattr("custom_resources.stack_answer.time.sleep", lambda _: None)
    monkeypatch.setattr(
        "custom_resources.credentials.boto3.client", lambda service, config: {"ssm": parameters}[service]
    )
    end = CloudFormation()
    yield end
    end.close()


def event(url: str, request_type: str = "Create", *, kind: str = "RelayCertificate", **more: Any) -> dict[str, Any]:
    names = {"RelayCertificate": ["/tls"], "Passwords": ["/proxy", "/cache"]}[kind]
    return {
        "RequestType": request_type,
        "ResponseURL": url,
        "StackId": "stack",
        "RequestId": "request",
        "ResourceType": f"Custom::{kind}",
        "LogicalResourceId": "Resource",
        "ResourceProperties": {"ServiceToken": "arn", "Names": names, "DnsName": "nlb"},
        **more,
    }


def value(parameters: Any, name: str) -> str:
    return str(parameters.get_parameter(Name=name, WithDecryption=True)["Parameter"]["Value"])


def names(parameters: Any) -> set[str]:
    return {parameter["Name"] for parameter in parameters.describe_parameters()["Parameters"]}


def test_a_certificate_is_answered_with_its_authority(cloudformation: CloudFormation, parameters: Any) -> None:
    credentials.handler(event(cloudformation.url), None)

    (answer,) = cloudformation.answers
    data = answer.pop("Data")
    assert answer == {
        "StackId": "stack",
        "RequestId": "request",
        "LogicalResourceId": "Resource",
        "Status": "SUCCESS",
        "PhysicalResourceId": "/tls",
    }
    assert data.keys() == {"CaPem", "DnsName", "Serial"}
    assert data["DnsName"] == "nlb"
    assert data["CaPem"] in value(parameters, "/tls")


@pytest.mark.parametrize("kind", ["RelayCertificate", "Passwords"])
def test_no_secret_leaves_the_parameter_store(cloudformation: CloudFormation, parameters: Any, kind: str) -> None:
    asked = event(cloudformation.url, kind=kind)

    credentials.handler(asked, None)

    answer = json.dumps(cloudformation.answers)
    assert "PRIVATE KEY" not in answer
    assert not any(value(parameters, name) in answer for name in asked["ResourceProperties"]["Names"])


def test_the_answer_has_no_content_type(cloudformation: CloudFormation) -> None:
    credentials.handler(event(cloudformation.url), None)

    assert cloudformation.content_types == [""]  # another one breaks the signature of the real URL


@pytest.mark.parametrize("kind", ["RelayCertificate", "Passwords"])
def test_an_update_with_the_same_names_is_the_same_resource(cloudformation: CloudFormation, kind: str) -> None:
    credentials.handler(event(cloudformation.url, kind=kind), None)
    credentials.handler(event(cloudformation.url, "Update", kind=kind), None)

    first, second = (answer["PhysicalResourceId"] for answer in cloudformation.answers)
    assert first == second  # or CloudFormation deletes what it replaced


def test_another_issue_is_another_resource_and_the_former_is_deleted(
    cloudformation: CloudFormation, parameters: Any
) -> None:
    def asked(request: str, issue: int) -> dict[str, Any]:
        properties = {"ServiceToken": "arn", "Names": [f"/{issue}/proxy"]}
        return event(cloudformation.url, request, kind="Passwords", ResourceProperties=properties)

    credentials.handler(asked("Create", 1), None)
    credentials.handler(asked("Update", 2), None)
    assert names(parameters) == {"/1/proxy", "/2/proxy"}  # both, until the update has succeeded
    credentials.handler(asked("Delete", 1), None)

    assert [answer["PhysicalResourceId"] for answer in cloudformation.answers] == ["/1/proxy", "/2/proxy", "/1/proxy"]
    assert names(parameters) == {"/2/proxy"}


@pytest.mark.parametrize("kind", ["RelayCertificate", "Passwords"])
def test_nothing_is_left_of_a_stack(cloudformation: CloudFormation, parameters: Any, kind: str) -> None:
    credentials.handler(event(cloudformation.url, kind=kind), None)

    credentials.handler(event(cloudformation.url, "Delete", kind=kind), None)

    assert names(parameters) == set()
    assert [answer["Status"] for answer in cloudformation.answers] == ["SUCCESS"] * 2


def test_a_failure_is_answered_with_its_reason(cloudformation: CloudFormation, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise RuntimeError("no parameter " + "x" * 9999)

    monkeypatch.setattr("custom_resources.credentials.make_passwords", refuse)

    credentials.handler(event(cloudformation.url, kind="Passwords"), None)

    (answer,) = cloudformation.answers
    assert answer["Status"] == "FAILED"
    assert answer["Reason"].startswith("RuntimeError: no parameter")
    assert len(json.dumps(answer)) < 4096


@pytest.mark.parametrize(
    ("kind", "missing"), [("RelayCertificate", "Names"), ("RelayCertificate", "DnsName"), ("Passwords", "Names")]
)
def test_a_property_that_is_missing_is_named(cloudformation: CloudFormation, kind: str, missing: str) -> None:
    asked = event(cloudformation.url, kind=kind)
    del asked["ResourceProperties"][missing]

    credentials.handler(asked, None)

    assert cloudformation.answers[0]["Status"] == "FAILED"
    assert missing in cloudformation.answers[0]["Reason"]
    assert cloudformation.answers[0]["PhysicalResourceId"]


def test_what_was_refused_for_want_of_names_can_be_deleted(cloudformation: CloudFormation) -> None:
    asked = event(cloudformation.url, "Delete", kind="Passwords", PhysicalResourceId="Resource", ResourceProperties={})

    credentials.handler(asked, None)

    assert cloudformation.answers[0]["Status"] == "SUCCESS"


@pytest.mark.parametrize("sample", sorted(_SAMPLES.glob("*.json")), ids=lambda path: path.stem)
def test_a_sample_event_is_answered(cloudformation: CloudFormation, sample: Path) -> None:
    asked = json.loads(sample.read_text())

    credentials.handler({**asked, "ResponseURL": cloudformation.url}, None)

    (answer,) = cloudformation.answers
    assert answer["Status"] == "SUCCESS"
    assert answer["PhysicalResourceId"] == " ".join(asked["ResourceProperties"]["Names"])


def test_an_answer_that_is_refused_is_sent_again(cloudformation: CloudFormation) -> None:
    cloudformation.refusals_left = 3

    credentials.handler(event(cloudformation.url), None)

    assert len(cloudformation.answers) == 1


def test_an_answer_whose_receipt_breaks_off_is_sent_again(cloudformation: CloudFormation) -> None:
    cloudformation.instead_of_answers = [b"", b"HTTP/1.1", b"no HTTP\r\n\r\n"]

    credentials.handler(event(cloudformation.url), None)

    assert len(cloudformation.answers) == 1


def test_an_answer_that_cannot_be_delivered_is_an_error(cloudformation: CloudFormation) -> None:
    cloudformation.refusals_left = 4

    with pytest.raises(urllib.error.HTTPError, match="503"):
        credentials.handler(event(cloudformation.url), None)
