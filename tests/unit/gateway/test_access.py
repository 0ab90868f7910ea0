"""Access to a gateway by keys that it does not know yet, or never will."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping

import pytest

from burstcache.gateway import access
from burstcache.gateway.access import Access
from burstcache.gateway.credentials import KeyRing
from burstcache.gateway.http_messages import HttpRequest
from burstcache.gateway.s3_errors import S3Error
from burstcache.gateway.signatures import Secret
from support.clock import ManualClock
from support.gateway_process import Signer
from support.waiting import LIMIT_S

_KEYS = ("AKIDOFTHECLIENT", "secret-of-the-client")


class _SlowSource:
    """A source of secrets whose reads wait for a test."""

    def __init__(self) -> None:
        self.secrets: dict[str, Secret] = {}
        self.may_read = threading.Event()
        self.may_read.set()

    def is_stale(self) -> bool:
        return False

    def may_have_changed(self) -> bool:
        return True

    def read(self) -> Mapping[str, Secret]:
        assert self.may_read.wait(LIMIT_S)
        return dict(self.secrets)


def _request() -> HttpRequest:
    signed = Signer("http://127.0.0.1:9000", _KEYS).headers("GET", "/b/k")
    return HttpRequest(b"GET", b"/b/k", [(name.lower().encode(), value.encode()) for name, value in signed.items()])


@pytest.fixture
def source() -> _SlowSource:
    return _SlowSource()


@pytest.fixture
def clock() -> ManualClock:
    """The clock of the keys alone: signatures are of the machine's time."""
    return ManualClock()


@pytest.fixture
def rules(source: _SlowSource, clock: ManualClock) -> Access:
    return Access(KeyRing([source], clock), ())


def test_a_wrong_key_waits_for_a_read_and_for_no_pause(rules: Access, clock: ManualClock) -> None:
    request = _request()
    assert not rules.check(request)

    with pytest.raises(S3Error, match="InvalidAccessKeyId"):
        asyncio.run(rules.check_again(request))

    assert clock.now_s == 0
    assert not request.is_authorised


def test_a_key_that_was_added_meanwhile_is_admitted(rules: Access, source: _SlowSource) -> None:
    source.secrets = {_KEYS[0]: Secret(_KEYS[1])}
    request = _request()

    asyncio.run(rules.check_again(request))

    assert request.is_authorised


def test_keys_that_are_not_read_in_time_end_the_wait_with_an_error_that_sdks_repeat(
    rules: Access, source: _SlowSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "_KEYS_WITHIN_S", 0.01)
    source.may_read.clear()
    try:
        with pytest.raises(S3Error) as raised:
            asyncio.run(rules.check_again(_request()))
    finally:
        source.may_read.set()

    assert (raised.value.code, raised.value.status) == ("ServiceUnavailable", 503)


def test_a_request_that_is_cancelled_leaves_the_read_to_others(rules: Access, source: _SlowSource) -> None:
    source.secrets = {_KEYS[0]: Secret(_KEYS[1])}
    source.may_read.clear()
    first, second = _request(), _request()

    async def cancel_the_first() -> None:
        waiting = [asyncio.create_task(rules.check_again(each)) for each in (first, second)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        await asyncio.wait(waiting[:1])
        source.may_read.set()
        await waiting[1]

    asyncio.run(cancel_the_first())

    assert (first.is_authorised, second.is_authorised) == (False, True)
