"""AWS faults for injection into a running local cloud: API calls, events, clocks, nodes and volumes.

To kill processes, use `LocalCloud.kill` or a signal. Programs that sign as `OBSERVER` are exempt from faults.
"""

from __future__ import annotations

import errno
import itertools
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from burstcache_local.signed_requests import Refusal, refuse, request_of, signer_of

OBSERVER = "observer"  # access key
_WAITING_CALLS = 200  # additional threads for delayed calls


@dataclass(frozen=True, slots=True)
class CallFault:
    """A fault in calls to one service.

    Attributes:
        service: Service name in signatures, such as `dynamodb`.
        operations: Affected operations, such as `GetItem`. Empty affects all operations.
        delay_s: Delay before a call is handled [s]. The delay ends early if the fault ends.
        refusal: Error response, or None to pass the call to the service.
        is_cut: Whether the connection breaks in the middle of the response body.
        path: Suffix of the affected URL paths, such as `/key`. Empty affects all paths.
    """

    service: str
    operations: frozenset[str] = frozenset()
    delay_s: float = 0.0
    refusal: Refusal | None = None
    is_cut: bool = False
    path: str = ""
    is_over: threading.Event = field(default_factory=threading.Event)

    def affects(self, service: str, operation: str, path: str) -> bool:
        """Return whether the fault affects a call."""
        is_affected = not self.operations or operation in self.operations
        return service == self.service and is_affected and path.endswith(self.path)


class Faults:
    """One cloud's faults. Initially, no fault is active."""

    def __init__(self) -> None:
        self.counts: Counter[str] = (
            Counter()
        )  # injected faults of "calls", "events", "clocks", "nodes", "tasks" and "volumes"
        self._counting = threading.Lock()
        self._calls: tuple[CallFault, ...] = ()
        self._clocks_s: Iterator[float] | None = None
        self._deliveries: Callable[[], Sequence[float]] | None = None
        self.nodes_answer = threading.Event()  # booting instances start their servers only while this is set
        self.nodes_answer.set()
        self.has_full_volumes = False  # programs started by an instance cannot write to their logs
        self._refused_providers: tuple[str, ...] = ()  # capacity providers that start no task
        self._has_images = True
        self.boot_delay_s = 0.0  # additional boot time of tasks [s]
        self.more_threads: Callable[[int], AbstractContextManager[None]] = lambda count: nullcontext()  # the endpoint's

    @contextmanager
    def inject_call_fault(self, fault: CallFault) -> Iterator[None]:
        """Inject a fault into calls for the duration of a `with`."""
        with self.more_threads(_WAITING_CALLS if fault.delay_s else 0):
            self._calls += (fault,)
            try:
                yield
            finally:
                self._calls = tuple(each for each in self._calls if each is not fault)
                fault.is_over.set()

    @contextmanager
    def schedule_events(self, deliveries: Callable[[], Sequence[float]]) -> Iterator[None]:
        """Lose, delay or duplicate events for the duration of a `with`.

        Args:
            deliveries: Returns one delay per delivery of an event [s]. An empty sequence loses the event.
        """
        usual, self._deliveries = self._deliveries, deliveries
        try:
            yield
        finally:
            self._deliveries = usual

    @contextmanager
    def shift_clocks(self, ahead_s: Sequence[float]) -> Iterator[None]:
        """Set the clocks of new environments ahead by these offsets [s], round-robin, for the duration of a `with`."""
        usual, self._clocks_s = self._clocks_s, itertools.cycle(ahead_s)
        try:
            yield
        finally:
            self._clocks_s = usual

    @contextmanager
    def silence_nodes(self) -> Iterator[None]:
        """Prevent booting instances from starting their servers for the duration of a `with`."""
        self.nodes_answer.clear()
        try:
            yield
        finally:
            self.nodes_answer.set()

    @contextmanager
    def fill_volumes(self) -> Iterator[None]:
        """Simulate full instance volumes for programs started during a `with`."""
        self.has_full_volumes = True
        try:
            yield
        finally:
            self.has_full_volumes = False

    @contextmanager
    def refuse_tasks(self, *providers: str) -> Iterator[None]:
        """Leave these capacity providers, such as `FARGATE_SPOT`, without capacity for the duration of a `with`."""
        usual, self._refused_providers = self._refused_providers, providers
        try:
            yield
        finally:
            self._refused_providers = usual

    @contextmanager
    def remove_images(self) -> Iterator[None]:
        """Remove the container images of starting tasks for the duration of a `with`."""
        self._has_images = False
        try:
            yield
        finally:
            self._has_images = True

    @contextmanager
    def delay_tasks(self, delay_s: float) -> Iterator[None]:
        """Delay the start of tasks' containers [s] for the duration of a `with`."""
        usual, self.boot_delay_s = self.boot_delay_s, delay_s
        try:
            yield
        finally:
            self.boot_delay_s = usual

    def task_refusal(self, provider: str) -> str:
        """Return ECS's reason why a capacity provider starts no task now, or an empty text. Count the refusal."""
        if provider not in self._refused_providers:
            return ""
        self._count("tasks")
        return "Capacity is unavailable at this time. Please try again later or in a different availability zone"

    def lacks_image(self) -> bool:
        """Return whether a task finds no image now. If so, count the injected fault."""
        if self._has_images:
            return False
        self._count("tasks")
        return True

    def deliveries(self) -> Sequence[float]:
        """Return one delay per delivery of the next event [s]. An empty sequence loses the event."""
        if self._deliveries is None:
            return (0.0,)
        self._count("events")
        return self._deliveries()

    def clock_ahead_s(self) -> float:
        """Return the clock offset of the next environment [s]."""
        if self._clocks_s is None:
            return 0.0
        self._count("clocks")
        return next(self._clocks_s)

    def is_silent(self) -> bool:
        """Return whether an instance that boots now must not start its server. If so, count the injected fault."""
        if self.nodes_answer.is_set():
            return False
        self._count("nodes")
        return True

    def is_full(self) -> bool:
        """Return whether an instance that starts a server now has a full volume. If so, count the injected fault."""
        if self.has_full_volumes:
            self._count("volumes")
        return self.has_full_volumes

    def before(self, application: WSGIApplication) -> WSGIApplication:
        """Return a WSGI application that injects faults into calls to `application`."""

        def answer(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
            signer, service = signer_of(environ.get("HTTP_AUTHORIZATION", ""))
            if not self._calls or not service or signer == OBSERVER:
                return application(environ, start_response)
            operation = request_of(environ).operation
            is_cut = False
            for fault in self._calls:
                if fault.affects(service, operation, environ["PATH_INFO"]):
                    self._count("calls")
                    fault.is_over.wait(fault.delay_s)
                    is_cut |= fault.is_cut
                    if fault.refusal:
                        return refuse(service, fault.refusal, start_response)
            content = application(environ, start_response)
            return _first_half(content) if is_cut else content

        return answer

    def _count(self, kind: str) -> None:
        with self._counting:
            self.counts[kind] += 1


def _first_half(content: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the first half of a response body, then break the connection."""
    body = b"".join(content)
    yield body[: len(body) // 2]
    raise ConnectionResetError(errno.ECONNRESET, "cut by a fault")
