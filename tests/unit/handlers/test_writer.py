"""The writer's handler: S3's answers to writes, and well-formed ones to whatever comes."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError, EndpointConnectionError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from moto import mock_aws

from burstcache.adapters.clients import Clients, Profile
from burstcache.adapters.object_store import ObjectStore
from burstcache.core.errors import FunctionFailedError
from burstcache.core.messages.operations import FollowWrite
from burstcache.handlers.writer import FrontWriter
from burstcache.serve.writer import Writer
from support.project import ROOT

SAMPLES = sorted((ROOT / "events" / "writer").glob("*.json"))
_BUCKET = "origin"


class Stage:
    """A writer of a bucket in moto, and what it has had the stack follow."""

    def __init__(self, *, prefix: str = "", claimed: tuple[str, ...] = ()) -> None:
        self.s3 = Clients("write").s3
        self.s3.create_bucket(Bucket=_BUCKET)
        self.followed: list[str] = []
        self.problem = ""
        self.front = FrontWriter(
            Writer(ObjectStore(_BUCKET, self.s3), prefix, self._drop, lambda hash_: None), prefixes=claimed
        )

    def _drop(self, write: FollowWrite) -> None:
        if self.problem:
            raise FunctionFailedError(self.problem)
        self.followed.append(write["key"])

    def ask(self, method: str, key: str, body: bytes = b"", claims: Any = None, **headers: str) -> dict[str, Any]:
        """Return the answer to a request; an underscore in the name of a header stands for its dash."""
        context: dict[str, Any] = {"http": {"method": method}, "requestId": "1"}
        if claims is not None:
            context["authorizer"] = {"jwt": {"claims": claims, "scopes": None}}
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        event = {"version": "2.0", "rawPath": f"/objects/{key}", "headers": named, "requestContext": context}
        return self.front.handle(
            event | {"body": base64.b64encode(body).decode(), "isBase64Encoded": True} if body else event
        )

    def body(self, key: str) -> bytes | None:
        """Return an object's body in S3, or None."""
        names = [each["Key"] for each in self.s3.list_objects_v2(Bucket=_BUCKET).get("Contents", [])]
        return self.s3.get_object(Bucket=_BUCKET, Key=key)["Body"].read() if key in names else None


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name, value in {"ACCESS_KEY_ID": "id", "SECRET_ACCESS_KEY": "key", "DEFAULT_REGION": "us-east-1"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    with mock_aws():
        yield


@pytest.fixture
def stage(aws: None) -> Stage:
    return Stage()


def code_of(message: dict[str, Any]) -> str:
    return str(json.loads(message["body"])["error"]["code"])


def test_an_object_is_written_and_its_copies_are_let_go_before_the_answer(stage: Stage) -> None:
    message = stage.ask("PUT", "a/b", b"\x00\xff", content_type="image/png", x_amz_meta_colour="red")

    found = stage.s3.get_object(Bucket=_BUCKET, Key="a/b")
    assert message == {
        "statusCode": 200,
        "headers": {"etag": found["ETag"], "content-length": "0"},
        "isBase64Encoded": False,
        "body": "",
    }
    assert (found["Body"].read(), found["ContentType"], found["Metadata"]) == (
        b"\x00\xff",
        "image/png",
        {"colour": "red"},
    )
    assert stage.followed == ["a/b"]


def test_an_object_is_deleted_likewise_whether_or_not_there_is_one(stage: Stage) -> None:
    stage.ask("PUT", "a", b"1")

    answers = [stage.ask("DELETE", "a"), stage.ask("DELETE", "a")]

    assert [(each["statusCode"], each["body"]) for each in answers] == [(204, ""), (204, "")]
    assert stage.body("a") is None
    assert stage.followed == ["a"] * 3


def test_a_bucket_with_versions_says_which_one_was_written(stage: Stage) -> None:
    stage.s3.put_bucket_versioning(Bucket=_BUCKET, VersioningConfiguration={"Status": "Enabled"})

    message = stage.ask("PUT", "a", b"1")

    assert message["headers"]["x-amz-version-id"] == stage.s3.head_object(Bucket=_BUCKET, Key="a")["VersionId"]


def test_a_condition_that_does_not_hold_writes_nothing_and_wakes_nobody(stage: Stage) -> None:
    etag = stage.ask("PUT", "a", b"1")["headers"]["etag"]
    stage.followed.clear()

    refused = [
        stage.ask("PUT", "a", b"2", if_none_match="*"),
        stage.ask("PUT", "a", b"2", if_match='"other"'),
        stage.ask("DELETE", "a", if_match='"other"'),
    ]

    assert [(each["statusCode"], code_of(each)) for each in refused] == [(412, "PreconditionFailed")] * 3
    assert stage.ask("PUT", "absent", b"2", if_match=etag)["statusCode"] == 404
    assert (stage.body("a"), stage.followed) == (b"1", [])
    assert stage.ask("PUT", "a", b"2", if_match=etag)["statusCode"] == 200


def test_a_url_writes_the_object_with_what_was_asked_for_and_nothing_else(stage: Stage) -> None:
    message = stage.ask("POST", "big", content_type="application/pdf", if_none_match="*", x_amz_meta_a="b")

    asked = json.loads(message["body"])
    assert message["headers"]["cache-control"] == "no-store"
    assert (message["statusCode"], asked["method"], asked["valid_s"]) == (200, "PUT", 300)
    assert asked["headers"] == {"content-type": "application/pdf", "if-none-match": "*", "x-amz-meta-a": "b"}
    signed = "X-Amz-SignedHeaders=content-type%3Bhost%3Bif-none-match%3Bx-amz-meta-a"
    assert signed in asked["url"]
    assert "X-Amz-Expires=300" in asked["url"]
    assert "checksum" not in asked["url"].lower()  # of a body that is not here
    assert (stage.body("big"), stage.followed) == (None, [])


@pytest.mark.parametrize(
    ("is_dual_stack", "host"),
    [("true", "s3.dualstack.eu-central-1.amazonaws.com"), ("", "s3.eu-central-1.amazonaws.com")],
)
@pytest.mark.parametrize("profile", ["read", "write"])
def test_a_url_names_the_region_of_the_bucket_as_the_function_is_set_up(
    monkeypatch: pytest.MonkeyPatch, is_dual_stack: str, host: str, profile: Profile
) -> None:
    variables = {"ACCESS_KEY_ID": "id", "SECRET_ACCESS_KEY": "key", "USE_DUALSTACK_ENDPOINT": is_dual_stack}
    for name, value in variables.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    client = Clients(profile, session=boto3.Session(region_name="eu-central-1")).s3

    url = ObjectStore(_BUCKET, client).presign_put("a", valid_s=1)

    assert url.startswith(f"https://origin.{host}/a?")


@pytest.mark.parametrize("method", ["PUT", "DELETE", "POST"])
def test_a_key_outside_of_the_stacks_prefix_is_forbidden(aws: None, method: str) -> None:
    stage = Stage(prefix="public/")
    stage.s3.put_object(Bucket=_BUCKET, Key="private/a", Body=b"1")

    message = stage.ask(method, "private/a", b"2" if method == "PUT" else b"")

    assert (message["statusCode"], code_of(message)) == (403, "AccessDenied")
    assert (stage.body("private/a"), stage.followed) == (b"1", [])
    assert stage.ask(method, "public/a")["statusCode"] in (200, 204)


@pytest.mark.parametrize("method", ["PUT", "DELETE", "POST", "GET"])
def test_a_bearer_changes_nothing_outside_of_its_prefixes(aws: None, method: str) -> None:
    stage = Stage(claimed=("users/{sub}/",))
    stage.s3.put_object(Bucket=_BUCKET, Key="users/alice/a", Body=b"1")

    message = stage.ask(method, "users/alice/a", b"2" if method == "PUT" else b"", claims={"sub": "bob"})

    assert (message["statusCode"], code_of(message)) == (403, "PrefixNotAllowed")
    assert (stage.body("users/alice/a"), stage.followed) == (b"1", [])
    assert stage.ask("PUT", "users/bob/a", b"2", claims={"sub": "bob"})["statusCode"] == 200


def test_copies_that_may_still_be_there_are_named_with_what_was_written(stage: Stage) -> None:
    stage.problem = "arn:aws:lambda:function failed"

    message = stage.ask("PUT", "a", b"1")

    assert (message["statusCode"], code_of(message)) == (503, "CopiesNotDropped")
    assert message["headers"]["etag"] == stage.s3.head_object(Bucket=_BUCKET, Key="a")["ETag"]
    assert "arn:" not in message["body"]
    stage.problem = ""
    repeated = stage.ask("PUT", "a", b"1", if_match=message["headers"]["etag"])
    assert (repeated["statusCode"], stage.followed) == (200, ["a"])


def test_s3_that_does_not_answer_leaves_it_open_whether_there_is_an_object(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(**_: object) -> None:
        raise EndpointConnectionError(endpoint_url="https://s3")

    monkeypatch.setattr(stage.s3, "put_object", refuse)

    message = stage.ask("PUT", "a", b"1")

    assert (message["statusCode"], code_of(message)) == (503, "OriginUnavailable")
    assert "https://s3" not in message["body"]


@pytest.mark.parametrize(
    ("s3s_status", "s3s_code", "retries", "status", "code"),
    [
        (409, "ConditionalRequestConflict", 0, 409, "ConditionalRequestConflict"),
        (409, "OperationAborted", 0, 409, "OperationAborted"),
        (409, "OperationAborted", 1, 503, "OriginUnavailable"),  # after a try whose answer was lost
        (412, "PreconditionFailed", 1, 503, "OriginUnavailable"),
        (404, "NoSuchKey", 1, 503, "OriginUnavailable"),
        (404, "NoSuchKey", 0, 404, "NoSuchKey"),
        (400, "BadDigest", 0, 400, "BadDigest"),
    ],
)
@pytest.mark.parametrize("method", ["PUT", "DELETE"])
def test_what_s3_refuses_is_passed_on(
    stage: Stage,
    monkeypatch: pytest.MonkeyPatch,
    method: str,
    s3s_status: int,
    s3s_code: str,
    retries: int,
    status: int,
    code: str,
) -> None:
    metadata = {"HTTPStatusCode": s3s_status, "HTTPHeaders": {}, "RetryAttempts": retries}
    error = ClientError({"Error": {"Code": s3s_code}, "ResponseMetadata": metadata}, "PutObject")  # type: ignore[typeddict-item]

    def refuse(**_: object) -> None:
        raise error

    monkeypatch.setattr(stage.s3, f"{method.lower()}_object", refuse)

    message = stage.ask(method, "a")

    assert (message["statusCode"], code_of(message), stage.followed) == (status, code, [])
    assert ("retry-after" in message["headers"]) == (status in (409, 503))


def test_when_it_expires_and_its_digest_go_to_s3_as_they_are(stage: Stage) -> None:
    sent = {}
    stage.s3.meta.events.register("before-send.s3.PutObject", lambda request, **_: sent.update(request.headers))
    headers = {"expires": "Sun, 06 Nov 1994 08:49:37 GMT", "content-md5": "CY9rzUYh03PK3k6DJie09g=="}

    written = stage.ask("PUT", "a", b"test", None, **headers)
    url = stage.ask("POST", "a", b"", None, **headers)

    assert written["statusCode"] == 200
    assert (sent["Expires"], sent["Content-MD5"]) == tuple(value.encode() for value in headers.values())
    assert (
        stage.s3.head_object(Bucket=_BUCKET, Key="a")["ResponseMetadata"]["HTTPHeaders"]["expires"]
        == headers["expires"]
    )
    asked = json.loads(url["body"])
    assert asked["headers"] == headers
    assert "X-Amz-SignedHeaders=content-md5%3Bexpires%3Bhost" in asked["url"]


def test_a_mistake_of_ours_is_a_well_formed_answer(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**_: object) -> None:
        raise ZeroDivisionError("a mistake")

    monkeypatch.setattr(stage.s3, "put_object", fail)

    message = stage.ask("PUT", "a", b"1")

    assert (message["statusCode"], code_of(message)) == (503, "WriterFailed")
    assert "mistake" not in message["body"]


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_a_sample_is_answered_with_the_status_in_its_name(stage: Stage, path: Path) -> None:
    stage.s3.put_object(Bucket=_BUCKET, Key="hello.txt", Body=b"0123456789")
    event = json.loads(path.read_text())
    if "if-match" in event["headers"]:
        event["headers"]["if-match"] = stage.s3.head_object(Bucket=_BUCKET, Key="hello.txt")["ETag"]

    assert stage.front.handle(event)["statusCode"] == int(path.stem.rpartition("_")[2])


_TEXT = st.text(st.characters(exclude_categories=[]), max_size=30)
_HEADERS = st.sampled_from(
    ["if-match", "if-none-match", "content-type", "x-amz-meta-a", "x-amz-acl", "cache-control", "content-length"]
)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    method=st.sampled_from(["PUT", "DELETE", "POST", "GET", "put", ""]),
    path=_TEXT | _TEXT.map(lambda text: "/objects/" + text),
    query=_TEXT | _TEXT.map(lambda text: "key=" + text),
    headers=st.dictionaries(_HEADERS, _TEXT | st.sampled_from(["*", '"e"', "text/plain"])),
    body=st.none() | _TEXT,
    is_base64=st.booleans(),
)
def test_any_request_gets_a_well_formed_answer(
    stage: Stage, method: str, path: str, query: str, headers: dict[str, str], body: str | None, is_base64: bool
) -> None:
    context = {"http": {"method": method}, "requestId": "1"}
    event = {"version": "2.0", "rawPath": path, "rawQueryString": query, "headers": headers, "requestContext": context}

    message = stage.front.handle(event | {"body": body, "isBase64Encoded": is_base64})

    assert 200 <= message["statusCode"] < 500
    assert not message["isBase64Encoded"]
    json.dumps(message).encode()
    if message["statusCode"] >= 400:
        assert set(json.loads(message["body"])["error"]) == {"code", "message"}


@pytest.mark.parametrize("event", [None, [], {}, {"version": "2.0"}, {"requestContext": {"http": {}}, "body": 1}])
def test_any_event_gets_a_well_formed_answer(stage: Stage, event: Any) -> None:
    assert stage.front.handle(event)["statusCode"] == 400
