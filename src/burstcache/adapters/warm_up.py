"""Warm-up of AWS clients: the one-time work of a first call, without sending a request."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from io import BytesIO
from typing import Any

from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.compat import HTTPHeaders

_EMPTY = b"{}"  # an empty JSON response, or an object's body from S3
_EVENT = "before-send"  # its handlers may respond in place of the service


def warm_up(call: Callable[..., Any], **arguments: Any) -> bool:
    """Make a client's call with an empty canned response. Return True on success.

    On its first call a client loads modules, resolves its endpoint and compiles patterns. In Lambda's INIT phase that
    takes milliseconds. Later, with the function's share of a CPU, it takes several times as long. A failed warm-up,
    which a newer SDK may cause, is harmless.

    Args:
        call: A method of a boto3 client that is not yet used by another thread.
        arguments: The call's arguments.
    """
    events = call.__self__.meta.events  # type: ignore[attr-defined]
    events.register_first(_EVENT, _respond)
    try:
        response = call(**arguments)
        if "Body" in response:
            response["Body"].read()
        return True
    except Exception:
        return False
    finally:
        events.unregister(_EVENT, _respond)


class _Body(BytesIO):
    """A response body with the interface expected by botocore."""

    def stream(self) -> Iterator[bytes]:
        yield self.read()


def _respond(request: AWSPreparedRequest, **_: object) -> AWSResponse:
    return AWSResponse(request.url, 200, HTTPHeaders(), _Body(_EMPTY))
