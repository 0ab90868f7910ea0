"""Every PUT and DELETE that the front door takes does what it would do in S3, with S3's status and ETag."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pytest
from botocore.exceptions import ClientError
from hypothesis import given
from hypothesis import strategies as st
from moto import mock_aws

from burstcache.adapters.clients import Clients
from burstcache.adapters.object_store import ObjectStore
from burstcache.handlers.writer import FrontWriter
from burstcache.serve.writer import Writer
from burstcache_local.front.http_events import HttpRequest, Route, http_api_answer, http_api_event
from support.s3_itself import Answer, Moto
from support.searches import search

if TYPE_CHECKING:
    from types_boto3_s3.client import S3Client

_OURS, _THEIRS = "ours", "theirs"
_STORED = {"there": b"former", "empty": b""}
_KEYS = ("there", "empty", "absent")
# By S3's client's names, which take the headers' own texts.
_HEADERS = {
    "ContentType": "content-type",
    "CacheControl": "cache-control",
    "ContentDisposition": "content-disposition",
    "ContentEncoding": "content-encoding",
    "ContentLanguage": "content-language",
    "Expires": "expires",
    "IfMatch": "if-match",
    "IfNoneMatch": "if-none-match",
}
_TYPES = ("text/plain", "text/html; charset=utf-8", "application/json", "image/png", "application/octet-stream")
_ETAGS = ("own", "other", "bare")
_VISIBLE = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1, max_size=12)


class Doors:
    """A writer of a bucket in moto, and another bucket that is written straight."""

    def __init__(self) -> None:
        self.s3: S3Client = Clients("write").s3
        for bucket in (_OURS, _THEIRS):
            self.s3.create_bucket(Bucket=bucket)
        store = ObjectStore(_OURS, self.s3)
        self.followed: list[str] = []
        self.front = FrontWriter(
            Writer(store, "", lambda write: self.followed.append(write["key"]), lambda hash_: None)
        )

    def begin(self, key: str) -> None:
        """Have both buckets hold the same of a key."""
        self.followed.clear()
        for bucket in (_OURS, _THEIRS):
            if key in _STORED:
                self.s3.put_object(Bucket=bucket, Key=key, Body=_STORED[key])
            else:
                self.s3.delete_object(Bucket=bucket, Key=key)

    def etag(self, key: str, kind: str) -> str:
        """Return a condition on an object's ETag."""
        own = self.s3.head_object(Bucket=_OURS, Key=key)["ETag"] if key in _STORED else '"absent"'
        return {"own": own, "other": '"0"', "bare": own.strip('"')}[kind]

    def ask_front(self, method: str, key: str, parameters: Mapping[str, Any], body: bytes) -> tuple[int, str]:
        """Send a request as an HTTP API hands it over; return the status and the ETag of the answer."""
        headers = [(_HEADERS[name], value) for name, value in parameters.items() if name in _HEADERS]
        headers += [(f"x-amz-meta-{name}", value) for name, value in parameters.get("Metadata", {}).items()]
        headers += [("content-length", str(len(body)))] if body else []
        request = HttpRequest(method, f"/objects/{key}", "", tuple(headers), body, "192.0.2.1")
        event = http_api_event(
            request, Route.parse(f"{method} /objects/{{key+}}", "writer"), {"key": key}, api_id="api"
        )
        answer = http_api_answer(json.dumps(self.front.handle(event)).encode())
        assert answer is not None
        return answer.status, dict(answer.headers).get("etag", "")

    def ask_s3(self, method: str, key: str, parameters: Mapping[str, Any], body: bytes) -> tuple[int, str]:
        """Write straight to the other bucket; return the same."""
        given: dict[str, Any] = {"Bucket": _THEIRS, "Key": key, **parameters}
        try:
            if method == "PUT":
                answer: Any = self.s3.put_object(Body=body, **given)
            else:
                answer = self.s3.delete_object(**given)
        except ClientError as error:
            return error.response["ResponseMetadata"]["HTTPStatusCode"], ""
        return answer["ResponseMetadata"]["HTTPStatusCode"], answer.get("ETag", "")

    def holds(self, bucket: str, key: str) -> Answer:
        """Return S3's answer to a GET, without its dates."""
        moto = Moto(self.s3, bucket)
        try:
            found = moto.answer(key, "GET", {})
        finally:
            moto.close()
        return Answer(found.status, {k: v for k, v in found.headers.items() if k != "last-modified"}, found.body)


@pytest.fixture(scope="module")
def doors() -> Iterator[Doors]:
    with pytest.MonkeyPatch.context() as environment, mock_aws():
        for name, value in {"ACCESS_KEY_ID": "id", "SECRET_ACCESS_KEY": "key", "DEFAULT_REGION": "us-east-1"}.items():
            environment.setenv(f"AWS_{name}", value)
        yield Doors()


@search(60)
@given(
    key=st.sampled_from(_KEYS),
    kept=st.fixed_dictionaries(
        {},
        optional={
            "ContentType": st.sampled_from(_TYPES),
            "CacheControl": _VISIBLE,
            "ContentDisposition": _VISIBLE,
            "ContentEncoding": st.just("gzip"),
            "ContentLanguage": _VISIBLE,
            "Expires": st.just("Sun, 06 Nov 1994 08:49:37 GMT"),
            "Metadata": st.dictionaries(st.sampled_from(["a", "with-dash"]), _VISIBLE, min_size=1),
        },
    ),
    condition=st.none() | st.just("IfNoneMatch") | st.sampled_from(_ETAGS),
    body=st.binary(max_size=40) | st.text(max_size=20).map(str.encode),
)
def test_a_put_is_s3s(doors: Doors, key: str, kept: dict[str, Any], condition: str | None, body: bytes) -> None:
    doors.begin(key)
    if condition == "IfNoneMatch":
        kept = {**kept, "IfNoneMatch": "*"}
    elif condition:
        kept = {**kept, "IfMatch": doors.etag(key, condition)}

    ours, theirs = doors.ask_front("PUT", key, kept, body), doors.ask_s3("PUT", key, kept, body)

    assert ours == theirs
    assert doors.holds(_OURS, key) == doors.holds(_THEIRS, key)
    assert doors.followed == ([key] if ours[0] == 200 else [])


@pytest.mark.parametrize("key", _KEYS)
@pytest.mark.parametrize("condition", [None, *_ETAGS, "*"])
def test_a_delete_is_s3s(doors: Doors, key: str, condition: str | None) -> None:
    doors.begin(key)
    given = {} if condition is None else {"IfMatch": "*" if condition == "*" else doors.etag(key, condition)}

    ours, theirs = doors.ask_front("DELETE", key, given, b""), doors.ask_s3("DELETE", key, given, b"")

    assert ours == theirs
    assert doors.holds(_OURS, key).status == doors.holds(_THEIRS, key).status
    assert doors.followed == ([key] if ours[0] == 204 else [])
