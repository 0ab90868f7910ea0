"""The messages over the relay: readers' GETs to cache functions, and Redis control's orders."""

from __future__ import annotations

import json
from typing import Literal, NotRequired, TypedDict, final

from burstcache.core.policy import RecordedRequest


@final
class Get(TypedDict):
    """A reader's GET to a key's cache function. The answer is an entry (`web.entry`) or `NOT_HERE`.

    After `within_us`, the reader falls back to S3. The limit is a duration, because the clocks of functions differ.
    """

    at_us: int
    request_id: str
    method: str
    within_us: NotRequired[int]  # missing in requests from earlier reader versions
    fence_us: NotRequired[int]  # likewise; copies loaded before this time are not served


@final
class ServedElsewhere(TypedDict):
    """GETs that a reader served from memory, as `at_us:request_id`. The answer is empty."""

    served: list[str]


NOT_HERE = b""  # the answer to a `Get` during a reload, or while too many requests are queued


class Refresh(TypedDict):
    """Drop the copy of a written object, regardless of the epoch, and reload the object. There is no answer."""

    op: Literal["refresh"]


class Stop(TypedDict):
    """End the life of this epoch, or any life if `epoch` is missing. The answer is `FunctionEnded`."""

    op: Literal["stop"]
    epoch: NotRequired[int]


class FunctionEnded(TypedDict):
    """The newest requests that a cache function served."""

    window: list[str]


Order = Refresh | Stop


def get_subject(hash_: str) -> str:
    """Return the subject on which a key's cache function answers GETs."""
    return f"get.{hash_}"


def control_subject(hash_: str) -> str:
    """Return the subject on which a key's cache function takes orders."""
    return f"control.{hash_}"


def hash_of(subject: str) -> str:
    """Return the key's hash in a subject."""
    return subject.rpartition(".")[2]


def window_of(answer: bytes | None) -> list[RecordedRequest]:
    """Return the requests in an answer to `Stop`, or an empty list if no cache function answered."""
    return [] if answer is None else [RecordedRequest.decode(text) for text in json.loads(answer)["window"]]
