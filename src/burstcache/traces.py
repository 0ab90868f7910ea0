"""Traces: what X-Ray shows of a request, by Powertools' Tracer.

Nothing of it is imported, and nothing done, unless the stack's parameter `Tracing` is `Active`. Calls of AWS services
become subsegments by themselves; Redis and the relay are parts that their adapters name. Lambda, EventBridge and Step
Functions carry a trace on, and so does the relay, in a header of its messages.

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
_tracer: Any = None  # Powertools' Tracer; None: this process is not traced
_recording: Any = None  # the same while X-Ray samples the request, which is one in twenty when they are many


def traces_requests(handler: _Handler[_T]) -> _Handler[_T]:
    """Have X-Ray see what a handler does; in a stack that is not traced the handler stays what it is.

    The library is imported here, in Lambda's INIT phase, where there is a full CPU for it.
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
        # A context that has seen this trace would take the invocation for an earlier one of the same trace, such as
        # the step of an execution that this environment ran before.
        provider = _tracer.provider
        provider.context = type(provider.context)()
        return captured(event, context)

    return traced


def part(name: str) -> AbstractContextManager[Any]:
    """Return what shows the work done within it as a call of something outside; an error marks it as failed."""
    return _NOTHING if _recording is None else _recording.provider.in_subsegment(name, namespace="remote")


def carried(call: Callable[[], _T]) -> Callable[[], _T]:
    """Return a call that another thread may make: what it does is shown where it would be in this one."""
    if _recording is None:
        return call
    context = _recording.provider.context
    entity = context.get_trace_entity()

    def with_entity() -> _T:
        context.set_trace_entity(entity)
        return call()

    return with_entity


def annotate(**annotations: str | bool) -> None:
    """Say something about the request by which its trace can be found."""
    if _recording is not None:
        for name, value in annotations.items():
            _recording.put_annotation(name, value)


def mark_failed() -> None:
    """Mark the request as failed where its handler answers instead of raising."""
    if _recording is not None and (current := _recording.provider.current_subsegment()) is not None:
        current.add_fault_flag()


def header() -> str:
    """Return the header under which others go on with the trace; empty if this request is in none."""
    if _recording is None:
        return ""
    entity = _recording.provider.get_trace_entity()
    return f"Root={entity.trace_id};Parent={entity.id};{_SAMPLED}" if entity.sampled else ""


@contextmanager
def answering(caller: str, **annotations: str | bool) -> Iterator[None]:
    """Show the work done within as a segment of the caller's trace, sent at its end.

    For a function that answers others' requests all the while that one invocation of it runs: the trace of the
    invocation is another one.

    Args:
        caller: What `header` gave the caller.
        annotations: As for `annotate`.
    """
    names = {} if _tracer is None else dict(field.partition("=")[::2] for field in caller.split(";"))
    if names.get("Sampled") != "1" or not {"Root", "Parent"} <= names.keys():
        yield
        return
    document: dict[str, Any] = {
        "trace_id": names["Root"],
        "parent_id": names["Parent"],
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
    """A segment as the X-Ray SDK's emitter takes it. The SDK makes none of its own inside Lambda."""

    def __init__(self, content: dict[str, Any]) -> None:
        self._content = content

    def serialize(self) -> str:
        return json.dumps(self._content, separators=(",", ":"))


def _is_wanted() -> bool:
    """Whether this process is a function of a stack that is traced, in Lambda: SAM CLI has no daemon."""
    environ = os.environ
    is_in_lambda = "LAMBDA_TASK_ROOT" in environ and "AWS_SAM_LOCAL" not in environ
    return is_in_lambda and environ.get("POWERTOOLS_TRACE_DISABLED") == "false"
