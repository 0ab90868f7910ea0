"""A client learns what it reads from its arguments, the environment, a stack's outputs or a local run's file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from burstcache.client import Client
from burstcache.client.configuration import (
    OUTPUT,
    POOL_OUTPUT,
    POOL_VARIABLE,
    VARIABLE,
    ZONE_VARIABLE,
    configure,
    local_run,
    with_pool,
)
from burstcache.core.errors import InvalidSettingError
from support.aws import REGION, mocked_aws

_VARIABLES = {
    "AWS_REGION": "us-east-1",
    "TABLE_NAME": "table",
    "BUCKET_NAME": "origin",
    "ORIGIN_PREFIX": "",
    "BUS_NAME": "bus",
    "RELAY_URL": "tls://relay:4222",
    "RELAY_USER": "proxy",
    "RELAY_PASSWORD_PARAMETER": "arn:relay",
    "RELAY_CA_PEM": "-----BEGIN\nEND-----\n",
    "REDIS_USER": "reader",
    "REDIS_PASSWORD_PARAMETER": "arn:redis",
    "REDIS_CA_PEM": "-----BEGIN\n",
    "REDIS_NODES": "node-1=i-1@10.0.0.5:6379",
    "MAX_OBJECT_BYTES": "4194304",
    "EXPRESS_BUCKET": "",
    "TAKES_GUESTS": "false",
    "ORIGIN_FUNCTION_NAME": "origin",
    "HIT_VALUE_USD_PER_MILLION": "10",
}
_NOTHING: dict[str, Any] = {"stack_name": "", "bucket": "", "session": None, "endpoint_urls": None}


@pytest.fixture(autouse=True)
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv(VARIABLE, raising=False)
    with mocked_aws():
        yield


def make_stack(outputs: dict[str, str]) -> None:
    queue = {"Type": "AWS::SQS::Queue", "Properties": {}}
    body = {"Resources": {"Queue": queue}, "Outputs": {name: {"Value": value} for name, value in outputs.items()}}
    boto3.client("cloudformation").create_stack(StackName="cache", TemplateBody=json.dumps(body))


def test_the_environment_names_a_stack_in_its_region(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, json.dumps(_VARIABLES))

    configuration = configure(**_NOTHING)

    assert configuration.settings.table_name == "table"
    assert configuration.settings.relay.ca_pem == "-----BEGIN\nEND-----\n"
    assert configuration.session.region_name == "us-east-1"


def test_a_stack_says_in_its_outputs_what_to_read() -> None:
    make_stack({OUTPUT: json.dumps(_VARIABLES)})

    settings = configure(**_NOTHING | {"stack_name": "cache"}).settings

    assert (settings.bucket_name, settings.redis_nodes[0].host) == ("origin", "10.0.0.5")


def test_a_session_that_is_given_stays_in_its_region(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, json.dumps(_VARIABLES))

    configuration = configure(**_NOTHING | {"session": boto3.Session(region_name="eu-west-1")})

    assert configuration.session.region_name == "eu-west-1"


def test_a_bucket_needs_no_stack() -> None:
    settings = configure(**_NOTHING | {"bucket": "photos"}).settings

    assert (settings.bucket_name, settings.table_name, settings.bus_name) == ("photos", "", "")


@pytest.mark.parametrize(
    ("arguments", "variable", "message"),
    [
        (
            {},
            None,
            "nothing says what to read; accepted: stack_name=..., bucket=..., or the environment variable",
        ),
        ({"stack_name": "cache", "bucket": "photos"}, None, "exclude each other"),
        ({"stack_name": "absent"}, None, "stack_name='absent': there is no such stack in "),
        ({"stack_name": "other"}, None, "there is no such stack in "),
        ({}, "{", "BURSTCACHE_READER: '{' is not a JSON object"),
        ({}, '{"TABLE_NAME": 1}', "is not a JSON object of strings"),
        ({}, "{}", "no variable TABLE_NAME"),
    ],
)
def test_what_does_not_say_what_to_read_is_refused(
    monkeypatch: pytest.MonkeyPatch, arguments: dict[str, str], variable: str | None, message: str
) -> None:
    if variable is not None:
        monkeypatch.setenv(VARIABLE, variable)

    with pytest.raises(InvalidSettingError, match=message):
        configure(**_NOTHING | arguments)


_POOL = {
    "POOL_MEMBER_FUNCTION_NAME": "member",
    "POOL_CONTROL_FUNCTION_NAME": "control",
    "POOL_TLS": "yes",
    "POOL_MEMORY_MB": "1769",
    "POOL_HUB": "none",
}


def test_a_stack_with_a_pool_is_read_through_it_unless_the_caller_does_not_want_that() -> None:
    make_stack({OUTPUT: json.dumps(_VARIABLES), POOL_OUTPUT: json.dumps(_POOL)})

    configuration = configure(**_NOTHING | {"stack_name": "cache"})

    assert configuration.pool is not None
    assert with_pool(configuration, True).pool is configuration.pool
    assert with_pool(configuration, False).pool is None


def test_the_environment_names_the_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, json.dumps(_VARIABLES))
    assert configure(**_NOTHING).pool is None

    monkeypatch.setenv(POOL_VARIABLE, json.dumps(_POOL))
    assert configure(**_NOTHING).pool is not None

    monkeypatch.setenv(POOL_VARIABLE, "{}")
    with pytest.raises(InvalidSettingError, match="no variable POOL_MEMBER_FUNCTION_NAME"):
        configure(**_NOTHING)


def test_a_pool_that_is_wanted_must_be_there() -> None:
    make_stack({OUTPUT: json.dumps(_VARIABLES)})

    with pytest.raises(InvalidSettingError, match="pool=True without a pool; accepted: a stack with the output"):
        with_pool(configure(**_NOTHING | {"stack_name": "cache"}), True)


def test_a_stack_of_something_else_is_named() -> None:
    make_stack({"Url": "https://example.com"})

    with pytest.raises(InvalidSettingError, match="stack 'cache' has no output ReaderSettings"):
        configure(**_NOTHING | {"stack_name": "cache"})


def test_a_local_run_is_read_from_its_file(tmp_path: Path) -> None:
    run = {"region": REGION, "endpoint_url": "http://127.0.0.1:8081", "outputs": {OUTPUT: json.dumps(_VARIABLES)}}
    (tmp_path / "local.json").write_text(json.dumps(run))

    configuration = local_run(tmp_path)

    assert configuration.settings.bucket_name == "origin"
    assert configuration.make_clients().s3.meta.endpoint_url == "http://127.0.0.1:8081"


def test_where_nothing_runs_the_message_says_how_to_start(tmp_path: Path) -> None:
    with pytest.raises(InvalidSettingError, match="start one with `burstcache local up`"):
        local_run(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"freshness": "fresh"}, "freshness='fresh'; accepted: bounded, strong, immutable"),
        ({"max_stale_ms": 0}, "max_stale_ms=0; accepted: above 0"),
        ({"memory_bytes": -1}, "memory_bytes=-1; accepted: 0 .* or more"),
    ],
)
def test_a_bound_that_cannot_be_kept_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidSettingError, match=message):
        Client(bucket="photos", **arguments)


_LARGE_NODES = {**_VARIABLES, "TAKES_GUESTS": "true", "REDIS_INSTANCE_TYPE": "r7g.large", "REDIS_ZONE": "us-east-1b"}


@pytest.mark.parametrize(
    ("changed", "zone", "has_slices"),
    [
        ({}, "us-east-1b", True),
        ({}, "us-east-1a", False),
        ({}, None, False),
        ({"HIT_VALUE_USD_PER_MILLION": "100"}, None, True),
        ({"REDIS_ZONE": ""}, "", False),
        ({"REDIS_INSTANCE_TYPE": "t4g.micro"}, "us-east-1b", False),
        ({"REDIS_INSTANCE_TYPE": ""}, "us-east-1b", False),
        ({"TAKES_GUESTS": "false"}, "us-east-1b", False),
        ({"REDIS_NODES": ""}, "us-east-1b", False),
    ],
    ids=str,
)
def test_slices_are_kept_on_nodes_where_that_pays_for_this_reader(
    changed: dict[str, str], zone: str | None, has_slices: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, json.dumps(_LARGE_NODES | changed))
    monkeypatch.delenv(ZONE_VARIABLE, raising=False)
    if zone is not None:
        monkeypatch.setenv(ZONE_VARIABLE, zone)

    assert configure(**_NOTHING).has_slices_on_nodes is has_slices


def test_the_settings_of_an_older_stack_do_not_say_what_its_nodes_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, json.dumps(_VARIABLES | {"TAKES_GUESTS": "true"}))

    assert not configure(**_NOTHING).has_slices_on_nodes
