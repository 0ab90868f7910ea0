"""Arguments of a wrong kind are refused by name, type and what is accepted, before anything is asked."""

from __future__ import annotations

import asyncio
import copy
import pickle
import re
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.client import BaseClient

import burstcache
from burstcache.client import AsyncClient, Client
from burstcache.core.errors import (
    BurstcacheError,
    InvalidSettingError,
    OriginError,
    RefusedRequestError,
    WrongTypeError,
)

_KEYS = [None, b"key", 5, 1.5, Path("key"), ["key"], object(), True]
_CALLS: dict[str, Callable[[Client, Any], object]] = {
    "get": lambda client, key: client.get(key),
    "head": lambda client, key: client.head(key),
    "open": lambda client, key: client.open(key),
    "put": lambda client, key: client.put(key, b""),
    "delete": lambda client, key: client.delete(key),
    "purge": lambda client, key: client.purge(key),
    "get_many": lambda client, key: client.get_many([key]),
    "get_many, errors returned": lambda client, key: client.get_many([key], return_errors=True),
}


@pytest.fixture(scope="module")
def client() -> Client:
    return Client(bucket="b", session=boto3.Session("id", "secret", region_name="eu-central-1"))


@pytest.fixture(scope="module")
def async_client() -> AsyncClient:
    return AsyncClient(bucket="b", session=boto3.Session("id", "secret", region_name="eu-central-1"))


@pytest.mark.parametrize("key", _KEYS, ids=lambda key: type(key).__name__)
@pytest.mark.parametrize("name", _CALLS)
def test_a_key_that_is_no_text_is_refused_by_name_and_type(client: Client, name: str, key: object) -> None:
    with pytest.raises(
        WrongTypeError, match=rf"keys? is of type {type(key).__name__}|one of keys is of type"
    ) as raised:
        _CALLS[name](client, key)

    assert isinstance(raised.value, TypeError)
    assert isinstance(raised.value, BurstcacheError)
    assert "accepted: str" in str(raised.value)
    assert type(pickle.loads(pickle.dumps(raised.value))) is WrongTypeError


@pytest.mark.parametrize("name", _CALLS)
def test_a_key_that_is_no_text_is_refused_to_tasks_too(async_client: AsyncClient, name: str) -> None:
    async def call() -> None:
        await _CALLS[name](async_client, 5)  # type: ignore[arg-type, misc]

    with pytest.raises(WrongTypeError, match="int; accepted: str"):
        asyncio.run(call())


@pytest.mark.parametrize(
    "arguments",
    [
        {"range": b"bytes=0-1"}, {"range": (0, 1)}, {"range": range(3)}, {"range": 5}, {"if_match": b"x"},
        {"if_none_match": 1}, {"if_modified_since": "Sun, 22 Nov 2026 12:00:00 GMT"}, {"if_unmodified_since": 5},
        {"max_age_s": "5"}, {"max_age_s": True},
    ],
    ids=repr,
)  # fmt: skip
def test_other_arguments_of_a_wrong_type_are_refused_by_name(client: Client, arguments: dict[str, Any]) -> None:
    (name,) = arguments

    with pytest.raises(WrongTypeError, match=f"{name} is of type .*; accepted: "):
        client.get("key", **arguments)


@pytest.mark.parametrize("arguments", [{"max_age_s": -1}, {"max_age_s": float("nan")}, {"range": "items=0-1"}])
def test_values_that_are_not_accepted_are_refused_by_name(client: Client, arguments: dict[str, Any]) -> None:
    with pytest.raises(RefusedRequestError, match="accepted"):
        client.get("key", **arguments)


@pytest.mark.parametrize("keys", ["key", b"key"])
def test_one_text_is_no_collection_of_keys(client: Client, keys: Any) -> None:
    with pytest.raises(WrongTypeError, match="keys is of type .*; accepted: an iterable of str"):
        client.get_many(keys)


@pytest.mark.parametrize("copied", [pickle.dumps, copy.deepcopy, copy.copy])
def test_a_client_says_why_it_is_not_pickled(client: Client, copied: Callable[[Any], object]) -> None:
    with pytest.raises(TypeError, match="a Client is not pickled: .*; accepted: a Client made in each process"):
        copied(client)


# wrap


class _AsyncS3(BaseClient):
    """As aiobotocore's clients: botocore's class with calls that are awaited."""

    async def _make_api_call(self, *_: Any) -> None:
        raise AssertionError


def test_an_asynchronous_client_cannot_be_wrapped() -> None:
    plain: Any = boto3.client("s3", "eu-central-1")
    s3 = object.__new__(_AsyncS3)
    s3.__dict__.update(plain.__dict__)

    with pytest.raises(InvalidSettingError, match=r"asynchronous and cannot be wrapped; .*AsyncClient"):
        burstcache.wrap(s3, bucket="b")


@pytest.mark.parametrize(
    "make",
    [
        lambda: boto3.resource("s3", "eu-central-1"),
        lambda: boto3.Session(),
        lambda: boto3.client("sqs", "eu-central-1"),
        lambda: None,
        lambda: "s3",
        lambda: boto3.client,
    ],
)
def test_what_is_no_client_of_s3_cannot_be_wrapped(make: Callable[[], Any]) -> None:
    with pytest.raises(InvalidSettingError, match=r"cannot be wrapped; accepted: boto3.client\('s3'\)"):
        burstcache.wrap(make(), bucket="b")


def test_a_misspelt_argument_is_refused_in_the_name_of_the_call() -> None:
    s3 = boto3.client("s3", "eu-central-1")

    with pytest.raises(TypeError, match=r"wrap\(\) got an unexpected argument buket; did you mean bucket\?"):
        burstcache.wrap(s3, buket="b")
    with pytest.raises(
        TypeError, match=r"AsyncClient\(\) got an unexpected argument freshnes; did you mean freshness\?"
    ):
        AsyncClient(bucket="b", freshnes="strong")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"wrap\(\) got an unexpected argument xyz; accepted: bucket, "):
        burstcache.wrap(s3, xyz=1)
    with pytest.raises(InvalidSettingError, match="s3 is given already"):
        burstcache.wrap(s3, bucket="b", s3=s3)
    with pytest.raises(InvalidSettingError, match="accepted: a burstcache.client.Client"):
        burstcache.wrap(s3, client="b")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("bucket", 5),
        ("bucket", None),
        ("bucket", b"b"),
        ("stack_name", 5),
        ("express_bucket", 5),
        ("endpoint_urls", "http://localhost"),
        ("session", "default"),
        ("s3", "s3"),
        ("pool", "yes"),
    ],
)
def test_an_argument_of_a_client_that_is_of_a_wrong_type_is_refused_by_name(name: str, value: object) -> None:
    arguments: dict[str, Any] = {"bucket": "b", name: value}

    with pytest.raises(WrongTypeError, match=f"^{name} is of type {type(value).__name__}; accepted: "):
        Client(**arguments)


@pytest.mark.parametrize("name", ["max_stale_ms", "memory_bytes", "freshness", "hit_value_usd_per_million"])
@pytest.mark.parametrize("value", ["5", None, [], float("nan"), True], ids=repr)
def test_a_bound_of_a_wrong_kind_is_refused_by_name(name: str, value: object) -> None:
    arguments: dict[str, Any] = {"bucket": "b", name: value}

    with pytest.raises(InvalidSettingError, match=f"^{name}={re.escape(repr(value))}; accepted: "):
        Client(**arguments)


def test_a_client_of_s3_for_asyncio_is_refused() -> None:
    class Asynchronous:
        async def _make_api_call(self) -> None: ...

        async def get_object(self) -> None: ...

    with pytest.raises(WrongTypeError, match="s3 is of type Asynchronous; accepted: boto3"):
        Client(bucket="b", s3=Asynchronous())  # type: ignore[arg-type]


@pytest.mark.parametrize("keys", [None, 5])
def test_keys_that_cannot_be_gone_through_are_refused(client: Client, keys: Any) -> None:
    with pytest.raises(WrongTypeError, match="keys is of type"):
        client.get_many(keys)


def test_a_time_that_no_date_of_http_can_be_is_refused(client: Client) -> None:
    first = datetime.min.replace(tzinfo=timezone(timedelta(hours=1)))

    with pytest.raises(RefusedRequestError, match="if_modified_since="):
        client.get("key", if_modified_since=first)


@pytest.mark.parametrize("bucket", ["Bad Bucket!", "bucket/prefix"])
def test_a_name_that_no_bucket_has_is_refused_in_one_line(bucket: str) -> None:
    session = boto3.Session("id", "secret", region_name="eu-central-1")

    with pytest.raises(OriginError, match="Invalid bucket name") as raised:
        Client(bucket=bucket, session=session).get("key")

    assert "\n" not in str(raised.value)
