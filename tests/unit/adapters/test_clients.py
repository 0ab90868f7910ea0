"""The clients' profiles: how long a caller waits, and how often it asks."""

from __future__ import annotations

import pytest

from burstcache.adapters.clients import Clients, Profile


@pytest.fixture(autouse=True)
def region(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")


def tries_and_wait_s(profile: Profile, service: str) -> tuple[int, int]:
    config = Clients(profile).make(service).meta.config
    return config.retries["total_max_attempts"], config.read_timeout


def test_a_read_asks_once_and_s3_twice() -> None:
    assert tries_and_wait_s("read", "dynamodb") == (1, 1)
    assert tries_and_wait_s("read", "s3") == (2, 3)


def test_a_function_is_never_invoked_twice() -> None:
    assert tries_and_wait_s("patient", "lambda") == (1, 430)


def test_who_may_wait_longer_asks_more_often() -> None:
    for service in ("ssm", "s3"):
        waits = [tries_and_wait_s(profile, service) for profile in ("read", "control", "patient")]
        assert waits == sorted(waits)
        assert len(set(waits)) == 3


def test_a_client_is_made_once_and_reaches_the_endpoint_of_its_service() -> None:
    clients = Clients("control", endpoint_urls={"": "http://127.0.0.1:1", "lambda": "http://127.0.0.1:2"})

    assert clients.dynamodb is clients.dynamodb
    assert clients.dynamodb.meta.endpoint_url == "http://127.0.0.1:1"
    assert clients.functions.meta.endpoint_url == "http://127.0.0.1:2"
