"""Fuzzing of a gateway: reads and writes whose answers are known, and requests that conform to nothing."""

from __future__ import annotations

import http.client
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from random import Random
from typing import Any
from urllib.parse import quote, urlsplit
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

import boto3
from hypothesis import given
from hypothesis import strategies as st

from burstcache_local.moto.server import MotoServer
from burstcache_local.moto.services import Services
from support.fuzzing import searched
from support.gateway_process import KEYS, REGION, Signer, exchange, gateway, statuses
from support.s3_itself import Answer, S3Request, Stored, parts, plain_requests, right_answer
from support.s3_itself import requests as reads
from support.waiting import LIMIT_S, until

_BUCKET, _ANYTHING = "fuzz-gateway", "fuzz-anything"
_STORED = {"empty": b"", "ten": b"0123456789", "a/b c%": bytes(range(256)) * 40, "large": bytes(range(251)) * 4000}
# Shares of the requests by kind. The rest is damaged.
_SHARES = {"known_reads": 0.1, "any_reads": 0.05, "writes": 0.01, "anything": 0.15}
_OWN = ("gateway", "secret-of-gateway")
_SPARED = 0.99  # share of the damaged access keys that is not sent: each unknown one waits until the keys are read anew
_CLOSE = ["Connection: close"]


class GatewayFuzzing:
    """Sender of random requests to two gateways in front of moto: one verifies signatures, the other needs none.

    Attributes:
        statuses: Numbers of answers by status.
        failures_of_s3: How often moto itself has failed. The gateway gets a 400 for it, so each 5xx is its own.
    """

    def __init__(self, origin_url: str, signed_url: str, unsigned_url: str, failures_of_s3: Counter[int]) -> None:
        self.statuses: Counter[int] = Counter()
        self.failures_of_s3 = failures_of_s3
        self._signer, self._unsigned_url = Signer(signed_url), unsigned_url
        self._host = urlsplit(signed_url).netloc
        self._connection = http.client.HTTPConnection(self._host, timeout=LIMIT_S)
        s3 = boto3.client(
            "s3",
            endpoint_url=origin_url,
            region_name=REGION,
            aws_access_key_id=_OWN[0],
            aws_secret_access_key=_OWN[1],
        )
        for bucket in (_BUCKET, _ANYTHING):
            s3.create_bucket(Bucket=bucket)
        self._stored = {key: self._store(s3, key, body) for key, body in _STORED.items()}
        s3.close()
        newest = max(stored.modified for stored in self._stored.values())
        until(lambda: (datetime.now(UTC) - newest).total_seconds() > 2)  # a second later is then not in the future

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def run(self, count: int, *, number: int) -> None:
        """Send about `count` requests from the seed `number`. Raise AssertionError for the first wrong answer."""
        for kind, share in _SHARES.items():
            getattr(self, f"_{kind}")(searched(max(1, round(count * share)), number))
        self._send_damaged(round(count * (1 - sum(_SHARES.values()))), number)

    def _store(self, s3: Any, key: str, body: bytes) -> Stored:
        s3.put_object(Bucket=_BUCKET, Key=key, Body=body, Metadata={"a": "b"}, ContentType="text/plain")
        found = s3.get_object(Bucket=_BUCKET, Key=key)
        found["Body"].close()
        answer = Answer.of(200, found["ResponseMetadata"]["HTTPHeaders"], body)
        return Stored(body, answer.headers)

    def _known_reads(self, search: Callable[[Any], Any]) -> None:
        def ask(key: str, request: S3Request) -> None:
            stored = self._stored[key]
            answer = self._read(key, request, stored)
            right = right_answer(request, stored, now=datetime.now(UTC))
            assert answer.status == right.status, f"{answer} is not {right}"
            if right.status in (200, 206):
                assert answer == right, f"{answer} is not {right}"

        search(given(st.sampled_from(sorted(_STORED)), plain_requests() | parts())(ask))()

    def _any_reads(self, search: Callable[[Any], Any]) -> None:
        def ask(key: str, request: S3Request) -> None:
            self._read(key, request, self._stored[key])

        search(given(st.sampled_from(sorted(_STORED)), reads())(ask))()

    def _writes(self, search: Callable[[Any], Any]) -> None:
        def ask(key: str, body: bytes) -> None:
            target = _target(key)
            assert self._send("PUT", target, {}, body)[0] == 200
            for _ in range(2):  # the second one may come from memory
                status, _, read = self._send("GET", target, {})
                assert (status, read) == (200, body)
            assert self._send("DELETE", target, {})[0] == 204
            assert self._send("GET", target, {})[0] == 404

        search(given(_keys(), st.binary(max_size=300))(ask))()

    def _anything(self, search: Callable[[Any], Any]) -> None:
        def ask(method: str, target: str, headers: list[tuple[str, str]], body: bytes) -> None:
            lines = [f"{name}: {value}" for name, value in headers]
            if body:
                lines.append(f"Content-Length: {len(body)}")
            host = urlsplit(self._unsigned_url).netloc
            head = "\r\n".join([f"{method} {target} HTTP/1.1", f"Host: {host}", *lines, *_CLOSE, "", ""])
            self._note(statuses(exchange(self._unsigned_url, head.encode("latin-1") + body, ends=True)))

        bodies = st.just(b"") | st.binary(max_size=40) | st.sampled_from(_BODIES)
        search(given(_methods(), _targets(), st.lists(_headers(), max_size=4), bodies)(ask))()

    def _send_damaged(self, count: int, number: int) -> None:
        """Send signed requests with up to three places damaged. A search would take ten times as long."""
        random = Random(number)
        whole = [
            self._signer.request("GET", _target("ten"), unsigned=_CLOSE),
            self._signer.request("GET", _target("a/b c%"), headers={"range": "bytes=3-9"}, unsigned=_CLOSE),
            self._signer.request("PUT", _target("damaged"), b"hello", {"content-type": "a/b"}, unsigned=_CLOSE),
        ]
        for _ in range(count):
            damaged = bytearray(random.choice(whole))
            for _ in range(random.randint(1, 3)):
                position = random.randrange(len(damaged))
                noise = random.choice(_NOISE) if random.random() < 0.5 else random.randbytes(random.randint(0, 4))
                damaged[position : position + random.randint(0, 4)] = noise
            if KEYS[0].encode() not in damaged and random.random() < _SPARED:
                continue
            answered = statuses(exchange(self._signer.url, bytes(damaged), ends=True))
            self._note(answered, bytes(damaged))

    def _read(self, key: str, request: S3Request, stored: Stored) -> Answer:
        status, headers, body = self._send(request.method, _target(key), request.headers(stored))
        return Answer.of(status, headers, body)

    def _send(
        self, method: str, target: str, headers: dict[str, str], body: bytes = b""
    ) -> tuple[int, dict[str, str], bytes]:
        """Send a signed request; the headers of `headers` are not signed, as those that a proxy adds."""
        self._connection.putrequest(method, target, skip_host=True, skip_accept_encoding=True)
        for name, value in (self._signer.headers(method, target, body) | headers).items():
            self._connection.putheader(name, value.encode("latin-1"))
        if method == "PUT":
            self._connection.putheader("Content-Length", str(len(body)))
        self._connection.endheaders(body or None)
        answer = self._connection.getresponse()
        read = answer.read()
        self._note([answer.status])
        return answer.status, {name.lower(): value for name, value in answer.headers.items()}, read

    def _note(self, answered: Iterable[int], sent: object = None) -> None:
        answered = [status for status in answered if status != 100]
        self.statuses.update(answered or [0])
        assert all(status < 500 or status == 501 for status in answered), (answered, sent)


@contextmanager
def fuzzing() -> Iterator[GatewayFuzzing]:
    """Run moto and both gateways for the duration of a `with`."""
    failures: Counter[int] = Counter()

    def before(application: WSGIApplication) -> WSGIApplication:
        return _with_failures_marked(application, failures)

    services = Services()
    server = MotoServer(services, before=before)
    with ExitStack() as running:
        running.callback(services.close)
        origin_url = server.start()
        running.callback(server.stop)
        keys = dict([KEYS])
        signed_url = running.enter_context(gateway(origin_url, _BUCKET, keys, _OWN))
        unsigned_url = running.enter_context(gateway(origin_url, _ANYTHING, {}, _OWN, ["--unsigned"]))
        started = GatewayFuzzing(origin_url, signed_url, unsigned_url, failures)
        running.callback(started.close)
        yield started


def _with_failures_marked(application: WSGIApplication, failures: Counter[int]) -> WSGIApplication:
    """Answer 400 where moto fails, and count it."""

    def serve(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        def start(status: str, headers: list[tuple[str, str]], *rest: Any) -> Any:
            if int(status[:3]) < 500:
                return start_response(status, headers, *rest)
            failures[int(status[:3])] += 1
            return start_response("400 Bad Request", headers, *rest)

        try:
            return application(environ, start)
        except Exception:  # moto's own
            failures[500] += 1
            start_response("400 Bad Request", [("Content-Length", "0")])
            return []

    return serve


def _target(key: str) -> str:
    return f"/{_BUCKET}/{quote(key, safe='/-_.~')}"


def _keys() -> st.SearchStrategy[str]:
    """Return keys that S3 accepts: any Unicode, slashes, empty segments. Line feeds end moto's routes."""
    part = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\r\0"), min_size=1, max_size=20)
    odd = st.sampled_from(["...", "%2F", "+", " ", "%", "?", "#", "&", ";", "=", "\\", "~", "k" * 400])
    return st.lists(part | odd, min_size=1, max_size=4).map("/".join).filter(_is_key)


def _is_key(key: str) -> bool:
    return len(key.encode()) <= 1024 and not {".", ".."} & {*key.split("/")}


_BODIES = (
    b"<Delete><Object><Key>a</Key></Object></Delete>",
    b"5\r\nhello\r\n0\r\n\r\n",
    b'<!DOCTYPE a [<!ENTITY b "c">]>',
)
_NOISE = (b"\r\n", b"\n", b"\0", b" ", b":", b"\r\n\r\n", b"\xff", b"Content-Length: 3\r\n", b"%", b"/../", b"\t")


def _methods() -> st.SearchStrategy[str]:
    common = ["GET", "GET", "GET", "HEAD", "PUT", "POST", "DELETE"]
    return st.sampled_from([*common, "PATCH", "OPTIONS", "TRACE", "CONNECT", "get", "X-Y"])


def _targets() -> st.SearchStrategy[str]:
    """Return ASCII request targets: valid and invalid percent-encoding, any path, any query."""
    encoded = st.binary(min_size=1, max_size=8).map(lambda data: "".join(f"%{byte:02x}" for byte in data))
    odd = st.sampled_from(["%", "%zz", "%2", ".", "..", "%2e%2e", "%2f", "%5c", "%00", "%0d%0aX:y", "+", ";", "@", ":"])
    plain = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), max_size=10)
    path = st.lists(encoded | odd | plain, max_size=5).map("/".join)
    names = ["versionId", "partNumber", "response-expires", "response-content-type", "uploads", "uploadId", "delete"]
    names += ["acl", "tagging", "list-type", "prefix", "x-id", "select", "X-Amz-Date", "x", ""]
    pairs = st.lists(st.tuples(st.sampled_from(names), encoded | odd | plain | st.just("1")), max_size=3)
    query = pairs.map(lambda each: "?" + "&".join(f"{name}={value}" for name, value in each) if each else "")
    starts = st.sampled_from([f"/{_ANYTHING}/"] * 4 + [f"/{_ANYTHING}", f"//{_ANYTHING}/", "/", "*", "http://a/", "a"])
    return st.tuples(starts, path, query).map("".join)


def _headers() -> st.SearchStrategy[tuple[str, str]]:
    names = ["Range", "If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since", "If-Range", "Expect"]
    names += ["Authorization", "Cookie", "Cache-Control", "Content-Type", "Content-MD5", "Content-Encoding", "Via"]
    names += ["X-Amz-Content-Sha256", "X-Amz-Decoded-Content-Length", "X-Amz-Trailer", "X-Amz-Copy-Source", "TE"]
    names += ["X-Amz-Meta-A", "X-Amz-Acl", "X-Amz-Date", "X-Amz-Checksum-Mode", "Transfer-Encoding", "Connection"]
    text = st.text(st.characters(min_codepoint=0x20, max_codepoint=0xFF, exclude_characters="\x7f"), max_size=40)
    fitting = ["bytes=0-1", "bytes=-5", "*", '"x"', "Sun, 06 Nov 1994 08:49:37 GMT", "100-continue", "chunked", "5"]
    fitting += ["UNSIGNED-PAYLOAD", "STREAMING-UNSIGNED-PAYLOAD-TRAILER", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"]
    fitting += ["aws-chunked", "x-amz-checksum-crc32", f"/{_ANYTHING}/a", "keep-alive, x-amz-meta-a"]
    return st.tuples(st.sampled_from(names), text | st.sampled_from(fitting))
