"""Writes at the front door of a local run: the next read has the new object, whichever tier held the former one."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests

from burstcache_local.cloud import LocalCloud, LocalOptions
from burstcache_local.iam.policies import Need
from support.waiting import LIMIT_S, until

_WRITES = {"Writes": "iam", "OriginPrefix": "public/"}
# Parameters, and the tier that a hot object reaches by use.
_RUNS: tuple[tuple[str, dict[str, str]], ...] = (
    ("lambda", {"Policy": "thesis", "RedisNodeCount": "0"}),
    ("redis", {"Policy": "thesis", "Relay": "none"}),
    ("express", {"ExpressZone": "use2-az1", "Relay": "none", "RedisNodeCount": "0"}),
    ("memory", {"ProxyMemoryMb": "16", "ProxyMaxStaleMs": "200", "Relay": "none", "RedisNodeCount": "0"}),
)


@dataclass
class Door:
    """The front door of a local run, asked over one connection."""

    cloud: LocalCloud
    connection: http.client.HTTPConnection

    def ask(
        self, method: str, key: str, body: bytes | None = None, **headers: str
    ) -> tuple[int, dict[str, str], bytes]:
        """Return status, headers and body; an underscore in the name of a header stands for its dash."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.connection.request(method, f"/objects/{key}", body, named)
        answer = self.connection.getresponse()
        return answer.status, {name.lower(): value for name, value in answer.headers.items()}, answer.read()

    def tier(self, key: str) -> str:
        """Return the tier that answers a GET."""
        return self.ask("GET", key)[1]["x-cache-tier"]


@pytest.fixture(scope="module", params=_RUNS, ids=lambda run: run[0])
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Door, str]]:
    """A local run that takes writes, and the tier that its hot objects are in."""
    tier, parameters = request.param
    options = LocalOptions(
        parameters={**_WRITES, **parameters}, boot_s=0.2, stop_s=0.2, run_dir=tmp_path_factory.mktemp("logs")
    )
    with LocalCloud(options) as cloud:
        connection = http.client.HTTPConnection(urlsplit(cloud.front_url).netloc, timeout=LIMIT_S)
        yield Door(cloud, connection), tier
        connection.close()


def test_what_is_written_is_read_once_it_is_answered_whichever_tier_had_it(run: tuple[Door, str]) -> None:
    door, tier = run
    key = "public/hot"
    status, written, _ = door.ask("PUT", key, b"first", if_none_match="*")
    assert status == 200
    until(lambda: door.tier(key) == tier)

    def read(body: bytes) -> tuple[int, dict[str, str], bytes]:
        if tier != "memory":
            return door.ask("GET", key)
        # Each environment of the proxy keeps an object for ProxyMaxStaleMs, and any of them may answer.
        return until(lambda: answer if (answer := door.ask("GET", key))[2] == body else None)

    for number in range(4):
        body = f"{number}".encode()
        status, written, _ = door.ask("PUT", key, body, content_type="text/plain", if_match=written["etag"])
        assert status == 200
        status, found, answered = read(body)
        assert (status, answered, found["etag"], found["content-type"]) == (200, body, written["etag"], "text/plain")
        until(lambda: door.tier(key) == tier)
    assert door.ask("DELETE", key)[0] == 204

    if tier == "memory":
        until(lambda: door.ask("GET", key)[0] == 404)
    else:
        assert door.ask("GET", key)[0] == 404


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    """A local run of S3 alone that takes writes."""
    parameters = {**_WRITES, "Relay": "none", "RedisNodeCount": "0"}
    with LocalCloud(LocalOptions(parameters=parameters, run_dir=tmp_path_factory.mktemp("logs"))) as cloud:
        connection = http.client.HTTPConnection(urlsplit(cloud.front_url).netloc, timeout=LIMIT_S)
        yield Door(cloud, connection)
        connection.close()


def test_a_body_of_the_limit_is_written_and_one_above_it_is_refused_with_the_way(door: Door) -> None:
    body = bytes(range(256)) * 16_384

    assert door.ask("PUT", "public/large", body)[0] == 200
    status, _, message = door.ask("PUT", "public/large", body + b"x")

    assert (status, json.loads(message)["error"]["code"]) == (413, "EntityTooLarge")
    assert door.ask("GET", "public/large")[2] == body


@pytest.mark.parametrize("size_mb", [5, 11])
def test_a_body_that_lambda_or_the_gateway_refuses_is_answered_with_413(door: Door, size_mb: int) -> None:
    status, _, message = door.ask("PUT", "public/larger", b"\xff" * size_mb * 1024 * 1024)

    assert (status, json.loads(message)) == (413, {"message": "Request Too Long"})
    assert door.ask("GET", "public/larger")[0] == 404


def test_a_larger_object_is_put_to_the_url_with_what_was_asked_for(door: Door) -> None:
    _, _, message = door.ask("POST", "public/largest", content_type="image/png", if_none_match="*")
    asked: dict[str, Any] = json.loads(message)

    first = requests.put(asked["url"], data=b"x" * 7_000_000, headers=asked["headers"], timeout=LIMIT_S)
    second = requests.put(asked["url"], data=b"y", headers=asked["headers"], timeout=LIMIT_S)

    assert (first.status_code, second.status_code) == (200, 412)
    assert door.ask("HEAD", "public/largest")[1]["content-type"] == "image/png"


@pytest.mark.parametrize("method", ["PUT", "DELETE", "POST"])
def test_what_is_outside_of_the_prefix_is_forbidden(door: Door, method: str) -> None:
    door.cloud.client("s3").put_object(Bucket=door.cloud.bucket_name, Key="private/a", Body=b"1")

    status, _, message = door.ask(method, "private/a", b"2" if method == "PUT" else None)

    assert (status, json.loads(message)["error"]["code"]) == (403, "AccessDenied")
    found = door.cloud.client("s3").get_object(Bucket=door.cloud.bucket_name, Key="private/a")
    assert found["Body"].read() == b"1"


def test_the_writer_may_write_the_prefix_and_the_proxy_nothing(door: Door, refusals: list[str]) -> None:
    bucket = f"arn:aws:s3:::{door.cloud.bucket_name}"

    def problem(function: str, action: str, key: str) -> str:
        return door.cloud.guard.problem(door.cloud.physical_ids[f"{function}Role"], [Need(action, f"{bucket}/{key}")])

    for action in ("s3:PutObject", "s3:DeleteObject"):
        assert problem("WriterFunction", action, "public/a") == ""
        assert "is not authorized" in problem("WriterFunction", action, "private/a")
        assert "is not authorized" in problem("ProxyFunction", action, "public/a")
    refusals.clear()


def test_another_method_is_refused_with_those_that_are_taken(door: Door) -> None:
    status, headers, _ = door.ask("PATCH", "public/a")

    assert (status, headers["allow"]) == (405, "GET, HEAD, PUT, DELETE, POST")
