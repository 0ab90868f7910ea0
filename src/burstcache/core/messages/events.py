"""The events on the bus, which readers, cache functions, Lambda and people send to the scheduler."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, NotRequired, TypedDict, final

from burstcache.core.messages.encoding import encode
from burstcache.core.messages.operations import Serve
from burstcache.core.policy import RecordedRequest

PROXY, LAMBDA = "burstcache.proxy", "lambda"  # sources
OBJECT_REQUESTED = "ObjectRequested"  # detail types
REQUESTS_SERVED = "RequestsServed"
KEY_START_REQUESTED = "KeyStartRequested"


@final
class ObjectRequested(TypedDict):
    """One GET that S3 served. `size_bytes` is 0 if S3 did not return it (a 304)."""

    key: str
    at_us: int
    request_id: str
    size_bytes: int
    etag: str


# Interval of a reader's reports under the thesis policy. For nodes with read-through entries, see `core.batching`.
REPORT_EVERY_S = 1

ServedBy = Literal["below", "lambda"]


class KeyServed(TypedDict):
    """GETs of one key, as `at_us:request_id`, oldest first. For size and ETag see `ObjectRequested`."""

    key: str
    requests: list[str]
    size_bytes: int
    etag: str
    served_by: NotRequired[ServedBy]  # if missing: S3, or a copy in S3 Express
    left_out: NotRequired[int]  # number of unlisted older requests, which count at the oldest listed time


@final
class RequestsServed(TypedDict):
    """A batch of GETs, reported by a reader or a cache function."""

    keys: list[KeyServed]


_MOST_READS_PER_KEY = 8  # newest requests that are listed, more than any of the configurator's policies counts
MOST_KEYS_PER_EVENT = 100  # per event, since the receiver times out after half a minute
_MOST_BYTES = 24_000  # per event, since one PutEvents call takes ten events and 256 KB


def requests_served(keys: Iterable[KeyServed]) -> Iterator[RequestsServed]:
    """Split the keys into events that are small enough for the bus and for one scheduler invocation."""
    event, size_bytes = RequestsServed(keys=[]), 0
    for served in keys:
        served_bytes = len(encode(served))
        if len(event["keys"]) == MOST_KEYS_PER_EVENT or (event["keys"] and size_bytes + served_bytes > _MOST_BYTES):
            yield event
            event, size_bytes = RequestsServed(keys=[]), 0
        event["keys"].append(served)
        size_bytes += served_bytes
    if event["keys"]:
        yield event


def gathered(events: Iterable[ObjectRequested | RequestsServed]) -> Iterator[RequestsServed]:
    """Merge reports by key and server, and pack them into the largest events that the bus accepts."""
    keys: dict[tuple[str, ServedBy], KeyServed] = {}
    for event in events:
        for served in event["keys"] if "keys" in event else [_served(event)]:
            merged = keys.setdefault((served["key"], served.get("served_by", "below")), served)
            if merged is not served:
                _add(merged, served)
    return requests_served(keys.values())


def _add(merged: KeyServed, served: KeyServed) -> None:
    requests = [*merged["requests"], *served["requests"]]
    if left_out := merged.get("left_out", 0) + max(len(requests) - _MOST_READS_PER_KEY, 0):
        merged["left_out"] = left_out
    merged["requests"] = requests[-_MOST_READS_PER_KEY:]
    merged["etag"] = served["etag"] or merged["etag"]
    merged["size_bytes"] = served["size_bytes"] or merged["size_bytes"]


def _served(event: ObjectRequested) -> KeyServed:
    return KeyServed(
        key=event["key"],
        requests=[RecordedRequest(event["at_us"], event["request_id"]).encode()],
        size_bytes=event["size_bytes"],
        etag=event["etag"],
    )


class KeyStartRequested(TypedDict):
    """A person's request to start a key's life."""

    key: str


class LambdaResponse(TypedDict):
    """The error of a failed invocation."""

    errorType: NotRequired[str]
    errorMessage: NotRequired[str]


class InvocationContext(TypedDict):
    """The reason why Lambda gave up on an invocation."""

    condition: NotRequired[str]  # RetriesExhausted, EventAgeExceeded


class CacheFunctionFailed(TypedDict):
    """Lambda's record of a failed invocation of the cache function, limited to the fields in use.

    Source:
        AWS Lambda Developer Guide, "Capturing records of Lambda asynchronous invocations".
    """

    requestContext: NotRequired[InvocationContext]
    requestPayload: Serve
    responsePayload: NotRequired[LambdaResponse | None]  # missing if the invocation never began
