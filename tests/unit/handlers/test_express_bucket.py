"""CloudFormation's requests about the directory bucket: each gets an answer, whatever happens."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import pytest
from moto import mock_aws

from burstcache.adapters import express_bucket as adapter
from burstcache.adapters.clients import Clients
from burstcache.handlers import express_bucket
from support.express import COPIES, URLS, make_copies, sizes_of
from support.project import ROOT


class Desk:
    """The bucket, and what CloudFormation has heard."""

    def __init__(self) -> None:
        self.clients = Clients("patient", endpoint_urls=URLS)
        self.copies = make_copies(self.clients)
        self.answers: list[dict[str, Any]] = []

    def take(self, request: urllib.request.Request, timeout: float) -> Any:
        assert isinstance(request.data, bytes)
        self.answers.append(json.loads(request.data))
        return nullcontext()

    def ask(self, kind: str, **properties: str) -> dict[str, Any]:
        """Send a sample of CloudFormation's requests; return the answer."""
        event = json.loads((ROOT / f"events/express_bucket/{kind}.json").read_text())
        event["ResourceProperties"] |= {"BucketName": COPIES, **properties}
        express_bucket.handler(event, None)
        return self.answers[-1]


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    for name, value in {"ACCESS_KEY_ID": "id", "SECRET_ACCESS_KEY": "key", "REGION": "us-east-1"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    with mock_aws():
        desk = Desk()
        monkeypatch.setattr(express_bucket, "Clients", lambda _: desk.clients)
        monkeypatch.setattr(urllib.request, "urlopen", desk.take)
        yield desk


def test_create_lets_copies_expire_and_names_the_bucket(desk: Desk) -> None:
    answer = desk.ask("create")

    rules = desk.clients.express.get_bucket_lifecycle_configuration(Bucket=COPIES)["Rules"]
    assert (answer["Status"], answer["PhysicalResourceId"]) == ("SUCCESS", COPIES)
    assert rules[0]["ID"] == "tombstones"


def test_delete_empties_the_bucket(desk: Desk) -> None:
    desk.copies.put_tombstone("a")

    answer = desk.ask("delete")

    assert answer["Status"] == "SUCCESS"
    assert sizes_of(desk.clients) == {}


def test_a_failure_is_reported_with_its_reason(desk: Desk) -> None:
    answer = desk.ask("create", HitValueUsdPerMillion="much")

    assert answer["Status"] == "FAILED"
    assert "hit value 'much'" in answer["Reason"]


def test_a_bucket_that_cannot_be_emptied_fails_the_deletion(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_: object) -> int:
        raise RuntimeError("S3 is slow")

    monkeypatch.setattr(adapter.ExpressBucket, "empty", fails)

    assert "S3 is slow" in desk.ask("delete")["Reason"]
