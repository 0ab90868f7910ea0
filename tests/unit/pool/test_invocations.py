"""Invocations that a hub has started: their number, billed time and end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from burstcache.core.errors import BurstcacheError, FunctionFailedError, ServiceError
from burstcache.core.messages.pool import HubAddress, MemberState, ServeChunks
from burstcache.pool.invocations import Invocations
from support.waiting import LIMIT_S

_HUB = HubAddress(id="h", host="127.0.0.1", port=1, token="", certificate="", wake=1)
_EVENT = ServeChunks(op="serve", hub=_HUB, peer=False)


class _Lambda:
    """Has each invocation run until a test ends it."""

    def __init__(self) -> None:
        self.ends: list[asyncio.Future[MemberState]] = []

    async def invoke(self, member: str, event: ServeChunks) -> MemberState:
        self.ends.append(asyncio.Future())
        return await self.ends[-1]


def _state(billed_ms: int) -> MemberState:
    return MemberState(environment="e", born_us=0, chunks=0, stored_bytes=0, served=0, billed_ms=billed_ms)


def _run(work: Callable[[_Lambda, Invocations], Awaitable[None]]) -> None:
    async def limited() -> None:
        lambda_ = _Lambda()
        async with asyncio.timeout(LIMIT_S):
            await work(lambda_, Invocations(lambda_.invoke))

    asyncio.run(limited())


async def _begun(lambda_: _Lambda, invocations: Invocations, member: str = "pool-0") -> asyncio.Task[MemberState]:
    count = len(lambda_.ends)
    invocation = invocations.begin(member, _EVENT)
    while len(lambda_.ends) == count:
        await asyncio.sleep(0)
    return invocation


def test_what_a_member_has_measured_is_what_it_is_billed_for() -> None:
    async def work(lambda_: _Lambda, invocations: Invocations) -> None:
        for billed_ms in (700, 30):
            invocation = await _begun(lambda_, invocations)
            lambda_.ends[-1].set_result(_state(billed_ms))
            await invocation

        assert (invocations.count, invocations.billed_ms) == (2, 730)

    _run(work)


def test_an_invocation_that_runs_is_counted_until_now_and_one_that_died_until_then() -> None:
    async def work(lambda_: _Lambda, invocations: Invocations) -> None:
        invocation = await _begun(lambda_, invocations)
        await asyncio.sleep(0.01)
        running_ms = invocations.billed_ms
        lambda_.ends[0].set_exception(FunctionFailedError("Runtime.ExitError"))
        with pytest.raises(FunctionFailedError):
            await invocation

        assert invocations.count == 1
        assert 10 <= running_ms <= invocations.billed_ms == invocations.billed_ms

    _run(work)


def test_what_lambda_refuses_is_not_billed() -> None:
    async def work(lambda_: _Lambda, invocations: Invocations) -> None:
        invocation = await _begun(lambda_, invocations)
        lambda_.ends[0].set_exception(ServiceError("throttled", code="TooManyRequestsException"))
        with pytest.raises(BurstcacheError):
            await invocation

        assert (invocations.count, invocations.billed_ms) == (0, 0)

    _run(work)


def test_a_member_has_returned_when_all_its_environments_have() -> None:
    async def work(lambda_: _Lambda, invocations: Invocations) -> None:
        for member in ("pool-0", "pool-0", "pool-1"):
            await _begun(lambda_, invocations, member)
        await invocations.wait_idle("pool-2")
        returned = asyncio.ensure_future(invocations.wait_idle("pool-0"))
        for end in lambda_.ends[:2]:
            await asyncio.sleep(0)
            assert not returned.done()
            end.set_result(_state(1))
        await returned

        assert not lambda_.ends[2].done()

    _run(work)


def test_an_answer_that_never_comes_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    for limit in ("_RETURNS_WITHIN_S", "_LAST_ANSWERS_S"):
        monkeypatch.setattr(f"burstcache.pool.invocations.{limit}", 0.01)

    async def work(lambda_: _Lambda, invocations: Invocations) -> None:
        invocation = await _begun(lambda_, invocations)
        await invocations.wait_idle("pool-0")
        await invocations.stop()
        with pytest.raises(asyncio.CancelledError):
            await invocation

        assert invocations.count == 1

    _run(work)
