"""What can go wrong with AWS in a local cloud, switched on and off while it runs: calls, events and clocks.

Processes die by `LocalCloud.kill` or by a signal. No fault befalls a program that signs as `OBSERVER`.
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

OBSERVER = "observer"  # an access key
_WAITING_CALLS = 200  # how many slow calls leave the endpoint's own threads to all others


@dataclass(frozen=True, slots=True)
class CallFault:
    """What befalls calls of one service.

    Attributes:
        service: As signatures name it, such as `dynamodb`.
        operations: Which calls, such as `GetItem`; empty: all.
        delay_s: How long a call waits before it is looked at [s]; it goes on when the fault is over.
        refusal: What it is answered; None: the service answers.
        is_cut: Whether the connection ends in the middle of the answer's body.
        path: How the paths of the calls' addresses end, such as `/key`; empty: whatever they are.
    """

    service: str
    operations: frozenset[str] = frozenset()
    delay_s: float = 0.0
    refusal: Refusal | None = None
    is_cut: bool = False
    path: str = ""
    is_over: threading.Event = field(default_factory=threading.Event)

    def befalls(self, service: str, operation: str, path: str) -> bool:
        """Whether it befalls a call."""
        is_meant = not self.operations or operation in self.operations
        return service == self.service and is_meant and path.endswith(self.path)


class Faults:
    """The faults of one cloud; none at first."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()  # what has been befallen: "calls", "events", "clocks", "nodes", "volumes"
        self._counting = threading.Lock()
        self._calls: tuple[CallFault, ...] = ()
        self._clocks_s: Iterator[float] | None = None
        self._deliveries: Callable[[], Sequence[float]] | None = None
        self.nodes_answer = threading.Event()  # cleared: an instance that boots starts no server
        self.nodes_answer.set()
        self.has_full_volumes = False  # what an instance starts then cannot write a line of its log
        self.more_threads: Callable[[int], AbstractContextManager[None]] = lambda count: nullcontext()  # the endpoint's

    @contextmanager
    def of_calls(self, fault: CallFault) -> Iterator[None]:
        """Let a fault befall calls for the duration of a `with`."""
        with self.more_threads(_WAITING_CALLS if fault.delay_s else 0):
            self._calls += (fault,)
            try:
                yield
            finally:
                self._calls = tuple(each for each in self._calls if each is not fault)
                fault.is_over.set()

    @contextmanager
    def of_events(self, deliveries: Callable[[], Sequence[float]]) -> Iterator[None]:
        """Deliver events as `deliveries` says, for the duration of a `with`: lost, late or several times."""
        usual, self._deliveries = self._deliveries, deliveries
        try:
            yield
        finally:
            self._deliveries = usual

    @contextmanager
    def of_clocks(self, ahead_s: Sequence[float]) -> Iterator[None]:
        """Let the clocks of environments that start be ahead by these times in turn, for the duration of a `with`."""
        usual, self._clocks_s = self._clocks_s, itertools.cycle(ahead_s)
        try:
            yield
        finally:
            self._clocks_s = usual

    @contextmanager
    def of_nodes(self) -> Iterator[None]:
        """Let no instance that boots start its server before the end of a `with`."""
        self.nodes_answer.clear()
        try:
            yield
        finally:
            self.nodes_answer.set()

    @contextmanager
    def of_volumes(self) -> Iterator[None]:
        """Let the volumes of instances be full for what they start during a `with`."""
        self.has_full_volumes = True
        try:
            yield
        finally:
            self.has_full_volumes = False

    def deliveries(self) -> Sequence[float]:
        """Return after how many seconds an event reaches its function, once for each time that it does."""
        if self._deliveries is None:
            return (0.0,)
        self._count("events")
        return self._deliveries()

    def clock_ahead_s(self) -> float:
        """Return by how much the clock of the next environment is ahead [s]."""
        if self._clocks_s is None:
            return 0.0
        self._count("clocks")
        return next(self._clocks_s)

    def is_silent(self) -> bool:
        """Whether an instance that boots now starts no server."""
        if self.nodes_answer.is_set():
            return False
        self._count("nodes")
        return True

    def is_full(self) -> bool:
        """Whether the volume of an instance that starts a server now is full."""
        if self.has_full_volumes:
            self._count("volumes")
        return self.has_full_volumes

    def before(self, application: WSGIApplication) -> WSGIApplication:
        """Return an application whose calls faults befall."""

        def answer(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
            signer, service = signer_of(environ.get("HTTP_AUTHORIZATION", ""))
            if not self._calls or not service or signer == OBSERVER:
                return application(environ, start_response)
            operation = request_of(environ).operation
            is_cut = False
            for fault in self._calls:
                if fault.befalls(service, operation, environ["PATH_INFO"]):
                    self._count("calls")
                    fault.is_over.wait(fault.delay_s)
                    is_cut |= fault.is_cut
                    if fault.refusal:
                        return refuse(service, fault.refusal, start_response)
            content = application(environ, start_response)
            return _first_half(content) if is_cut else content

        return answer

    def _count(self, what: str) -> None:
        with self._counting:
            self.counts[what] += 1


def _first_half(content: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the first half of an answer's body, then end the connection."""
    body = b"".join(content)
    yield body[: len(body) // 2]
    raise ConnectionResetError(errno.ECONNRESET, "cut by a fault")
