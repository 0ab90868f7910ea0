"""S3 in memory: one bucket behind boto3, whose versions, failures and writes between two requests a test decides.

It replaces botocore's endpoint, so a wrapped client sends its requests here, too. Bytes are a function of version and
offset: each word of 16 bytes names both.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import format_datetime
from functools import lru_cache
from io import BytesIO
from typing import Any
from urllib.parse import unquote, urlsplit

import botocore.session
from botocore import UNSIGNED
from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders
from botocore.config import Config
from botocore.exceptions import EndpointConnectionError
from botocore.parsers import create_parser
from botocore.response import StreamingBody

from support.aws import REGION

_WORD_BYTES = 16
_TYPE = "application/x-version-"
_ERRORS = {304: "304", 404: "NoSuchKey", 412: "PreconditionFailed", 416: "InvalidRange", 503: "SlowDown"}


@lru_cache(4096)
def body_of(number: int, size_bytes: int) -> bytes:
    """Return the bytes of a version."""
    words = range(-(-size_bytes // _WORD_BYTES))
    return b"".join(b"%06d@%08d|" % (number, word * _WORD_BYTES) for word in words)[:size_bytes]


@dataclass(frozen=True, slots=True)
class Stored:
    """The state of a key since a write. `number` is None after a deletion."""

    number: int | None
    size_bytes: int
    at_s: float

    @property
    def etag(self) -> str:
        return f'"{self.number:032x}"' if self.number is not None else ""

    @property
    def content_type(self) -> str:
        """The media type, which also tells the bucket the version that a client writes."""
        return f"{_TYPE}{self.number}"

    @property
    def body(self) -> bytes:
        return b"" if self.number is None else body_of(self.number, self.size_bytes)

    @property
    def last_modified(self) -> str:
        return format_datetime(datetime.fromtimestamp(int(self.at_s), UTC), usegmt=True)


@dataclass
class Failure:
    """The next answer's failure: no connection, a 503, or a body that breaks off after some bytes."""

    kind: str
    after_bytes: int = 0


class MemoryS3:
    """The bucket.

    Attributes:
        states: All states of each key, in order. Keys begin absent.
        requests: Number of requests so far.
        between: Calls to run before a later request, by the number of requests until then.
        under_way: Calls to run while the next answers are under way, one each.
        failures: Failures of the next answers, in order.
        has_weak_etags: Whether its ETags are weak, so that no If-Match holds.
    """

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self.states: defaultdict[str, list[Stored]] = defaultdict(lambda: [Stored(None, 0, -1.0)])
        self.requests = 0
        self.between: list[tuple[int, Callable[[], object]]] = []
        self.under_way: list[Callable[[], object]] = []
        self.failures: list[Failure] = []
        self.has_weak_etags = False
        self._parser = create_parser("rest-xml")

    def client(self, bucket: str) -> Any:
        """Return a boto3 client of the bucket."""
        session = botocore.session.Session()
        config = Config(
            signature_version=UNSIGNED,
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
            s3={"addressing_style": "path"},
        )
        client: Any = session.create_client("s3", REGION, config=config)
        client._endpoint = self
        return client

    def write(self, key: str, number: int | None, size_bytes: int) -> Stored:
        """Write a version, or delete the object (number None)."""
        stored = Stored(number, size_bytes, self._now_s())
        self.states[key].append(stored)
        return stored

    def newest(self, key: str) -> Stored:
        """Return the current state of a key."""
        return self.states[key][-1]

    def make_request(self, model: Any, request: Mapping[str, Any]) -> tuple[AWSResponse, dict[str, Any]]:
        """Answer a request, in the place of botocore's endpoint."""
        self.requests += 1
        for due in [each for each in self.between if each[0] <= self.requests]:
            self.between.remove(due)
            due[1]()
        failure = self.failures.pop(0) if self.failures else None
        if failure is not None and failure.kind == "connection":
            raise EndpointConnectionError(endpoint_url=request["url"])
        key = unquote(urlsplit(request["url"]).path).strip("/").partition("/")[2]
        lower = {name.lower(): _text(value) for name, value in request["headers"].items()}
        status, headers, body = self._answer(model.name, key, lower, request["body"])
        if self.under_way:
            self.under_way.pop(0)()
        if failure is not None and failure.kind == "refused":
            status, headers, body = 503, {}, b""
        http = AWSResponse(request["url"], status, HTTPHeaders.from_dict({"x-amz-request-id": "id", **headers}), None)
        response: dict[str, Any] = {
            "status_code": status,
            "headers": http.headers,
            "body": body,
            "context": {"operation_name": model.name},
        }
        if status >= 300 and model.name != "HeadObject" and status != 304:
            response["body"] = b"<Error><Code>%s</Code></Error>" % _ERRORS[status].encode()
        elif model.has_streaming_output:
            sent = body[: failure.after_bytes] if failure is not None and failure.kind == "broken" else body
            response["body"] = StreamingBody(BytesIO(sent), len(body)) if status < 300 else b""
        return http, self._parser.parse(response, model.output_shape)

    def _answer(self, name: str, key: str, headers: Mapping[str, str], sent: Any) -> tuple[int, dict[str, str], bytes]:
        if name == "PutObject":
            size_bytes = len(sent if isinstance(sent, bytes) else sent.read())
            number = int(headers["content-type"].removeprefix(_TYPE))
            return 200, {"etag": self.write(key, number, size_bytes).etag}, b""
        if name == "DeleteObject":
            self.write(key, None, 0)
            return 204, {}, b""
        assert name in ("GetObject", "HeadObject"), name
        state = self.newest(key)
        if state.number is None:
            return 404, {}, b""
        etag = f"W/{state.etag}" if self.has_weak_etags else state.etag
        identity = {"etag": etag, "last-modified": state.last_modified}
        if "if-match" in headers and (self.has_weak_etags or headers["if-match"] != etag):
            return 412, {}, b""
        if headers.get("if-none-match") == state.etag:
            return 304, identity, b""
        whole, status = state.body, 200
        described = {**identity, "content-type": state.content_type, "accept-ranges": "bytes"}
        body = whole
        if (range_ := headers.get("range")) is not None:
            if (part := part_of(range_, len(whole))) is None:
                return 416, {}, b""
            if whole:  # an empty object has last bytes, but no part: Versity's `GetObject_zero_len_with_range`
                body, status = whole[part], 206
                described["content-range"] = f"bytes {part.start}-{part.stop - 1}/{len(whole)}"
        described["content-length"] = str(len(body))
        return status, described, b"" if name == "HeadObject" else body


def part_of(range_: str, size_bytes: int) -> slice | None:
    """Return the part of an object that a Range header means, or None if no byte of it exists."""
    first, _, last = range_.removeprefix("bytes=").partition("-")
    if not first:
        return slice(max(0, size_bytes - int(last)), size_bytes) if int(last) else None
    end = min(int(last) + 1, size_bytes) if last else size_bytes
    return slice(int(first), end) if int(first) < size_bytes else None


def superseded_s(states: list[Stored], place: int) -> float:
    """Return when a state was replaced; infinite: it is current."""
    return states[place + 1].at_s if place + 1 < len(states) else float("inf")


def first_allowed(states: list[Stored], since_s: float) -> int:
    """Return the place of the oldest state that was current at or after a time."""
    return max(0, bisect_right(states, since_s, key=lambda each: each.at_s) - 1)


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
