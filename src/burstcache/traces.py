"""X-Ray traces of requests, recorded with Powertools' Tracer.

Nothing is imported or recorded unless the stack's parameter `Tracing` is `Active`. AWS calls become subsegments
automatically, and the Redis and relay adapters create their own. Lambda, EventBridge and Step Functions propagate the
trace context. Relay messages propagate it in a header.

Source:
    AWS X-Ray Developer Guide, "X-Ray segment documents" and "Tracing header".
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import wraps
from typing import Any, TypeVar

from burstcache.logs import logger

HEADER = "X-Amzn-Trace-Id"

_T = TypeVar("_T")
_Handler = Callable[[dict[str, Any], Any], _T]

_NOTHING: AbstractContextManager[Any] = nullcontext()
_SAMPLED = "Sampled=1"
_tracer: Any = None  # Powertools' Tracer. None: no tracing in this process
_recording: Any = None  # the tracer if X-Ray samples the current request (one in twenty under load)


def traces_requests(handler: _Handler[_T]) -> _Handler[_T]:
    """Trace a handler with X-Ray. Return the handler unchanged if the stack's tracing is off.

    The library is imported here, in Lambda's INIT phase, which has a full CPU.
    """
    if not _is_wanted():
        return handler
    global _tracer
    try:
        from aws_lambda_powertools import Tracer

        _tracer = Tracer(patch_modules=("botocore",))
    except Exception as error:  # a failing tracer must not fail requests
        logger().warning("tracing is on but does not start", reason=repr(error))
        return handler
    captured: _Handler[_T] = _tracer.capture_lambda_handler(handler, capture_response=False)

    @wraps(handler)
    def traced(event: dict[str, Any], context: Any) -> _T:
        global _recording
        _recording = _tracer if _SAMPLED in os.environ.get("_X_AMZN_TRACE_ID", "") else None
        if _recording is None:
            return handler(event, context)
        # A reused context would mistake this invocation for an earlier one with the same trace, such as a previous step
        # of the same execution.
        provider = _tracer.provider
        provider.context = type(provider.context)()
        return captured(event, context)

    return traced


def subsegment(name: str) -> AbstractContextManager[Any]:
    """Return a context that records its body as a remote call. An error marks the call as failed."""
    return _NOTHING if _recording is None else _recording.provider.in_subsegment(name, namespace="remote")


def with_trace_context(call: Callable[[], _T]) -> Callable[[], _T]:
    """Wrap a call for another thread, so that its subsegments belong to the current segment or subsegment."""
    if _recording is None:
        return call
    context = _recording.provider.context
    entity = context.get_trace_entity()

    def with_entity() -> _T:
        context.set_trace_entity(entity)
        return call()

    return with_entity


def annotate(**annotations: str | bool) -> None:
    """Annotate the request's trace, for searches."""
    if _recording is not None:
        for name, value in annotations.items():
            _recording.put_annotation(name, value)


def mark_failed() -> None:
    """Mark the request as failed, for handlers that return an error response instead of raising."""
    if _recording is not None and (current := _recording.provider.current_subsegment()) is not None:
        current.add_fault_flag()


def trace_header() -> str:
    """Return the trace header for propagation to another process. Empty if the request is not sampled."""
    if _recording is None:
        return ""
    entity = _recording.provider.get_trace_entity()
    return f"Root={entity.trace_id};Parent={entity.id};{_SAMPLED}" if entity.sampled else ""


@contextmanager
def continue_trace(caller: str, **annotations: str | bool) -> Iterator[None]:
    """Record the body of a `with` statement as a segment of the caller's trace, and send the segment at the end.

    Use it in functions that answer many callers' requests in one invocation, since the invocation has its own trace.

    Args:
        caller: The caller's `trace_header()`.
        annotations: As for `annotate`.
    """
    fields = {} if _tracer is None else dict(field.partition("=")[::2] for field in caller.split(";"))
    if fields.get("Sampled") != "1" or not {"Root", "Parent"} <= fields.keys():
        yield
        return
    document: dict[str, Any] = {
        "trace_id": fields["Root"],
        "parent_id": fields["Parent"],
        "id": os.urandom(8).hex(),
        "name": os.environ["AWS_LAMBDA_FUNCTION_NAME"],
        "start_time": time.time(),
        "annotations": annotations,
    }
    try:
        yield
    except BaseException:
        document["fault"] = True
        raise
    finally:
        document["end_time"] = time.time()
        _tracer.provider.emitter.send_entity(_Document(document))


class _Document:
    """A segment document for the X-Ray SDK's emitter. The SDK creates no segments inside Lambda."""

    def __init__(self, content: dict[str, Any]) -> None:
        self._content = content

    def serialize(self) -> str:
        return json.dumps(self._content, separators=(",", ":"))


def _is_wanted() -> bool:
    """Return True in a Lambda function of a stack with tracing, but not in SAM CLI, which has no X-Ray daemon."""
    environ = os.environ
    is_in_lambda = "LAMBDA_TASK_ROOT" in environ and "AWS_SAM_LOCAL" not in environ
    return is_in_lambda and environ.get("POWERTOOLS_TRACE_DISABLED") == "false"
