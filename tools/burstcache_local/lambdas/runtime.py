"""One execution environment: a process under AWS's own runtime client, served the Lambda runtime and extensions API.

Source:
    AWS Lambda Developer Guide, "Using the Lambda runtime API" and "Lambda Extensions API".
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import time
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import ceil
from pathlib import Path

from burstcache_local.functions import FunctionSpec, Outcome, failed
from burstcache_local.lambdas import wire
from burstcache_local.lambdas.forks import Forks

MAX_RESPONSE_BYTES = 6_291_556  # the figure in Lambda's own message about a response that is too large
_INIT_LIMIT_S = 60  # AWS gives 10 s; two cores may have to start fifty environments at once
_SHUTDOWN_GRACE_S = 0.5
_ACCEPTED = wire.Response(202, b'{"status":"OK"}')
_ABSENT = wire.Response(404, b'{"errorType":"NotFound","errorMessage":"no such path in the runtime API"}')


def _untraced() -> str:
    return f"Root=1-{int(time.time()):x}-{uuid.uuid4().hex[:24]};Sampled=0"


@dataclass(frozen=True, slots=True)
class Invocation:
    """The invocation that one `next` hands to the runtime."""

    request_id: str
    payload: bytes
    deadline_ms: int  # since the epoch
    tenant_id: str = ""
    client_context: str = ""  # JSON
    trace_id: str = field(default_factory=_untraced)

    def headers(self, function_arn: str) -> dict[str, str]:
        """Return the runtime API's headers of the invocation."""
        optional = {
            "Lambda-Runtime-Aws-Tenant-Id": self.tenant_id,
            "Lambda-Runtime-Client-Context": self.client_context,
        }
        return {
            "Lambda-Runtime-Aws-Request-Id": self.request_id,
            "Lambda-Runtime-Deadline-Ms": str(self.deadline_ms),
            "Lambda-Runtime-Invoked-Function-Arn": function_arn,
            "Lambda-Runtime-Trace-Id": self.trace_id,
        } | {name: value for name, value in optional.items() if value}


@dataclass(slots=True)
class _Extension:
    events: list[str]
    queue: asyncio.Queue[dict[str, object]] = field(default_factory=asyncio.Queue)


class Environment:
    """A process that runs one invocation at a time. All methods belong to one event loop."""

    def __init__(self, spec: FunctionSpec, forks: Forks, log: Path) -> None:
        self._spec, self._forks, self._log_path = spec, forks, log
        self._next: asyncio.Queue[Invocation] = asyncio.Queue()
        self._extensions: dict[str, _Extension] = {}
        self._waiting = 0  # how many of the runtime and the extensions have asked for their next event
        self._initialised, self._idle, self._gone = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._lost: Outcome | None = None  # the outcome of every further invocation
        self._current: Invocation | None = None
        self._answer: asyncio.Future[Outcome] | None = None

    async def start(self, clock_ahead_s: float = 0.0) -> None:
        """Start the process, with a clock that is ahead [s]. It initialises itself while the first invocation waits."""
        self._started_s = time.monotonic()
        self._log_file = self._log_path.open("ab", buffering=0)  # kept open: each invocation writes twice
        self._service = wire.Service(self._route)
        port = await self._service.start()
        spec = self._spec
        try:
            self._process = await self._forks.fork(
                spec.handler,
                env=spec.environment(f"127.0.0.1:{port}"),
                root=spec.root,
                log=self._log_path,
                clock_ahead_s=clock_ahead_s,
            )
        except BaseException:
            self._service.close()
            self._log_file.close()
            raise
        self._process.ended.add_done_callback(self._exited)

    async def invoke(
        self, request_id: str, payload: bytes, *, tenant_id: str = "", client_context: str = "", trace: str = ""
    ) -> Outcome:
        """Run one invocation, in a trace if one is given. An error, a time-out and an exit are outcomes."""
        init_ms = await self.ready()
        if self._lost:
            self._report(request_id, 0.0, init_ms, self._lost)
            return self._lost
        deadline_ms = int((time.time() + self._spec.timeout_s) * 1000)
        self._current = Invocation(request_id, payload, deadline_ms, tenant_id, client_context, trace or _untraced())
        self._answer = asyncio.get_running_loop().create_future()
        self._idle.clear()
        self._log(f"START RequestId: {request_id} Version: $LATEST")
        begun_s = time.monotonic()
        self._tell("INVOKE", {"deadlineMs": deadline_ms, "requestId": request_id})
        self._next.put_nowait(self._current)
        try:
            outcome = await asyncio.wait_for(asyncio.shield(self._answer), self._spec.timeout_s)
        except TimeoutError:
            outcome = self._time_out(request_id)
        self._report(request_id, (time.monotonic() - begun_s) * 1000, init_ms, outcome)
        return outcome

    @property
    def function(self) -> str:
        """The function's name."""
        return self._spec.name

    def kill(self) -> None:
        """End the process at once, in the middle of whatever it does."""
        self._process.kill()

    @property
    def is_lost(self) -> bool:
        """Whether no further invocation can succeed."""
        return self._lost is not None

    async def settle(self) -> bool:
        """Wait until extensions have done their work after the response; False if the environment is lost."""
        await self._idle.wait()
        return not self.is_lost

    async def close(self) -> None:
        """End the process; extensions are notified and get a moment."""
        if self._extensions and not self._gone.is_set():
            self._tell("SHUTDOWN", {"shutdownReason": "spindown"})
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._gone.wait(), _SHUTDOWN_GRACE_S)
        self._process.kill()
        await self._gone.wait()
        self._service.close()  # not earlier: the runtime client would log that it has lost its connection
        self._log_file.close()

    async def ready(self) -> float:
        """Wait until runtime and extensions are ready; return the time of the init phase [ms], 0 if it was over."""
        if self._initialised.is_set():
            return 0.0
        try:
            await asyncio.wait_for(self._initialised.wait(), _INIT_LIMIT_S)
        except TimeoutError:
            self._lost = failed("Sandbox.Timedout", f"the init phase took longer than {_INIT_LIMIT_S} s")
        return (time.monotonic() - self._started_s) * 1000

    def _time_out(self, request_id: str) -> Outcome:
        message = f"RequestId: {request_id} Error: Task timed out after {self._spec.timeout_s:.2f} seconds"
        self._lost = failed("Sandbox.Timedout", message)
        self._log(message)
        self._process.kill()
        return self._lost

    def _exited(self, ended: asyncio.Future[int]) -> None:
        """Record that the process has ended: by itself, by a time-out or because the environment is closed."""
        code = ended.result()
        how = f"signal: {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"
        request_id = self._current.request_id if self._current else "unknown"
        message = f"RequestId: {request_id} Error: Runtime exited with error: {how}"
        self._lost = self._lost or failed("Runtime.ExitError", message)
        self._complete(self._lost)
        for event in (self._initialised, self._idle, self._gone):
            event.set()

    def _complete(self, outcome: Outcome) -> None:
        if self._answer and not self._answer.done():
            self._answer.set_result(outcome)

    def _arrived(self) -> None:
        """End the init phase or invocation when the runtime and all extensions have asked for the next event."""
        self._waiting += 1
        if self._waiting == 1 + len(self._extensions):
            self._initialised.set()
            self._idle.set()

    def _tell(self, kind: str, details: dict[str, object]) -> None:
        event = {"eventType": kind, "invokedFunctionArn": self._spec.arn, **details}
        for extension in self._extensions.values():
            if kind in extension.events:
                extension.queue.put_nowait(event)

    async def _route(self, request: wire.Request) -> wire.Response:
        match request.path.split("/")[2:]:
            case ["runtime", "invocation", "next"]:
                return await self._serve_next()
            case ["runtime", "invocation", request_id, ("response" | "error") as kind]:
                return self._serve_answer(request_id, kind, request.body)
            case ["runtime", "init", "error"]:
                self._lost = Outcome(request.body, "Unhandled", reusable=False)
                self._initialised.set()
                return _ACCEPTED
            case ["extension", "register"]:
                return self._serve_register(json.loads(request.body))
            case ["extension", "event", "next"]:
                return await self._serve_extension(request.headers.get("lambda-extension-identifier", ""))
        return _ABSENT

    async def _serve_next(self) -> wire.Response:
        self._arrived()
        invocation = await self._next.get()
        self._waiting -= 1
        return wire.Response(200, invocation.payload, invocation.headers(self._spec.arn))

    def _serve_answer(self, request_id: str, kind: str, body: bytes) -> wire.Response:
        if self._current is None or request_id != self._current.request_id:
            return wire.Response(400, b'{"errorType":"InvalidRequestID","errorMessage":"Invalid request ID"}')
        if len(body) > MAX_RESPONSE_BYTES:
            message = f"Response payload size exceeded maximum allowed payload size ({MAX_RESPONSE_BYTES} bytes)."
            refusal = {"errorType": "Function.ResponseSizeTooLarge", "errorMessage": message}
            self._complete(Outcome(json.dumps(refusal).encode(), "Unhandled"))
            return wire.Response(413, json.dumps(refusal).encode())
        self._complete(Outcome(body, "Unhandled" if kind == "error" else ""))
        return _ACCEPTED

    def _serve_register(self, wanted: dict[str, list[str]]) -> wire.Response:
        identifier = str(uuid.uuid4())
        self._extensions[identifier] = _Extension(wanted["events"])
        about = {"functionName": self._spec.name, "functionVersion": "$LATEST", "handler": self._spec.handler}
        return wire.Response(200, json.dumps(about).encode(), {"Lambda-Extension-Identifier": identifier})

    async def _serve_extension(self, identifier: str) -> wire.Response:
        if identifier not in self._extensions:
            return wire.Response(403, b'{"errorType":"Extension.UnknownExtensionIdentifier"}')
        self._arrived()
        event = await self._extensions[identifier].queue.get()
        self._waiting -= 1
        return wire.Response(200, json.dumps(event).encode())

    def _report(self, request_id: str, duration_ms: float, init_ms: float, outcome: Outcome) -> None:
        figures = [
            f"REPORT RequestId: {request_id}",
            f"Duration: {duration_ms:.2f} ms",
            f"Billed Duration: {ceil(duration_ms + init_ms)} ms",
            f"Memory Size: {self._spec.memory_mb} MB",
            *([f"Init Duration: {init_ms:.2f} ms"] if init_ms else []),
            *(["Status: error"] if outcome.error else []),
            f"Time: {datetime.now(UTC).isoformat(timespec='milliseconds')}",  # CloudWatch has it next to each line
        ]
        self._log(f"END RequestId: {request_id}\n" + "\t".join(figures))

    def _log(self, text: str) -> None:
        if not self._log_file.closed:  # the end of its environment ended it: nobody is waiting
            self._log_file.write(f"{text}\n".encode())
