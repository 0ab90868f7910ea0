"""Hostile requests to a gateway's process: what S3 gets of them, and what the next reader sees."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

import boto3
import pytest

from burstcache_local.moto.server import MotoServer
from burstcache_local.moto.services import Services
from support.gateway_process import KEYS, REGION, Signer, exchange, gateway, statuses

pytestmark = pytest.mark.slow

_BUCKET = "hostile"
_OWN = ("gateway", "secret-of-gateway")
_CLOSE = ["Connection: close"]


@dataclass
class Origin:
    """S3 that counts its requests.

    Attributes:
        s3: A client of it.
        seen: Methods and paths of the requests of the gateway.
    """

    seen: list[str] = field(default_factory=list)
    s3: Any = None

    def watch(self, application: WSGIApplication) -> WSGIApplication:
        def serve(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
            if f"Credential={_OWN[0]}/" in environ.get("HTTP_AUTHORIZATION", ""):
                self.seen.append(f"{environ['REQUEST_METHOD']} {environ['REQUEST_URI']}")
            return application(environ, start_response)

        return serve

    def body(self, key: str) -> bytes | None:
        """Return the stored bytes of an object, or None if there is no such object."""
        if not [each for each in self.s3.list_objects_v2(Bucket=_BUCKET).get("Contents", []) if each["Key"] == key]:
            return None
        return bytes(self.s3.get_object(Bucket=_BUCKET, Key=key)["Body"].read())


@pytest.fixture(scope="module")
def running() -> Iterator[tuple[Origin, Signer]]:
    origin, services = Origin(), Services()
    server = MotoServer(services, before=origin.watch)
    with ExitStack() as stack:
        stack.callback(services.close)
        url = server.start()
        stack.callback(server.stop)
        key, secret = "observer", "secret-of-observer"
        origin.s3 = boto3.client(
            "s3", endpoint_url=url, region_name=REGION, aws_access_key_id=key, aws_secret_access_key=secret
        )
        stack.callback(origin.s3.close)
        origin.s3.create_bucket(Bucket=_BUCKET)
        yield origin, Signer(stack.enter_context(gateway(url, _BUCKET, dict([KEYS]), _OWN)))


@pytest.fixture
def origin(running: tuple[Origin, Signer]) -> Origin:
    running[0].seen.clear()
    return running[0]


@pytest.fixture
def signer(running: tuple[Origin, Signer]) -> Signer:
    return running[1]


def sent(signer: Signer, method: str, key: str, body: bytes = b"", **headers: str) -> bytes:
    """Return the response to a signed request, on a connection of its own."""
    return exchange(signer.url, signer.request(method, f"/{_BUCKET}/{key}", body, headers, _CLOSE))


def read(signer: Signer, key: str) -> bytes:
    """Return the body of an object through the gateway, read twice: the second time perhaps from memory."""
    first, second = (sent(signer, "GET", key).partition(b"\r\n\r\n")[2] for _ in range(2))
    assert first == second
    return first


def test_a_signature_of_another_secret_reads_and_writes_nothing(origin: Origin, signer: Signer) -> None:
    origin.s3.put_object(Bucket=_BUCKET, Key="secret", Body=b"secret")
    assert read(signer, "secret") == b"secret"
    origin.seen.clear()
    thief = Signer(signer.url, (KEYS[0], "guessed"))

    answers = [
        sent(thief, method, "secret", b"other" if method == "PUT" else b"") for method in ("GET", "PUT", "DELETE")
    ]

    assert [statuses(answer) for answer in answers] == [[403]] * 3
    assert b"SignatureDoesNotMatch" in answers[0]
    assert b"secret-of" not in b"".join(answers)
    assert (origin.seen, origin.body("secret")) == ([], b"secret")


@pytest.mark.parametrize("minutes", [-16, 16])
def test_a_clock_that_is_wrong_by_more_than_a_quarter_of_an_hour_is_refused(
    origin: Origin, signer: Signer, minutes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    signed_at = datetime.now(UTC) + timedelta(minutes=minutes)
    monkeypatch.setattr("botocore.auth.get_current_datetime", lambda *_: signed_at)

    answer = sent(signer, "PUT", "late", b"late")

    assert statuses(answer) == [403]
    assert b"<Code>RequestTimeTooSkewed</Code>" in answer
    assert origin.seen == []


def test_a_replay_of_a_write_is_a_write_as_it_is_for_s3_and_no_copy_hides_it(origin: Origin, signer: Signer) -> None:
    captured = signer.request("PUT", f"/{_BUCKET}/replayed", b"old", unsigned=_CLOSE)
    assert statuses(exchange(signer.url, captured)) == [200]
    assert statuses(sent(signer, "PUT", "replayed", b"new")) == [200]
    assert read(signer, "replayed") == b"new"

    assert statuses(exchange(signer.url, captured)) == [200]

    assert (read(signer, "replayed"), origin.body("replayed")) == (b"old", b"old")


@pytest.mark.parametrize("target", ["/hostile/other", "/other/replayed", "/hostile/replayed?tagging"])
def test_a_signature_is_of_one_target(origin: Origin, signer: Signer, target: str) -> None:
    captured = signer.request("PUT", f"/{_BUCKET}/replayed", b"old", unsigned=_CLOSE)

    moved = captured.replace(f"/{_BUCKET}/replayed".encode(), target.encode(), 1)

    assert statuses(exchange(signer.url, moved)) == [403]
    assert origin.seen == []


def test_a_body_that_is_cut_off_is_not_stored(origin: Origin, signer: Signer) -> None:
    assert statuses(sent(signer, "PUT", "cut", b"whole")) == [200]
    request = signer.request("PUT", f"/{_BUCKET}/cut", b"0123456789", unsigned=_CLOSE)

    assert statuses(exchange(signer.url, request[:-5], ends=True)) == []

    assert (read(signer, "cut"), origin.body("cut")) == (b"whole", b"whole")


def test_a_body_that_is_not_the_signed_one_is_refused(signer: Signer) -> None:
    request = signer.request("PUT", f"/{_BUCKET}/changed", b"0123456789", unsigned=_CLOSE)

    answer = exchange(signer.url, request[:-1] + b"8")

    assert statuses(answer) == [400]
    assert b"<Code>XAmzContentSHA256Mismatch</Code>" in answer


@pytest.mark.parametrize(
    "lines",
    [["Content-Length: 4", "Transfer-Encoding: chunked"], ["Transfer-Encoding: gzip, chunked"], ["X-A: b", " folded"]],
    ids=["a length and chunks", "two codings", "a folded line"],
)
def test_an_ambiguous_request_reaches_s3_neither_once_nor_twice(
    origin: Origin, signer: Signer, lines: list[str]
) -> None:
    smuggled = signer.request("GET", f"/{_BUCKET}/smuggled", unsigned=_CLOSE)
    request = signer.request("POST", f"/{_BUCKET}/outer", unsigned=lines) + b"0\r\n\r\n"

    answer = exchange(signer.url, request + smuggled)

    assert (statuses(answer), origin.seen) == ([400], [])


def test_a_request_within_a_body_is_a_part_of_the_body(origin: Origin, signer: Signer) -> None:
    smuggled = signer.request("DELETE", f"/{_BUCKET}/smuggled", unsigned=_CLOSE)

    assert statuses(sent(signer, "PUT", "outer", smuggled)) == [200]

    assert origin.seen == [f"PUT /{_BUCKET}/outer"]
    assert origin.body("outer") == smuggled


def test_a_parameter_adds_no_header_to_the_response(origin: Origin, signer: Signer) -> None:
    origin.s3.put_object(Bucket=_BUCKET, Key="plain", Body=b"plain")
    target = f"/{_BUCKET}/plain?response-content-type=a%0d%0aX-Injected%3A%20y"

    for _ in range(2):
        head = exchange(signer.url, signer.request("GET", target, unsigned=_CLOSE)).partition(b"\r\n\r\n")[0]
        assert b"\r\nx-injected:" not in head.lower()


def test_another_host_than_the_signed_one_is_refused(origin: Origin, signer: Signer) -> None:
    request = signer.request("GET", f"/{_BUCKET}/plain", unsigned=_CLOSE)
    host = signer.url.removeprefix("http://").encode()

    assert statuses(exchange(signer.url, request.replace(host, b"evil.example", 1))) == [403]
    assert origin.seen == []


def test_a_signed_condition_holds_even_if_the_connection_claims_it(origin: Origin, signer: Signer) -> None:
    origin.s3.put_object(Bucket=_BUCKET, Key="kept", Body=b"kept")
    lines = ["Connection: close, if-none-match"]
    request = signer.request("PUT", f"/{_BUCKET}/kept", b"other", {"if-none-match": "*"}, lines)

    assert statuses(exchange(signer.url, request)) == [412]
    assert origin.body("kept") == b"kept"


@pytest.mark.parametrize("method", ["TRACE", "CONNECT", "PATCH", "PROPFIND"])
def test_a_method_that_s3_does_not_have_does_not_reach_it(origin: Origin, signer: Signer, method: str) -> None:
    answer = sent(signer, method, "plain")

    assert (statuses(answer), origin.seen) == ([405], [])
    assert b"<Code>MethodNotAllowed</Code>" in answer
