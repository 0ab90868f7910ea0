"""Reads that a real Redis serves, and what the proxy does when it cannot."""

from __future__ import annotations

from typing import Any

import pytest

from burstcache.core.keys import key_hash
from support.answers import body_of
from support.aws import clients
from support.read_path import ETAG, Cloud, Environment, MakeEntry, Node, Relay
from support.servers import Silence

BODY = b"0123456789"
REDIS_ROUTE: dict[str, Any] = {"tier": "redis", "generation": 7}


@pytest.fixture
def hot(cloud: Cloud, node: Node, make_entry: MakeEntry) -> Cloud:
    """The key `hot`, which Redis holds (S3 has other bytes, so that a test sees who served)."""
    cloud.put("hot", b"from S3")
    cloud.route("hot", **REDIS_ROUTE)
    node.seed("hot", make_entry(BODY, content_type="a/b", x_amz_meta_colour="red"))
    return cloud


def test_get_is_a_hit_with_the_headers_of_the_object(hot: Cloud, reported: list[Any]) -> None:
    message = hot.get("hot")

    expected = {"x-cache-tier": "redis", "x-cache": "hit", "etag": ETAG, "content-type": "a/b", "content-length": "10"}
    assert (message["statusCode"], body_of(message)) == (200, BODY)
    assert expected.items() <= message["headers"].items()
    assert message["headers"]["x-amz-meta-colour"] == "red"
    assert reported == []


def test_hit_notes_its_time_and_only_the_last_five_are_kept(hot: Cloud, node: Node) -> None:
    start_us = hot.clock.now_us()

    for _ in range(7):
        hot.clock.sleep(1)
        hot.get("hot")

    assert node.recent("hot") == [start_us + seconds * 1_000_000 for seconds in (7, 6, 5, 4, 3)]


def test_head_is_a_hit_that_does_not_count(hot: Cloud, node: Node) -> None:
    message = hot.get("hot", "HEAD")

    assert (message["statusCode"], message["body"], message["headers"]["content-length"]) == (200, "", "10")
    assert (message["headers"]["x-cache-tier"], node.recent("hot")) == ("redis", [])


@pytest.mark.parametrize(
    ("headers", "status", "body"),
    [
        ({"range": "bytes=2-4"}, 206, b"234"),
        ({"range": "bytes=-3"}, 206, b"789"),
        ({"range": "bytes=0-1,3-4"}, 200, BODY),
        ({"range": "bytes=2-4", "if_range": ETAG}, 206, b"234"),
        ({"range": "bytes=2-4", "if_range": '"x"'}, 200, BODY),
        ({"if_none_match": ETAG}, 304, b""),
        ({"if_modified_since": "Sun, 06 Nov 1994 08:49:37 GMT"}, 304, b""),
    ],
)
def test_ranges_and_conditions_are_served_from_redis(
    hot: Cloud, headers: dict[str, str], status: int, body: bytes
) -> None:
    message = hot.get("hot", **headers)

    assert (message["statusCode"], body_of(message), message["headers"]["x-cache"]) == (status, body, "hit")


@pytest.mark.parametrize(("headers", "status"), [({"range": "bytes=10-"}, 416), ({"if_match": '"x"'}, 412)])
def test_failed_ranges_and_conditions_are_decided_by_s3(hot: Cloud, headers: dict[str, str], status: int) -> None:
    message = hot.get("hot", **headers)

    assert (message["statusCode"], message["headers"]["x-cache-tier"]) == (status, "s3")
    assert message["headers"].get("content-range") in (None, "bytes */7")


def test_hit_within_a_second_asks_aws_nothing(hot: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    hot.get("hot")

    def refuse(**_: Any) -> Any:
        raise AssertionError("DynamoDB was asked")

    monkeypatch.setattr(hot.environment.clients.dynamodb, "query", refuse)
    assert hot.get("hot")["headers"]["x-cache-tier"] == "redis"


def test_object_that_redis_has_lost_comes_from_s3_and_leaves_no_trace_of_use(hot: Cloud, node: Node) -> None:
    node.client.delete(f"object:{key_hash('hot')}")

    message = hot.get("hot")

    assert (body_of(message), message["headers"]["x-cache"]) == (b"from S3", "miss")
    assert node.recent("hot") == []


@pytest.mark.parametrize("change", [{"phase": "stopping"}, {"generation": 8}, {"phase": "stopped"}])
def test_route_of_another_generation_or_phase_is_none(hot: Cloud, node: Node, change: dict[str, Any]) -> None:
    columns: dict[str, Any] = {"phase": "running", "generation": 7}
    hot.node(**columns | change)

    assert hot.get("hot")["headers"]["x-cache-tier"] == "s3"


def test_key_that_moved_within_the_second_is_still_a_hit(hot: Cloud, relay: Relay, make_entry: MakeEntry) -> None:
    hot.route("hot", tier="lambda")
    holder = relay("hot", make_entry(BODY))
    assert hot.get("hot")["headers"]["x-cache-tier"] == "lambda"
    hot.route("hot", **REDIS_ROUTE)
    holder.leave()

    assert hot.get("hot")["headers"]["x-cache-tier"] == "redis"


def test_expired_row_counts_as_s3(hot: Cloud) -> None:
    hot.route("hot", **REDIS_ROUTE, deadline_at_us=hot.clock.now_us() - 1)

    assert hot.get("hot")["headers"]["x-cache-tier"] == "s3"


def test_corrupt_entry_is_served_from_s3(hot: Cloud, node: Node) -> None:
    node.client.hset(f"object:{key_hash('hot')}", "meta", b"{")

    assert body_of(hot.get("hot")) == b"from S3"


def test_dead_node_breaks_no_read(hot: Cloud, node: Node) -> None:
    hot.get("hot")
    node.server.kill()

    message = hot.get("hot")

    assert (body_of(message), message["headers"]["x-cache-tier"]) == (b"from S3", "s3")


def test_restarted_node_is_used_again_over_a_new_connection(hot: Cloud, node: Node, make_entry: MakeEntry) -> None:
    hot.get("hot")
    node.server.kill()
    node.server.start()
    node.seed("hot", make_entry(b"new"))

    assert body_of(hot.get("hot")) == b"new"


def test_node_that_hangs_costs_one_time_out_and_not_one_per_read(hot: Cloud, environment: Environment) -> None:
    with Silence() as silence:
        environment(REDIS_NODES=f"node-1=i-1@{silence.address}")

        served = [body_of(hot.get("hot")) for _ in range(20)]

        assert served == [b"from S3"] * 20
        assert silence.connections() == 1


def test_rotated_password_is_read_anew_after_a_refusal(hot: Cloud, environment: Environment) -> None:
    clients().secrets.put_parameter(Name="/stale", Value="old", Type="SecureString")
    environment(REDIS_PASSWORD_PARAMETER="/stale")
    assert body_of(hot.get("hot")) == b"from S3"
    clients().secrets.put_parameter(Name="/stale", Value="redis password", Type="SecureString", Overwrite=True)
    hot.clock.sleep(60)  # longer than a tier that has failed is left alone

    assert hot.get("hot")["headers"]["x-cache-tier"] == "redis"


def test_node_that_the_settings_do_not_name_is_served_from_s3(hot: Cloud, environment: Environment) -> None:
    environment(REDIS_NODES="")

    assert body_of(hot.get("hot")) == b"from S3"


def test_secret_that_cannot_be_read_is_no_reason_for_no_answer(hot: Cloud, environment: Environment) -> None:
    environment(REDIS_PASSWORD_PARAMETER="/absent")

    assert body_of(hot.get("hot")) == b"from S3"
    assert "secrets" in vars(hot.environment.clients)
