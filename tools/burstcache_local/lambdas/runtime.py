"""The runtime and extensions API of one execution environment, whose process runs AWS's own runtime client.

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

MAX_RESPONSE_BYTES = 6_291_556  # from Lambda's error message
_INIT_LIMIT_S = 60  # 10 s on AWS; here, two cores may start fifty environments concurrently
_SHUTDOWN_GRACE_S = 0.5
_ACCEPTED = wire.Response(202, b'{"status":"OK"}')
_ABSENT = wire.Response(404, b'{"errorType":"NotFound","errorMessage":"no such path in the runtime API"}')


def _untraced() -> str:
    return f"Root=1-{int(time.time()):x}-{uuid.uuid4().hex[:24]};Sampled=0"


@dataclass(frozen=True, slots=True)
class Invocation:
    """One invocation, as the runtime gets it from `next`."""

    request_id: str
    payload: bytes
    deadline_ms: int  # since the epoch
    tenant_id: str = ""
    client_context: str = ""  # JSON
    trace_id: str = field(default_factory=_untraced)

    def headers(self, function_arn: str) -> dict[str, str]:
        """Return the invocation's headers for the runtime API."""
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
    """A process that runs one invocation at a time. Not thread-safe: call all methods in one event loop."""

    def __init__(self, spec: FunctionSpec, forks: Forks, log: Path) -> None:
        self._spec, self._forks, self._log_path = spec, forks, log
        self._next: asyncio.Queue[Invocation] = asyncio.Queue()
        self._extensions: dict[str, _Extension] = {}
        self._waiting = 0  # number of pending `next` requests from runtime and extensions
        self._initialised, self._idle, self._ended = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._lost: Outcome | None = None  # outcome of all later invocations
        self._current: Invocation | None = None
        self._outcome: asyncio.Future[Outcome] | None = None

    async def start(self, clock_ahead_s: float = 0.0) -> None:
        """Start the process with a clock ahead by `clock_ahead_s`. Do not wait for the init phase."""
        self._started_s = time.monotonic()
        self._log_file = self._log_path.open("ab", buffering=0)  # stays open, because each invocation writes twice
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
        """Run one invocation. Errors, timeouts and process exits are outcomes, not exceptions."""
        init_ms = await self.ready()
        if self._lost:
            self._report(request_id, 0.0, init_ms, self._lost)
            return self._lost
        deadline_ms = int((time.time() + self._spec.timeout_s) * 1000)
        self._current = Invocation(request_id, payload, deadline_ms, tenant_id, client_context, trace or _untraced())
        self._outcome = asyncio.get_running_loop().create_future()
        self._idle.clear()
        self._log(f"START RequestId: {request_id} Version: $LATEST")
        begun_s = time.monotonic()
        self._notify("INVOKE", {"deadlineMs": deadline_ms, "requestId": request_id})
        self._next.put_nowait(self._current)
        try:
            outcome = await asyncio.wait_for(asyncio.shield(self._outcome), self._spec.timeout_s)
        except TimeoutError:
            outcome = self._time_out(request_id)
        self._report(request_id, (time.monotonic() - begun_s) * 1000, init_ms, outcome)
        return outcome

    @property
    def function(self) -> str:
        """Name of the function."""
        return self._spec.name

    def kill(self) -> None:
        """Kill the process immediately, even during an invocation."""
        self._process.kill()

    @property
    def is_lost(self) -> bool:
        """Whether all later invocations will fail."""
        return self._lost is not None

    async def settle(self) -> bool:
        """Wait until the extensions have finished the invocation. Return False if the environment is lost."""
        await self._idle.wait()
        return not self.is_lost

    async def close(self) -> None:
        """Notify the extensions, and kill the process after a grace period."""
        if self._extensions and not self._ended.is_set():
            self._notify("SHUTDOWN", {"shutdownReason": "spindown"})
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ended.wait(), _SHUTDOWN_GRACE_S)
        self._process.kill()
        await self._ended.wait()
        self._service.close()  # last, because the runtime client would log a lost connection
        self._log_file.close()

    async def ready(self) -> float:
        """Wait for the end of the init phase. Return its duration [ms], or 0 if it was already over."""
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
        """Record the end of the process, and fail the current invocation."""
        code = ended.result()
        reason = f"signal: {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"
        request_id = self._current.request_id if self._current else "unknown"
        message = f"RequestId: {request_id} Error: Runtime exited with error: {reason}"
        self._lost = self._lost or failed("Runtime.ExitError", message)
        self._complete(self._lost)
        for event in (self._initialised, self._idle, self._ended):
            event.set()

    def _complete(self, outcome: Outcome) -> None:
        if self._outcome and not self._outcome.done():
            self._outcome.set_result(outcome)

    def _note_ready(self) -> None:
        """End the init phase or invocation when the runtime and all extensions have requested the next event."""
        self._waiting += 1
        if self._waiting == 1 + len(self._extensions):
            self._initialised.set()
            self._idle.set()

    def _notify(self, kind: str, details: dict[str, object]) -> None:
        event = {"eventType": kind, "invokedFunctionArn": self._spec.arn, **details}
        for extension in self._extensions.values():
            if kind in extension.events:
                extension.queue.put_nowait(event)

    async def _route(self, request: wire.Request) -> wire.Response:
        match request.path.split("/")[2:]:
            case ["runtime", "invocation", "next"]:
                return await self._serve_next()
            case ["runtime", "invocation", request_id, ("response" | "error") as kind]:
                return self._serve_outcome(request_id, kind, request.body)
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
        self._note_ready()
        invocation = await self._next.get()
        self._waiting -= 1
        return wire.Response(200, invocation.payload, invocation.headers(self._spec.arn))

    def _serve_outcome(self, request_id: str, kind: str, body: bytes) -> wire.Response:
        if self._current is None or request_id != self._current.request_id:
            return wire.Response(400, b'{"errorType":"InvalidRequestID","errorMessage":"Invalid request ID"}')
        if len(body) > MAX_RESPONSE_BYTES:
            message = f"Response payload size exceeded maximum allowed payload size ({MAX_RESPONSE_BYTES} bytes)."
            refusal = {"errorType": "Function.ResponseSizeTooLarge", "errorMessage": message}
            self._complete(Outcome(json.dumps(refusal).encode(), "Unhandled"))
            return wire.Response(413, json.dumps(refusal).encode())
        self._complete(Outcome(body, "Unhandled" if kind == "error" else ""))
        return _ACCEPTED

    def _serve_register(self, registration: dict[str, list[str]]) -> wire.Response:
        identifier = str(uuid.uuid4())
        self._extensions[identifier] = _Extension(registration["events"])
        function = {"functionName": self._spec.name, "functionVersion": "$LATEST", "handler": self._spec.handler}
        return wire.Response(200, json.dumps(function).encode(), {"Lambda-Extension-Identifier": identifier})

    async def _serve_extension(self, identifier: str) -> wire.Response:
        if identifier not in self._extensions:
            return wire.Response(403, b'{"errorType":"Extension.UnknownExtensionIdentifier"}')
        self._note_ready()
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
            f"Time: {datetime.now(UTC).isoformat(timespec='milliseconds')}",  # CloudWatch stores a time with each line
        ]
        self._log(f"END RequestId: {request_id}\n" + "\t".join(figures))

    def _log(self, text: str) -> None:
        if not self._log_file.closed:  # closed with the environment
            self._log_file.write(f"{text}\n".encode())
