"""Fuzzing of a front door: requests that conform to its OpenAPI document, and others that do not."""

from __future__ import annotations

import http.client
import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, urlsplit

import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from burstcache.web.keys import MAX_KEY_BYTES
from burstcache.web.methods import READS, WRITES
from burstcache_local.cloud import LocalCloud
from support.project import ROOT
from support.s3_itself import Answer, Moto, S3Request, parts, right_answer
from support.s3_itself import requests as reads
from support.waiting import LIMIT_S, until

_STORED = {"empty": b"", "ten": b"0123456789", "a/b c%": bytes(range(256)) * 40}
_CONFORMS = [
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
]
# Shares of the requests by kind. All kinds but the last also check the answers.
_SHARES = {"described": 0.3, "reads": 0.3, "keys": 0.05, "writes": 0.05, "anything": 0.3}
_TYPES = (
    "",
    "text/plain",
    "text/html; charset=latin-1",
    "application/json",
    "application/x-www-form-urlencoded",
    "a/b",
)


@dataclass
class Tried:
    """Answers tried, counted by status and by tier."""

    statuses: Counter[int] = field(default_factory=Counter)
    tiers: Counter[str] = field(default_factory=Counter)

    def clear(self) -> None:
        """Reset the counts."""
        self.statuses.clear()
        self.tiers.clear()

    def note(self, status: int, headers: Mapping[str, str]) -> None:
        """Count an answer, and fail on a status of 500 or above."""
        self.statuses[status] += 1
        self.tiers[headers.get("x-cache-tier", "")] += 1
        assert status < 500


class Fuzzing:
    """Sender of random requests to a local run that accepts writes. It stores some objects in the bucket first."""

    def __init__(self, cloud: LocalCloud) -> None:
        self.tried = Tried()
        self._url, self._bucket = cloud.front_url, cloud.bucket_name
        self._s3 = cloud.client("s3")
        self._host = urlsplit(self._url).netloc
        self._connection = http.client.HTTPConnection(self._host, timeout=LIMIT_S)
        self._session = requests.Session()
        self._schema = schemathesis.openapi.from_path(ROOT / "docs/use/openapi.yaml")
        moto = Moto(self._s3, self._bucket)
        for key, body in _STORED.items():
            self._s3.put_object(Bucket=self._bucket, Key=key, Body=body, CacheControl="max-age=1", Metadata={"a": "b"})
        self._stored = {key: moto.stored(key) for key in _STORED}
        moto.close()
        newest = max(stored.modified for stored in self._stored.values())
        until(lambda: (datetime.now(UTC) - newest).total_seconds() > 2)  # a second later is then not in the future

    def close(self) -> None:
        """Close the connections."""
        self._connection.close()
        self._session.close()

    def run(self, count: int, *, number: int) -> None:
        """Send about `count` requests from the seed `number`. Raise AssertionError for the first wrong answer."""
        for kind, share in _SHARES.items():
            getattr(self, f"_{kind}")(searched(max(1, round(count * share)), number))

    def _described(self, search: Callable[[Any], Any]) -> None:
        paths = ("/objects/{key}", "/objects")
        operations = [self._schema[path][method] for path in paths for method in (*READS, *WRITES)]
        modes = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
        cases = st.one_of([each.as_strategy(generation_mode=mode) for each in operations for mode in modes])

        def ask(case: schemathesis.Case[Any]) -> None:
            answer = case.call(base_url=self._url, session=self._session, timeout=LIMIT_S, allow_redirects=False)
            headers = {name: values[0] for name, values in answer.headers.items()}
            self.tried.note(answer.status_code, headers)
            case.validate_response(answer, checks=_CONFORMS)

        search(given(cases)(ask))()

    def _reads(self, search: Callable[[Any], Any]) -> None:
        def ask(key: str, request: S3Request) -> None:
            stored = self._stored[key]
            status, headers, body = self._send(
                request.method, f"/objects/{quote(key)}", list(request.headers(stored).items())
            )
            answer = _comparable(Answer.of(status, headers, body))
            right = _comparable(right_answer(request, stored, now=datetime.now(UTC)))
            assert answer == right, f"{answer} of {headers} is not {right}"

        search(given(st.sampled_from(sorted(_STORED)), st.one_of(reads(), reads(), parts()))(ask))()

    def _keys(self, search: Callable[[Any], Any]) -> None:
        def ask(key: str, in_path: bool) -> None:
            self._s3.put_object(Bucket=self._bucket, Key=key, Body=key.encode())
            # A tier may still hold an older version.
            until(lambda: self._read(_target(key, in_path=in_path)) == (200, key.encode()))
            self._s3.delete_object(Bucket=self._bucket, Key=key)

        search(given(_keys(), st.booleans())(ask))()

    def _writes(self, search: Callable[[Any], Any]) -> None:
        def ask(key: str, in_path: bool, body: bytes, type_: str) -> None:
            target = _target(key, in_path=in_path)
            status, written, _ = self._send("PUT", target, [("Content-Type", type_)] if type_ else [], body)
            assert status == 200
            status, found, read = self._send("GET", target, [])
            assert (status, read, found["etag"]) == (200, body, written["etag"])
            assert found["content-type"] == (type_ or "binary/octet-stream")
            assert self._send("PUT", target, [("If-None-Match", "*")], b"another")[0] == 412
            assert self._send("DELETE", target, [("If-Match", found["etag"])])[0] == 204
            assert self._send("GET", target, [])[0] == 404

        search(given(_keys(), st.booleans(), st.binary(max_size=300), st.sampled_from(_TYPES))(ask))()

    def _anything(self, search: Callable[[Any], Any]) -> None:
        def ask(method: str, target: str, headers: list[tuple[str, str]]) -> None:
            status, answered, body = self._send(method, target, headers)
            if method != "HEAD" and status >= 400 and answered["content-type"] == "application/json":
                assert {"code", "message"} <= json.loads(body).get("error", json.loads(body) | {"code": ""}).keys()

        search(given(_methods(), _targets(), st.lists(_headers(), max_size=4))(ask))()

    def _read(self, target: str) -> tuple[int, bytes]:
        status, _, body = self._send("GET", target, [])
        return status, body

    def _send(
        self, method: str, target: str, headers: list[tuple[str, str]], body: bytes = b""
    ) -> tuple[int, dict[str, str], bytes]:
        self._connection.putrequest(method, target, skip_accept_encoding=True)
        for name, value in headers:
            self._connection.putheader(name, value)
        if method == "PUT":
            self._connection.putheader("Content-Length", str(len(body)))
        self._connection.endheaders(body or None)
        answer = self._connection.getresponse()
        read = answer.read()
        named = {name.lower(): value for name, value in answer.headers.items()}
        self.tried.note(answer.status, named)
        return answer.status, named, read


def _target(key: str, *, in_path: bool) -> str:
    is_path = in_path and not ({".", ".."} & set(key.split("/")) or {"?", "\ufffd"} & set(key))
    return f"/objects/{quote(key)}" if is_path else f"/objects?key={quote(key, safe='')}"


def searched(count: int, number: int) -> Callable[[Any], Any]:
    """Return a decorator that runs a test with `count` examples of a seed."""

    def configured(test: Any) -> Any:
        chosen = settings(
            max_examples=count,
            database=None,
            deadline=None,
            phases=(Phase.generate, Phase.shrink),
            suppress_health_check=list(HealthCheck),
        )
        return seed(number)(chosen(test))

    return configured


def _comparable(answer: Answer) -> Answer:
    """Drop the headers that a 304 of moto's server lacks (RFC 9110, section 15.4.5). Tiers other than S3 send them."""
    return answer if answer.status != 304 else Answer(304, {"etag": answer.headers["etag"]})


def _keys() -> st.SearchStrategy[str]:
    """Return keys that S3 accepts: any Unicode, dots, slashes, empty segments, up to 1,024 bytes.

    Line feeds are left out, as moto's routes end at one.
    """
    part = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n"), min_size=1, max_size=20)
    odd = st.sampled_from(["", ".", "..", "...", "%2F", "+", " ", "%", "?", "#", "&", ";", "=", "\\", "~", "k" * 900])
    keys = st.lists(part | odd, min_size=1, max_size=6).map("/".join)
    return keys.filter(lambda key: 0 < len(key.encode()) <= MAX_KEY_BYTES and not _climbs(key))


def _climbs(key: str) -> bool:
    """Return whether any prefix of a key has more '..' than names, which S3 rejects."""
    depth = 0
    for segment in key.split("/"):
        depth += {"..": -1, ".": 0, "": 0}.get(segment, 1)
        if depth < 0:
            return True
    return False


def _methods() -> st.SearchStrategy[str]:
    return st.sampled_from(
        ["GET", "GET", "GET", "HEAD", "PUT", "POST", "DELETE", "PATCH", "OPTIONS", "TRACE", "get", "X-Y"]
    )


def _targets() -> st.SearchStrategy[str]:
    """Return ASCII request targets: valid and invalid percent-encoding, any path, any query."""
    encoded = st.binary(min_size=1, max_size=8).map(lambda data: "".join(f"%{byte:02x}" for byte in data))
    odd = st.sampled_from(["%", "%zz", "%2", ".", "..", "%2e%2e", "%2f", "%5c", "%00", "+", ";", "@", ":", "k" * 1025])
    plain = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), max_size=10)
    path = st.lists(encoded | odd | plain, max_size=6).map("/".join)
    query = st.lists(
        st.tuples(st.sampled_from(["key", "Key", "versionId", "response-expires", "x", ""]), encoded | odd | plain)
    )
    queries = query.map(lambda pairs: "?" + "&".join(f"{name}={value}" for name, value in pairs) if pairs else "")
    starts = st.sampled_from(["/objects/", "/objects/", "/objects", "/objects//", "/", "//objects/", "/Objects/"])
    return st.tuples(starts, path, queries).map("".join)


def _headers() -> st.SearchStrategy[tuple[str, str]]:
    names = ["Range", "If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since", "If-Range"]
    names += ["Accept-Encoding", "Authorization", "Cookie", "Cache-Control", "X-Forwarded-For", "X-Amzn-Trace-Id"]
    names += ["Content-Type", "Expect", "Via", "X-Odd!#$%&'*+-.^_`|~"]
    text = st.text(st.characters(min_codepoint=0x20, max_codepoint=0xFF, exclude_characters="\x7f"), max_size=60)
    fitting = st.sampled_from(
        ["bytes=0-1", "bytes=-5", "*", '"x"', 'W/"x"', "Sun, 06 Nov 1994 08:49:37 GMT", "no-cache"]
    )
    return st.tuples(st.sampled_from(names), text | fitting)
