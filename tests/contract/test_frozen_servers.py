"""A relay or a Redis that takes no step any more, and a cache function that drowns: readers leave them for S3."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest
from nats.aio.client import Client

from burstcache.access import RedisAccess, RedisNode, RelayAccess
from burstcache.adapters import redis_connection
from burstcache.adapters.adaptive_timeout import AdaptiveTimeout
from burstcache.adapters.clock import SystemClock
from burstcache.adapters.redis_objects import RedisObjects
from burstcache.adapters.relay import ping
from burstcache.adapters.relay_listener import MOST_WAITING, Answer, RelayListener, RelaySubscription, Respond
from burstcache.adapters.relay_requests import RelayRequests
from burstcache.core.errors import RedisDownError, RelayDownError, SilentHolderError
from burstcache.core.messages.relay import NOT_HERE, get_subject
from burstcache.serve.cache_function_tier import LambdaTier
from burstcache.web.entry import Entry, encode
from burstcache.web.request import Request
from custom_resources.certificate import issue_certificate
from support.clock import SleptClock
from support.redis_in_process import NO_SECRETS
from support.servers import RedisServer, frozen, serve_nats
from support.waiting import LIMIT_S, free_port, until

ENTRY = Entry({"etag": '"1"', "content-length": "1"}, b"1")
REQUEST = Request("GET", "a", "0" * 32, {}, None, "request-1", 1)


def endless() -> AdaptiveTimeout:
    patience = AdaptiveTimeout(least_s=0.05, most_s=LIMIT_S)
    patience.record_s3_latency(LIMIT_S)
    return patience


def lose(patience: AdaptiveTimeout) -> None:
    for _ in range(200):
        patience.record_s3_latency(0.0)


def test_a_redis_that_freezes_under_a_connection_is_left_by_the_patience_of_the_moment() -> None:
    server, patience = RedisServer(free_port()), endless()
    server.start()
    node = RedisNode("node-1", "i-1", "127.0.0.1", server.port)
    objects = RedisObjects(node, NO_SECRETS, RedisAccess(), adaptive_timeout=patience)
    try:
        assert objects.read(REQUEST.hash, at_us=1) is None
        assert server.process is not None
        with frozen(server.process):
            lose(patience)

            for _ in range(2):  # on the connection that it had, and on a new one
                with pytest.raises(RedisDownError):
                    objects.read(REQUEST.hash, at_us=1)
    finally:
        server.kill()


def test_what_a_redis_answers_too_late_is_not_taken_for_the_answer_to_the_next_question() -> None:
    server, patience = RedisServer(free_port()), endless()
    server.start()
    node = RedisNode("node-1", "i-1", "127.0.0.1", server.port)
    objects = RedisObjects(node, NO_SECRETS, RedisAccess(), adaptive_timeout=patience)
    try:
        assert objects.hits() == []
        assert server.process is not None
        assert objects._client is not None
        before = objects._client.info("stats")["total_connections_received"]
        with frozen(server.process):
            lose(patience)
            with pytest.raises(RedisDownError):
                objects.memory_bytes()
        for _ in range(200):
            patience.record_s3_latency(LIMIT_S)

        assert objects.hits() == []
        assert objects._client.info("stats")["total_connections_received"] == before + 1
    finally:
        server.kill()


def test_a_redis_is_pinged_after_a_sleep_that_only_the_time_of_day_has_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    server, clock = RedisServer(free_port()), SleptClock()
    monkeypatch.setattr(redis_connection, "SystemClock", lambda: clock)
    server.start()
    objects = RedisObjects(
        RedisNode("node-1", "i-1", "127.0.0.1", server.port), NO_SECRETS, RedisAccess(), timeout_s=LIMIT_S
    )

    def pings() -> int:
        assert objects._client is not None
        return int(objects._client.info("commandstats").get("cmdstat_ping", {"calls": 0})["calls"])

    try:
        assert objects.hits() == []
        before = pings()
        clock.slept_s = 60
        assert objects.hits() == []
        assert objects.hits() == []

        assert pings() == before + 1
    finally:
        server.kill()


async def give(_: bytes, respond: Respond, __: float) -> None:
    await respond(encode(ENTRY))


@contextmanager
def cache_function(access: RelayAccess, answer: Answer = give) -> Iterator[RelaySubscription]:
    """Have something answer GETs."""
    loop, listener = asyncio.new_event_loop(), RelayListener(access, NO_SECRETS)
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    async def listen() -> RelaySubscription:
        await listener.open()
        listening = await listener.listen(get_subject(REQUEST.hash), queue="q", answer=answer, busy=NOT_HERE)
        await listener.flush()
        return listening

    try:
        yield asyncio.run_coroutine_threadsafe(listen(), loop).result(LIMIT_S)
    finally:
        asyncio.run_coroutine_threadsafe(listener.close(), loop).result(LIMIT_S)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def test_a_relay_that_freezes_under_a_connection_is_left_by_the_patience_of_the_moment() -> None:
    port, patience = free_port(), endless()
    server, access = serve_nats(port), RelayAccess(f"nats://127.0.0.1:{port}")
    tier = LambdaTier(RelayRequests(access, NO_SECRETS, SleptClock(), connect_timeout_s=LIMIT_S), patience)
    try:
        with cache_function(access):
            assert tier.fetch(REQUEST) == ENTRY
            with frozen(server):
                lose(patience)

                with pytest.raises(SilentHolderError):  # it may be the cache function
                    tier.fetch(REQUEST)
                with pytest.raises(RelayDownError):  # it takes a connection and says nothing
                    tier.fetch(REQUEST)
    finally:
        tier.close()
        server.kill()
        server.wait()


def test_a_relay_is_pinged_after_a_sleep_that_only_the_time_of_day_has_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    port, clock, pinged = free_port(), SleptClock(), []
    server = serve_nats(port)

    async def noted(client: Client, timeout_s: float) -> None:
        pinged.append(client)
        await ping(client, LIMIT_S)

    monkeypatch.setattr("burstcache.adapters.relay_requests.ping", noted)
    access = RelayAccess(f"nats://127.0.0.1:{port}")
    requests = RelayRequests(access, NO_SECRETS, clock, connect_timeout_s=LIMIT_S)
    try:
        for slept_s in (0, 1, 60, 61):
            clock.slept_s = slept_s
            assert requests.send_request("get.nobody", b"", timeout_s=LIMIT_S) is None

        assert len(pinged) == 1
    finally:
        requests.close()
        server.kill()
        server.wait()


def connections_to(port: int) -> list[str]:
    """Return the sockets of this process that are connected to a port of this machine."""
    own = set()
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # that of the listing itself
            own.add(str(descriptor.readlink()))
    rows = [line.split() for line in Path("/proc/self/net/tcp").read_text().splitlines()[1:]]
    peers = {f"socket:[{row[9]}]" for row in rows if row[2].endswith(f":{port:04X}")}
    return sorted(own & peers)


def test_nothing_is_left_of_a_connection_to_a_frozen_relay_that_ends_no_tls() -> None:
    port = free_port()
    issued, pem = issue_certificate("127.0.0.1", now=datetime.now(UTC))
    server = serve_nats(port, pem)
    access = RelayAccess(f"tls://127.0.0.1:{port}", ca_pem=issued.ca_pem)
    requests = RelayRequests(access, NO_SECRETS, SystemClock(), connect_timeout_s=LIMIT_S)
    try:
        requests.send_order("subject", b"", timeout_s=LIMIT_S)
        assert len(connections_to(port)) == 1
        with frozen(server):
            requests.close()

            assert connections_to(port) == []
    finally:
        server.kill()
        server.wait()


def test_asyncio_does_not_warn_of_a_relay_that_ends_under_tls(caplog: pytest.LogCaptureFixture) -> None:
    port = free_port()
    issued, pem = issue_certificate("127.0.0.1", now=datetime.now(UTC))
    server = serve_nats(port, pem)
    access = RelayAccess(f"tls://127.0.0.1:{port}", ca_pem=issued.ca_pem)
    requests = RelayRequests(access, NO_SECRETS, SystemClock(), connect_timeout_s=LIMIT_S)
    try:
        requests.send_order("subject", b"", timeout_s=LIMIT_S)
        server.terminate()
        server.wait()

        with pytest.raises(RelayDownError):
            requests.send_order("subject", b"", timeout_s=LIMIT_S)

        assert [record.message for record in caplog.records if record.name == "asyncio"] == []
    finally:
        requests.close()
        server.kill()
        server.wait()


def test_nobody_waits_for_a_frozen_relay_to_end_tls(monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_port()
    issued, pem = issue_certificate("127.0.0.1", now=datetime.now(UTC))
    server = serve_nats(port, pem)
    access = RelayAccess(f"tls://127.0.0.1:{port}", ca_pem=issued.ca_pem)
    requests = RelayRequests(access, NO_SECRETS, SystemClock(), connect_timeout_s=LIMIT_S)
    for limit in ("burstcache.adapters.relay.CHECK_TIMEOUT_S", "asyncio.constants.SSL_SHUTDOWN_TIMEOUT"):
        monkeypatch.setattr(limit, 2 * LIMIT_S)
    try:
        requests.send_order("subject", b"", timeout_s=LIMIT_S)
        leaving = threading.Thread(target=requests.close, daemon=True)
        with frozen(server):
            leaving.start()
            leaving.join(LIMIT_S)

            assert not leaving.is_alive()
    finally:
        server.kill()
        server.wait()


def test_a_request_waits_for_an_old_connection_and_a_new_one_together(monkeypatch: pytest.MonkeyPatch) -> None:
    port, clock, given_s = free_port(), SleptClock(), list[float]()
    server, within_s = serve_nats(port), 0.02

    async def hang(_: Client, timeout_s: float) -> None:
        await asyncio.sleep(timeout_s)
        raise TimeoutError

    async def note(*_: object, timeout_s: float) -> Client:
        given_s.append(timeout_s)
        raise RelayDownError

    requests = RelayRequests(RelayAccess(f"nats://127.0.0.1:{port}"), NO_SECRETS, clock, connect_timeout_s=LIMIT_S)
    try:
        assert requests.send_request("get.nobody", b"", timeout_s=LIMIT_S) is None
        clock.slept_s = 60
        monkeypatch.setattr("burstcache.adapters.relay_requests.ping", hang)
        monkeypatch.setattr("burstcache.adapters.relay_requests.connect", note)

        with pytest.raises(RelayDownError):
            requests.send_request("get.nobody", b"", timeout_s=within_s)

        assert 0 < given_s[0] < within_s * 0.6
    finally:
        requests.close()
        server.kill()
        server.wait()


@pytest.mark.slow
def test_of_a_queue_that_is_too_long_the_foremost_are_sent_to_s3_at_once() -> None:
    port, goes_on, more = free_port(), threading.Event(), 10
    server, access = serve_nats(port), RelayAccess(f"nats://127.0.0.1:{port}")
    requests = RelayRequests(access, NO_SECRETS, SystemClock(), connect_timeout_s=LIMIT_S)
    tier = LambdaTier(requests, AdaptiveTimeout(least_s=LIMIT_S, most_s=LIMIT_S))

    async def give_later(message: bytes, respond: Respond, waited_s: float) -> None:
        await asyncio.to_thread(goes_on.wait, LIMIT_S)
        await give(message, respond, waited_s)

    try:
        with cache_function(access, give_later) as listening, ThreadPoolExecutor(100) as threads:
            first = threads.submit(tier.fetch, REQUEST)
            until(lambda: requests._idle == [] and listening.subscription.delivered == 1)
            rest = [threads.submit(tier.fetch, REQUEST) for _ in range(MOST_WAITING + more)]
            until(lambda: listening.pending_msgs == MOST_WAITING + more)
            goes_on.set()

            assert first.result(LIMIT_S) == ENTRY
            assert [each.result(LIMIT_S) for each in rest].count(None) == more - 1
    finally:
        tier.close()
        server.kill()
        server.wait()


def test_a_cache_function_knows_how_long_a_get_has_waited_for_those_before_it() -> None:
    port, goes_on, waited_s = free_port(), threading.Event(), list[float]()
    server, access = serve_nats(port), RelayAccess(f"nats://127.0.0.1:{port}")
    requests = RelayRequests(access, NO_SECRETS, SystemClock(), connect_timeout_s=LIMIT_S)
    tier = LambdaTier(requests, AdaptiveTimeout(least_s=LIMIT_S, most_s=LIMIT_S))

    async def give_later(message: bytes, respond: Respond, has_waited_s: float) -> None:
        waited_s.append(has_waited_s)
        await asyncio.to_thread(goes_on.wait, LIMIT_S)
        await give(message, respond, has_waited_s)

    try:
        with cache_function(access, give_later) as listening, ThreadPoolExecutor(2) as threads:
            first = threads.submit(tier.fetch, REQUEST)
            until(lambda: len(waited_s) == 1)
            second = threads.submit(tier.fetch, REQUEST)
            until(lambda: listening.pending_msgs == 1 and listening.waiting.qsize() == 1)
            waits_since_s = time.monotonic()
            time.sleep(0.01)  # time itself is what is measured here: no event stands for it
            waited_at_least_s = time.monotonic() - waits_since_s
            goes_on.set()

            assert [each.result(LIMIT_S) for each in (first, second)] == [ENTRY, ENTRY]
            assert waited_s[1] >= waited_at_least_s
    finally:
        tier.close()
        server.kill()
        server.wait()


def test_a_message_that_cannot_be_answered_does_not_stop_those_behind_it() -> None:
    port, heard = free_port(), list[bytes]()
    server, access = serve_nats(port), RelayAccess(f"nats://127.0.0.1:{port}")
    requests = RelayRequests(access, NO_SECRETS, SystemClock(), connect_timeout_s=LIMIT_S)

    async def fail_first(message: bytes, respond: Respond, _: float) -> None:
        heard.append(message)
        if len(heard) == 1:
            raise ValueError("no JSON")
        await respond(message)

    try:
        with cache_function(access, fail_first):
            requests.send_order(get_subject(REQUEST.hash), b"first", timeout_s=LIMIT_S)

            assert requests.send_request(get_subject(REQUEST.hash), b"second", timeout_s=LIMIT_S) == b"second"
    finally:
        requests.close()
        server.kill()
        server.wait()
