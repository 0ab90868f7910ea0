"""Calls become requests, and what no request can be is refused with what is accepted."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from burstcache.client.requests import RequestBuilder, checked_write
from burstcache.core.errors import RefusedRequestError
from burstcache.web.ranges import ByteRange
from support.clock import ManualClock


def test_conditions_and_range_become_what_http_has() -> None:
    at = datetime(1994, 11, 6, 9, 49, 37, tzinfo=timezone(timedelta(hours=1)))

    request = RequestBuilder(ManualClock(3)).make(
        "GET",
        "a/b",
        range="bytes=1-2",
        if_match='"e"',
        if_none_match='"f"',
        if_modified_since=at,
        if_unmodified_since=at,
    )

    assert (request.method, request.key, request.at_us) == ("GET", "a/b", 3_000_000)
    assert request.range == ByteRange(1, 2)
    assert request.headers == {
        "if-match": '"e"',
        "if-none-match": '"f"',
        "if-modified-since": "Sun, 06 Nov 1994 08:49:37 GMT",
        "if-unmodified-since": "Sun, 06 Nov 1994 08:49:37 GMT",
    }


def test_each_request_has_an_id_of_its_own() -> None:
    makers = [RequestBuilder(ManualClock()) for _ in range(2)]

    ids = [maker.make("GET", "a").request_id for maker in makers for _ in range(100)]

    assert len(set(ids)) == 200


@pytest.mark.parametrize(
    ("key", "arguments", "message"),
    [
        ("", {}, "the key is empty; accepted: 1 to 1024 bytes"),
        ("k" * 1025, {}, "1025 bytes"),
        ("../up", {}, "lead out of the bucket"),
        ("a", {"range": "0-4"}, "not one range of bytes; accepted: bytes=first-last"),
        ("a", {"range": "bytes=0-1,4-5"}, "not one range of bytes"),
        ("a", {"range": ""}, "range='': only printable ASCII"),
        ("a", {"if_match": "\u2026"}, "if_match='…': only printable ASCII"),
        ("a", {"if_modified_since": datetime(2026, 1, 1)}, "only a datetime with a time zone"),
    ],
)
def test_what_cannot_be_asked_is_refused(key: str, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(RefusedRequestError, match=message):
        RequestBuilder(ManualClock()).make("GET", key, **arguments)


def test_a_date_in_utc_stays_as_it_is() -> None:
    request = RequestBuilder(ManualClock()).make("HEAD", "a", if_modified_since=datetime(2026, 1, 1, tzinfo=UTC))

    assert request.headers["if-modified-since"] == "Thu, 01 Jan 2026 00:00:00 GMT"


@pytest.mark.parametrize(
    ("key", "headers", "message"),
    [
        ("", {}, "the key is empty"),
        ("a", {"if_match": ""}, "if_match='': only printable ASCII"),
        ("a", {"content_type": "text/html\r\nx: y"}, "content_type=.*: only printable ASCII"),
        ("a", {"if_none_match": '"an ETag"'}, "if_none_match=.*: a write accepts '\\*' only"),
    ],
)
def test_a_write_that_cannot_be_asked_is_refused(key: str, headers: dict[str, str], message: str) -> None:
    with pytest.raises(RefusedRequestError, match=message):
        checked_write(key, **headers)
