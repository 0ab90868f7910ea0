"""The clients' patience: a read is answered before its front door gives up, whatever is silent."""

from __future__ import annotations

import pytest

from burstcache.adapters.clients import Clients, Profile

FRONT_DOOR_S = 29  # docs.aws.amazon.com/apigateway, "Quotas for configuring and running an HTTP API": 30 s at most


def longest_s(profile: Profile, service: str) -> float:
    """Return how long a call of that service may take [s]."""
    config = Clients(profile).make(service).meta.config
    tries = config.retries["total_max_attempts"]
    return float(tries * (config.connect_timeout + config.read_timeout))


@pytest.fixture(autouse=True)
def _region(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")


def test_a_read_of_silent_services_ends_before_the_front_door_gives_up() -> None:
    table, secret, s3 = (longest_s("read", service) for service in ("dynamodb", "secretsmanager", "s3"))
    tier_s = bus_s = 2  # connecting to a relay or a node and waiting for it; waiting for the report

    assert 2 * table + secret + tier_s + 2 * s3 + bus_s < FRONT_DOOR_S  # the key's row, its node's; S3 twice


@pytest.mark.parametrize("service", ["dynamodb", "events", "secretsmanager"])
def test_a_read_tries_what_it_can_do_without_only_once(service: str) -> None:
    assert Clients("read").make(service).meta.config.retries["total_max_attempts"] == 1


def test_nothing_is_invoked_twice_by_a_client() -> None:
    assert Clients("patient").make("lambda").meta.config.retries["total_max_attempts"] == 1
