"""A client while another thread closes it."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import boto3
import pytest

from burstcache.client import Client
from burstcache.core.errors import RefusedRequestError


def test_a_client_that_is_closed_between_two_steps_of_a_read_opens_again(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client(bucket="b", session=boto3.Session(region_name="eu-central-1"))

    def close_first(self: ThreadPoolExecutor, *arguments: Any) -> Future[Any]:
        monkeypatch.undo()
        client.close()
        return self.submit(*arguments)

    monkeypatch.setattr(ThreadPoolExecutor, "submit", close_first)
    with client:
        found = client.get_many([""], return_errors=True)

    assert isinstance(found[""], RefusedRequestError)
