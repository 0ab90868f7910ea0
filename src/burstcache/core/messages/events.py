"""Events on the bus: what readers, cache functions and Lambda report to the scheduler, and what a person asks of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, NotRequired, TypedDict, final

from burstcache.core.messages.encoding import encode
from burstcache.core.messages.operations import Serve
from burstcache.core.policy import Request

PROXY, LAMBDA = "burstcache.proxy", "lambda"  # sources
OBJECT_REQUESTED = "ObjectRequested"  # detail types
REQUESTS_SERVED = "RequestsServed"
KEY_START_REQUESTED = "KeyStartRequested"


@final
class ObjectRequested(TypedDict):
    """One GET that S3 served. `size_bytes` is 0 where S3 did not give it (a 304)."""

    key: str
    at_us: int
    request_id: str
    size_bytes: int
    etag: str


# How long a reader gathers what it reports, where keys have lives of their own; where nodes take guests,
# `core.gathering` says it.
REPORT_EVERY_S = 1

ServedBy = Literal["below", "lambda"]


class KeyServed(TypedDict):
    """GETs of one key, as `at_us:request_id`, oldest first; size and ETag as for `ObjectRequested`."""

    key: str
    requests: list[str]
    size_bytes: int
    etag: str
    served_by: NotRequired[ServedBy]  # if it is missing: S3, or a copy in Express
    left_out: NotRequired[int]  # how many older ones of the same moment are not in the list


@final
class RequestsServed(TypedDict):
    """GETs of keys that a reader, or a cache function, reports in batches."""

    keys: list[KeyServed]


_MOST_READS_PER_KEY = 8  # the newest: more than a policy of the configurator looks back on
_MOST_KEYS = 100  # of one event: its receiver has half a minute for them
_MOST_BYTES = 24_000  # of one event: ten of them go into one PutEvents, which takes 256 KB


def requests_served(keys: Iterable[KeyServed]) -> Iterator[RequestsServed]:
    """Return events of a size that the bus takes and one run of the scheduler can handle."""
    event, size_bytes = RequestsServed(keys=[]), 0
    for served in keys:
        served_bytes = len(encode(served))
        if len(event["keys"]) == _MOST_KEYS or (event["keys"] and size_bytes + served_bytes > _MOST_BYTES):
            yield event
            event, size_bytes = RequestsServed(keys=[]), 0
        event["keys"].append(served)
        size_bytes += served_bytes
    if event["keys"]:
        yield event


def gathered(events: Iterable[ObjectRequested | RequestsServed]) -> Iterator[RequestsServed]:
    """Return as few events as the bus takes for all that were reported, by key and by what served it."""
    keys: dict[tuple[str, ServedBy], KeyServed] = {}
    for event in events:
        for served in event["keys"] if "keys" in event else [_served(event)]:
            known = keys.setdefault((served["key"], served.get("served_by", "below")), served)
            if known is not served:
                _add(known, served)
    return requests_served(keys.values())


def _add(known: KeyServed, served: KeyServed) -> None:
    requests = [*known["requests"], *served["requests"]]
    if left_out := known.get("left_out", 0) + max(len(requests) - _MOST_READS_PER_KEY, 0):
        known["left_out"] = left_out
    known["requests"] = requests[-_MOST_READS_PER_KEY:]
    known["etag"] = served["etag"] or known["etag"]
    known["size_bytes"] = served["size_bytes"] or known["size_bytes"]


def _served(event: ObjectRequested) -> KeyServed:
    return KeyServed(
        key=event["key"],
        requests=[Request(event["at_us"], event["request_id"]).encode()],
        size_bytes=event["size_bytes"],
        etag=event["etag"],
    )


class KeyStartRequested(TypedDict):
    """A person starts a key's life."""

    key: str


class LambdaResponse(TypedDict):
    """What an invocation that failed has ended with."""

    errorType: NotRequired[str]
    errorMessage: NotRequired[str]


class InvocationContext(TypedDict):
    """Why Lambda gave an invocation up."""

    condition: NotRequired[str]  # RetriesExhausted, EventAgeExceeded


class CacheFunctionFailed(TypedDict):
    """Lambda's record of an invocation of the cache function that failed, as far as it is read.

    Source:
        AWS Lambda Developer Guide, "Capturing records of Lambda asynchronous invocations".
    """

    requestContext: NotRequired[InvocationContext]
    requestPayload: Serve
    responsePayload: NotRequired[LambdaResponse | None]  # missing if the invocation has never begun
