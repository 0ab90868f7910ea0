"""Rehearsals of AWS calls: what a client does at its first call only is done without a request."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from io import BytesIO
from typing import Any

from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.compat import HTTPHeaders

_EMPTY = b"{}"  # for services that answer in JSON; of S3 it is an object
_EVENT = "before-send"  # whose handlers may answer a request in the service's place


def rehearse(call: Callable[..., Any], **arguments: Any) -> bool:
    """Make a client's call up to its sending and take an empty answer for it; return whether that went well.

    A client loads modules, resolves its endpoint and compiles patterns at its first call. In Lambda's INIT phase that
    takes milliseconds, and with a function's share of a CPU several times as long. A rehearsal that fails, as it may
    with the SDK of another day, changes nothing.

    Args:
        call: A method of a boto3 client that no other thread uses yet.
        arguments: As for the call itself.
    """
    events = call.__self__.meta.events  # type: ignore[attr-defined]
    events.register_first(_EVENT, _answer)
    try:
        answer = call(**arguments)
        if "Body" in answer:
            answer["Body"].read()
        return True
    except Exception:
        return False
    finally:
        events.unregister(_EVENT, _answer)


class _Body(BytesIO):
    """A body as botocore takes it."""

    def stream(self) -> Iterator[bytes]:
        yield self.read()


def _answer(request: AWSPreparedRequest, **_: object) -> AWSResponse:
    return AWSResponse(request.url, 200, HTTPHeaders(), _Body(_EMPTY))
