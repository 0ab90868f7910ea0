"""Over the relay: what readers ask of cache functions, and the orders that control gives them."""

from __future__ import annotations

import json
from typing import Literal, NotRequired, TypedDict, final

from burstcache.core.policy import Request


@final
class Get(TypedDict):
    """The proxy asks the cache function that holds a key; the answer is an entry (`web.entry`) or `NOT_HERE`.

    `within_us` is how long the reader waits before it asks S3: a duration, since the clocks of two functions differ.
    """

    at_us: int
    request_id: str
    method: str
    within_us: NotRequired[int]  # of every reader but those of an earlier version
    fence_us: NotRequired[int]  # likewise: a copy that was loaded before this is not answered


@final
class ServedElsewhere(TypedDict):
    """GETs that a reader's memory served, as `at_us:request_id`; the answer is empty."""

    served: list[str]


NOT_HERE = b""  # the answer to a `Get` while the object is being loaded again, or too many wait for an answer


class Refresh(TypedDict):
    """The object was written: let the copy go, whichever life it is of, and load the object again; no answer."""

    op: Literal["refresh"]


class Stop(TypedDict):
    """End the life; the answer has the newest requests. Without `epoch`: whichever life it is."""

    op: Literal["stop"]
    epoch: NotRequired[int]


class Ended(TypedDict):
    """The newest requests that a cache function served."""

    window: list[str]


Order = Refresh | Stop


def get_subject(hash_: str) -> str:
    """Return the subject on which the cache function of a key answers GETs."""
    return f"get.{hash_}"


def control_subject(hash_: str) -> str:
    """Return the subject on which the cache function of a key takes orders."""
    return f"control.{hash_}"


def hash_of(subject: str) -> str:
    """Return the key's hash in a subject."""
    return subject.rpartition(".")[2]


def window_of(answer: bytes | None) -> list[Request]:
    """Return the requests in an answer to `Stop`; none if no cache function answered."""
    return [] if answer is None else [Request.decode(text) for text in json.loads(answer)["window"]]
