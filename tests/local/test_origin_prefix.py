"""A stack that reads a part of its bucket: all else is as if absent, for its readers, its roles and its events."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from moto.events.models import EventPattern

from burstcache.client import Client
from burstcache.core.errors import ObjectNotFoundError
from burstcache_local.cloud import LocalCloud, LocalOptions
from burstcache_local.iam.policies import Need
from support.roles import role_with

_PARAMETERS = {"OriginPrefix": "public/", "Relay": "none", "RedisNodeCount": "0"}
_PROGRAM = "ReaderPolicy"  # role of a program with that policy


@pytest.fixture(scope="module")
def cloud() -> Iterator[LocalCloud]:
    """A stack of S3 alone, with an object inside of its prefix and one outside."""
    with LocalCloud(LocalOptions(parameters=_PARAMETERS)) as running:
        for key in ("public/a", "private/a"):
            running.client("s3").put_object(Bucket=running.bucket_name, Key=key, Body=key.encode())
        assert role_with(running, "ReaderPolicyArn") == _PROGRAM
        yield running


def status_of(cloud: LocalCloud, key: str, method: str = "GET") -> tuple[int, bytes]:
    request = urllib.request.Request(f"{cloud.front_url}/objects/{key}", method=method)
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def test_a_key_is_whole_and_one_outside_is_as_if_absent(cloud: LocalCloud) -> None:
    there, absent = status_of(cloud, "private/a"), status_of(cloud, "private/b")

    assert status_of(cloud, "public/a") == (200, b"public/a")
    assert status_of(cloud, "a")[0] == 404
    assert there[0] == absent[0] == 404
    assert there[1] == absent[1].replace(b"private/b", b"private/a")
    assert status_of(cloud, "private/a", "HEAD") == (404, b"")


def test_a_program_reads_the_prefix_and_no_more(cloud: LocalCloud) -> None:
    session = boto3.Session(aws_access_key_id=_PROGRAM, aws_secret_access_key="local", region_name=cloud.region)

    with Client(stack_name=cloud.stack_name, session=session, endpoint_urls={"": cloud.endpoint_url}) as client:
        assert client.get("public/a").body == b"public/a"
        with pytest.raises(ObjectNotFoundError, match="private/a"):
            client.get("private/a")


def test_no_role_may_read_outside(cloud: LocalCloud, refusals: list[str]) -> None:
    readers = [cloud.physical_ids["ProxyFunctionRole"], _PROGRAM]
    bucket = f"arn:aws:s3:::{cloud.bucket_name}"

    inside = [cloud.guard.problem(each, [Need("s3:GetObject", f"{bucket}/public/a")]) for each in readers]
    outside = [cloud.guard.problem(each, [Need("s3:GetObject", f"{bucket}/private/a")]) for each in readers]
    refusals.clear()

    assert inside == ["", ""]
    assert all("is not authorized to perform: s3:GetObject" in problem for problem in outside)


def test_a_change_outside_wakes_nobody(cloud: LocalCloud) -> None:
    rule = cloud.client("events").describe_rule(Name=cloud.physical_ids["OriginChangedRule"])

    def matches(key: str) -> bool:
        detail = {"bucket": {"name": cloud.bucket_name}, "object": {"key": key}}
        event: Any = {"source": "aws.s3", "detail-type": "Object Created", "detail": detail}
        return bool(EventPattern.load(rule["EventPattern"]).matches_event(event))

    assert matches("public/a")
    assert not matches("private/a")
