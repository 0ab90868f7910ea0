"""The worlds' relay behaves as a NATS server does, seen through the adapters that the functions use."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, Protocol

import pytest

from burstcache.access import RelayAccess
from burstcache.adapters.clock import SystemClock
from burstcache.adapters.relay_listener import RelayListener
from burstcache.adapters.relay_requests import RelayRequests
from burstcache.adapters.secrets import Secrets
from burstcache.control.cache_tools import Relay
from burstcache.core.errors import RelayDownError, SilentHolderError
from support.memory_relay import MemoryRelay
from support.servers import freeze, serve_nats
from support.virtual_time import VirtualClock
from support.waiting import LIMIT_S, free_port, until

Respond = Callable[[bytes], Awaitable[None]]
Answer = Callable[[bytes, Respond, float], Awaitable[None]]


class Requests(Protocol):
    def send_request(self, subject: str, payload: bytes, *, timeout_s: float) -> bytes | None: ...

    def send_order(self, subject: str, payload: bytes, *, timeout_s: float) -> None: ...

    def close(self) -> None: ...


class Side:
    """One relay: listeners on an event loop of their own, and a caller."""

    def __init__(self, requests: Requests, new_listener: Callable[[], Relay], loop: asyncio.AbstractEventLoop) -> None:
        self.requests, self.new_listener, self._loop = requests, new_listener, loop

    def do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def ask(self, payload: bytes = b"", timeout_s: float = 60) -> bytes | None:
        return self.requests.send_request("get.h", payload, timeout_s=timeout_s)

    def listening(self, answer: Answer, *, queue: str = "h") -> tuple[Relay, Any]:
        listener = self.new_listener()

        async def listen() -> Any:
            await listener.open()
            subscription = await listener.listen("get.h", queue=queue, answer=answer)
            await listener.flush()
            return subscription

        return listener, self.do(listen())


class NatsServer:
    """A server that can be replaced by another one on its port."""

    def __init__(self, port: int) -> None:
        self.port, self.process = port, serve_nats(port)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def restart(self) -> None:
        self.kill()
        self.process = serve_nats(self.port)


class NatsSide(Side):
    """That of a real relay."""

    def __init__(
        self,
        requests: Requests,
        new_listener: Callable[[], Relay],
        loop: asyncio.AbstractEventLoop,
        server: NatsServer,
    ) -> None:
        super().__init__(requests, new_listener, loop)
        self.server = server


@contextmanager
def _nats() -> Iterator[NatsSide]:
    server, loop = NatsServer(free_port()), asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    access, secrets = RelayAccess(f"nats://127.0.0.1:{server.port}"), Secrets(None)  # type: ignore[arg-type]
    requests = RelayRequests(access, secrets, SystemClock())
    try:
        yield NatsSide(requests, lambda: RelayListener(access, secrets), loop, server)
    finally:
        requests.close()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
        server.kill()


@contextmanager
def _memory() -> Iterator[Side]:
    clock = VirtualClock()
    relay, loop = MemoryRelay(clock), clock.new_event_loop()
    running: Future[None] = clock.start(loop.run_forever)
    try:
        yield Side(relay, relay.listener, loop)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        clock.wait_for(running)
        loop.close()


@pytest.fixture(params=[_nats, _memory], ids=["nats", "memory"])
def side(request: pytest.FixtureRequest) -> Iterator[Side]:
    with request.param() as made:
        yield made


async def _echo(message: bytes, respond: Respond, _: float) -> None:
    await respond(message)


async def _stay_silent(message: bytes, respond: Respond, _: float) -> None:
    pass


def test_listener_answers(side: Side) -> None:
    listener, _ = side.listening(_echo)

    assert side.ask(b"message") == b"message"
    side.do(listener.close())


def test_subject_without_a_listener_is_known_at_once(side: Side) -> None:
    assert side.ask() is None


def test_old_and_new_cache_overlap_and_exactly_one_answers(side: Side) -> None:
    served: list[int] = []

    def serve_as(number: int) -> Answer:
        async def serve(message: bytes, respond: Respond, _: float) -> None:
            served.append(number)
            await respond(b"")

        return serve

    listeners = [side.listening(serve_as(number))[0] for number in range(2)]

    for _ in range(20):
        side.ask()

    assert len(served) == 20
    for listener in listeners:
        side.do(listener.close())


def test_listeners_without_a_queue_group_all_hear_and_one_answer_counts(side: Side) -> None:
    heard: list[int] = []
    all_heard = threading.Event()

    def hear_as(number: int) -> Answer:
        async def hear(message: bytes, respond: Respond, _: float) -> None:
            heard.append(number)
            if len(heard) == 40:
                all_heard.set()
            await respond(b"heard")

        return hear

    listeners = [side.listening(hear_as(number), queue="")[0] for number in range(2)]

    assert [side.ask() for _ in range(20)] == [b"heard"] * 20
    assert all_heard.wait(LIMIT_S)
    assert sorted(heard) == [0] * 20 + [1] * 20
    for listener in listeners:
        side.do(listener.close())


def test_listener_that_does_not_answer_is_an_error_of_its_own(side: Side) -> None:
    listener, _ = side.listening(_stay_silent)

    with pytest.raises(SilentHolderError):
        side.ask(timeout_s=0.05)
    side.do(listener.close())


def test_drained_listener_answers_what_is_on_its_way_and_nothing_after_it(side: Side) -> None:
    listener: Relay
    begun = threading.Event()

    async def answer_late(message: bytes, respond: Respond, _: float) -> None:
        begun.set()
        await asyncio.sleep(0.01)
        await respond(b"late")

    listener, subscription = side.listening(answer_late)
    answered: list[bytes | None] = []

    async def drain() -> None:
        while not begun.is_set():
            await asyncio.sleep(0.001)
        await listener.drain(subscription)

    drained = asyncio.run_coroutine_threadsafe(drain(), side._loop)
    answered.append(side.ask())
    drained.result()

    assert answered == [b"late"]
    assert side.ask() is None
    side.do(listener.close())


def test_an_order_is_carried_out_before_the_gets_that_come_after_it(side: Side) -> None:
    """Also where a listener was slow, and finds an order between the GETs that wait."""
    told, answers = threading.Event(), list[bytes | None]()
    version = [b"old"]

    async def give(message: bytes, respond: Respond, _: float) -> None:
        await respond(version[0])

    async def take_order(message: bytes, respond: Respond, _: float) -> None:
        version[0] = b"new"
        told.set()

    listener = side.new_listener()

    async def listen() -> None:
        await listener.open()
        orders = await listener.listen("control.h", queue="", answer=take_order)
        await listener.listen("get.h", queue="h", answer=give, after=orders)
        await listener.flush()

    side.do(listen())
    answers.append(side.ask())
    for number in range(20):
        version[0] = b"old"
        side.requests.send_order("control.h", b"%d" % number, timeout_s=LIMIT_S)
        answers.append(side.ask())

    assert answers == [b"old"] + [b"new"] * 20
    assert told.is_set()
    side.do(listener.close())


def test_an_order_that_nobody_listens_to_is_none_that_waits(side: Side) -> None:
    side.requests.send_order("control.h", b"", timeout_s=LIMIT_S)


class Restarts:
    """Record of the connection changes that a listener is notified of."""

    def __init__(self, listener: Relay) -> None:
        self.heard: list[bool] = []
        self.is_over = threading.Event()
        listener.on_connection_change(self._hear)

    def _hear(self, hears: bool) -> None:
        self.heard.append(hears)
        if hears:
            self.is_over.set()


@pytest.mark.slow
def test_a_listener_hears_that_it_may_have_missed_orders_and_when_it_misses_none_any_more() -> None:
    with _nats() as side:
        listener, _ = side.listening(_echo)
        restarts = Restarts(listener)

        side.server.restart()

        assert restarts.is_over.wait(LIMIT_S)
        assert restarts.heard == [False, True]
        assert side.ask(b"again") == b"again"
        side.do(listener.close())


def test_a_connection_that_is_being_made_anew_is_not_one_on_which_a_life_begins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Orders would not be heard until it is back, and reads be answered from what was loaded before."""
    monkeypatch.setattr("burstcache.adapters.relay_listener._CONNECT_TIMEOUT_S", 0.1)
    with _nats() as side:
        listener, _ = side.listening(_echo)
        restarts = Restarts(listener)
        side.server.kill()
        until(lambda: restarts.heard)

        with pytest.raises(RelayDownError):
            side.do(listener.open())


def test_a_subscription_that_ends_while_the_relay_restarts_is_not_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would answer next to that of the key's next life, and hear no orders."""
    monkeypatch.setattr("burstcache.adapters.relay_listener._DRAIN_S", 0.1)
    with _nats() as side:
        listener, subscription = side.listening(_echo)
        assert isinstance(listener, RelayListener)
        restarts = Restarts(listener)
        freeze(side.server.process.pid)

        side.do(listener.drain(subscription))
        side.server.restart()
        until(lambda: listener._client is None or restarts.is_over.is_set())

        assert side.ask() is None
        side.do(listener.close())


def test_a_connection_is_closed_however_long_the_machine_is_busy_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("burstcache.adapters.relay.CHECK_TIMEOUT_S", 0)
    with _nats() as side:
        side.ask()

    gc.collect()  # an open socket would be a warning, which is an error


def test_relay_that_is_down_is_an_error() -> None:
    relay = MemoryRelay(VirtualClock())
    relay.is_down = True

    with pytest.raises(RelayDownError):
        relay.send_request("get.h", b"", timeout_s=1)
