"""Table of boto3 calls on the objects of one bucket, and each call's outcome in comparable form."""

from __future__ import annotations

import contextlib
import datetime
import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from botocore.response import StreamingBody

BODY = b"01234567\n9\n\nabc"  # 15 bytes: lines, an empty one among them, and no newline at the end
KEYS: dict[str, dict[str, Any]] = {
    "key": {"Body": BODY},
    "empty": {"Body": b""},
    "a b/ü+?&#%25.txt": {"Body": BODY},
    "described": {
        "Body": BODY,
        "ContentType": "text/csv; charset=utf-8",
        "ContentEncoding": "identity",
        "ContentLanguage": "de",
        "ContentDisposition": 'attachment; filename="a.csv"',
        "CacheControl": "max-age=3600",
        "Expires": datetime.datetime(2031, 1, 2, 3, 4, 5, tzinfo=datetime.UTC),
        "Metadata": {"colour": "red", "two-words": "x y"},
    },
}
_LONG_AGO = datetime.datetime(1994, 11, 6, 8, 49, 37, tzinfo=datetime.UTC)
_FUTURE = datetime.datetime(2099, 1, 1, tzinfo=datetime.UTC)

Read = Callable[[StreamingBody], object]


def _whole(body: StreamingBody) -> object:
    return body.read()


def _in_pieces(body: StreamingBody) -> object:
    pieces = [body.read(4), body.read(4), body.tell(), body.read(), body.read(), body.read(4)]
    return pieces


def _into_a_buffer(body: Any) -> object:
    buffer = bytearray(9)
    return [(body.readinto(buffer), bytes(buffer)) for _ in range(3)]


def _in_a_context(body: StreamingBody) -> object:
    with body as raw:
        return raw.read(5), raw.read()


def _as_text(body: Any) -> object:
    return io.TextIOWrapper(body, encoding="ascii").readlines()


def _step_by_step(body: StreamingBody) -> object:
    return next(body), next(body, None)


def _closed(body: StreamingBody) -> object:
    first = body.read(3)
    body.close()
    return first, body.read()


def _with_a_socket_timeout(body: StreamingBody) -> object:
    body.set_socket_timeout(30)
    return body.read()


# Ways to read a body. Each returns everything the program sees.
READS: Mapping[str, Read] = {
    "read": _whole,
    "read in pieces": _in_pieces,
    "read and read again": lambda body: (body.read(), body.read()),
    "readinto": _into_a_buffer,
    "readlines": lambda body: body.readlines(),
    "context manager": _in_a_context,
    "lines of the context manager": lambda body: list(body.__enter__()),
    "iteration": list,
    "next": _step_by_step,
    "iter_chunks": lambda body: list(body.iter_chunks(4)),
    "iter_lines": lambda body: list(body.iter_lines()),
    "iter_lines in small chunks": lambda body: list(body.iter_lines(chunk_size=3, keepends=True)),
    "text": _as_text,
    "closed midway": _closed,
    "first bytes alone": lambda body: body.read(3),
    "nothing": lambda body: (body.readable(), body.tell()),
}


@dataclass(frozen=True, slots=True)
class Call:
    """One call and its result in boto3: the status of its answer, or the class of its exception.

    In `parameters`, `ETAG` and `LAST-MODIFIED` stand for the object's own. `is_cacheable` is False if a cache cannot
    answer the call exactly.
    """

    name: str
    becomes: int | str
    operation: str = "get_object"
    key: str = "key"
    parameters: Mapping[str, Any] = field(default_factory=dict)
    is_cacheable: bool = True
    bucket: str | None = None  # None: the cached one


def _both(name: str, becomes: int | str, *, is_cacheable: bool = True, **parameters: Any) -> list[Call]:
    """Return a call as a GET and as a HEAD."""
    return [
        Call(f"{verb}: {name}", becomes, f"{verb}_object", parameters=parameters, is_cacheable=is_cacheable)
        for verb in ("get", "head")
    ]


CALLS: list[Call] = [
    *_both("the object", 200),
    *(Call(f"{verb}: {key}", 200, f"{verb}_object", key) for verb in ("get", "head") for key in KEYS if key != "key"),
    *_both("first bytes", 206, Range="bytes=0-3"),
    *_both("bytes from the middle", 206, Range="bytes=2-4"),
    *_both("open range", 206, Range="bytes=7-"),
    *_both("last bytes", 206, Range="bytes=-3"),
    *_both("range beyond the end", 206, Range="bytes=7-99"),
    Call("get: range behind the end", "InvalidRange", parameters={"Range": "bytes=15-"}, is_cacheable=False),
    *_both("same tag", 200, IfMatch="ETAG"),
    *_both("same tag and a range", 206, IfMatch="ETAG", Range="bytes=2-4"),
    Call("get: another tag", "PreconditionFailed", parameters={"IfMatch": '"another"'}, is_cacheable=False),
    Call("head: another tag", "412", "head_object", parameters={"IfMatch": '"another"'}, is_cacheable=False),
    *_both("unchanged by tag", "304", IfNoneMatch="ETAG"),
    *_both("changed by tag", 200, IfNoneMatch='"another"'),
    *_both("unchanged by date", "304", IfModifiedSince="LAST-MODIFIED"),
    *_both("changed by date", 200, IfModifiedSince=_LONG_AGO),
    *_both("not changed since", 200, IfUnmodifiedSince=_FUTURE),
    Call("get: changed since", "PreconditionFailed", parameters={"IfUnmodifiedSince": _LONG_AGO}, is_cacheable=False),
    Call("head: changed since", "412", "head_object", parameters={"IfUnmodifiedSince": _LONG_AGO}, is_cacheable=False),
    *_both("checksums wanted", 200, is_cacheable=False, ChecksumMode="ENABLED"),
    *_both("a part", 206, is_cacheable=False, PartNumber=1),
    *_both("another content type", 200, is_cacheable=False, ResponseContentType="text/html"),
    *_both("a payer", 200, is_cacheable=False, RequestPayer="requester"),
    *_both("an owner", 200, is_cacheable=False, ExpectedBucketOwner="123456789012"),
    Call("get: no such key", "NoSuchKey", key="absent", is_cacheable=False),
    Call("head: no such key", "404", "head_object", "absent", is_cacheable=False),
    Call("get: no such bucket", "NoSuchBucket", bucket="no-such-bucket", is_cacheable=False),
    Call("get: another bucket", 200, bucket="other", is_cacheable=False),
    Call("get: an empty key", "ParamValidationError", key="", is_cacheable=False),
    *_both("an unknown parameter", "ParamValidationError", is_cacheable=False, Colour="red"),
    *_both("a range that is a number", "ParamValidationError", is_cacheable=False, Range=7),
]


def fill(client: Any, bucket: str, region: str) -> None:
    """Create the two buckets and the objects that the calls read."""
    for name in (bucket, "other"):
        client.create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": region})
        for key, parameters in KEYS.items():
            client.put_object(Bucket=name, Key=key, **parameters)


def outcome(client: Any, call: Call, bucket: str, known: Mapping[str, Any], read: Read = _whole) -> dict[str, Any]:
    """Return everything a program sees of a call: the answer with the body it read, or the exception.

    Args:
        client: boto3's client of S3, or one that acts like it.
        call: The call to make.
        bucket: The cached bucket.
        known: `ETAG` and `LAST-MODIFIED` of the object.
        read: How the program reads the body.
    """
    parameters = {
        name: known.get(value, value) if isinstance(value, str) else value for name, value in call.parameters.items()
    }
    try:
        answer = getattr(client, call.operation)(Bucket=call.bucket or bucket, Key=call.key, **parameters)
    except Exception as error:
        with contextlib.suppress(AttributeError):
            _without_traces(error.response)  # type: ignore[attr-defined]
        return {"raised": type(error), "text": str(error), "response": getattr(error, "response", None)}
    _without_traces(answer)
    if (body := answer.pop("Body", None)) is not None:
        assert isinstance(body, StreamingBody)
        try:
            answer["read"] = read(body)
        except Exception as error:
            answer["read"] = type(error), str(error)
    return dict(answer)


class Requests(list[str]):
    """Operations that a client, wrapped or not, sends to S3 within a `with`."""

    def __init__(self, client: Any) -> None:
        super().__init__()
        self._events = client.meta.events

    def __enter__(self) -> Requests:
        self._events.register("before-send.s3", self._note)
        return self

    def __exit__(self, *_: object) -> None:
        self._events.unregister("before-send.s3", self._note)

    def _note(self, event_name: str, **_: object) -> None:
        self.append(event_name.rpartition(".")[2])


def _without_traces(answer: dict[str, Any]) -> None:
    """Remove the fields that differ between any two answers of S3."""
    metadata = answer["ResponseMetadata"]
    for name in ("RequestId", "HostId"):
        metadata.pop(name, None)
    for name in ("date", "x-amz-request-id", "x-amz-id-2", "x-amzn-requestid"):
        metadata["HTTPHeaders"].pop(name, None)
