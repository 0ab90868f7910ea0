"""One life of the cache function: it holds an object, serves it over the relay, and decides when it is over.

Nothing else sees the key's requests while it serves, so it runs the policy itself: it completes the task of its state
as `idle` or `promoted`. One event loop; calls to AWS go to threads.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from burstcache.adapters.calls import passing_failures_named
from burstcache.control.cache_requests import LifeRequests
from burstcache.control.cache_title import Title
from burstcache.control.cache_tools import CacheTask, CacheTools, End, Relay, Respond
from burstcache.control.held_copy import HeldCopy
from burstcache.core.cache_lives import CacheLife, new_life
from burstcache.core.errors import BurstcacheError, ObjectNotFoundError, ObjectTooLargeError, ServiceError
from burstcache.core.messages.answers import CACHE_FUNCTION, LambdaOver
from burstcache.core.messages.encoding import encode, iso
from burstcache.core.messages.relay import NOT_HERE, Ended, Get, Order, ServedElsewhere, control_subject, get_subject
from burstcache.core.parameters import US_PER_S
from burstcache.core.policy import Request
from burstcache.core.rows import NodeRow
from burstcache.logs import logger
from burstcache.web import entry as wire
from burstcache.web.entry import Entry

_REPORT_S = 5  # each is an event and a run of the scheduler


@dataclass(slots=True)
class KeyCache:
    """Serves one key until it is idle, is stopped by a message, or no longer owns the key."""

    task: CacheTask
    tools: CacheTools
    load: Callable[[Entry | None], Entry]  # returns the object as S3 has it, given the one that is known
    began_us: int  # when the invocation began
    end_by_us: int  # a little before its end
    copy: HeldCopy = field(init=False)
    life: CacheLife = field(init=False)
    requests: LifeRequests = field(init=False)
    title: Title = field(init=False)
    node: str = ""  # the key's Redis node, from the row
    _end: End = "idle"
    _over: asyncio.Event = field(default_factory=asyncio.Event)
    _sooner: asyncio.Event = field(default_factory=asyncio.Event)  # over, or the deadline has come closer
    _is_promoting: bool = False
    _not_promoted_before_us: int = 0  # the node cools down after a failed boot
    _work: set[asyncio.Task[None]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.copy = HeldCopy(self.tools.clock)
        self.life = new_life(self.tools.policy)
        self.requests = LifeRequests(self.life)
        self.title = Title(self.task, self.tools, self.life, self.requests, self._finish)

    async def serve(self, relay: Relay) -> End:
        """Hear orders, load, subscribe, announce, serve until the end, drain; return how it ended."""
        hash_ = self.task.hash  # its queue group, too: of an old and a new cache exactly one answers
        relay.follow_connection(self.copy.follow_connection)
        orders = await relay.listen(control_subject(hash_), queue="", answer=self._on_control)  # both have a copy
        subscriptions = [orders]
        try:
            await relay.flush()
            await self.copy.load(self._fetch)
            gets = await relay.listen(get_subject(hash_), queue=hash_, answer=self._on_get, after=orders, busy=NOT_HERE)
            subscriptions.insert(0, gets)
            await relay.flush()
            if not await self._announce():
                return "superseded"
            self._spawn(self.title.keep())
            self._spawn(self.title.hand_over(self.end_by_us, self._outlives_the_invocation))
            self._spawn(self._follow_writes())
            if self.life.is_reported:
                self._spawn(self._report_now_and_then())
            await self._until_over()
            try:
                await asyncio.to_thread(self.title.give_up)
            except ServiceError:
                logger().warning("the route stays in the row until the next step takes it off", exc_info=True)
            await self._report()
        finally:
            for subscription in subscriptions:  # orders are heard for as long as GETs are answered
                await relay.drain(subscription)
            for work in self._work:
                work.cancel()
        return self._end

    def over(self, outcome: Literal["idle", "promoted", "gone"]) -> LambdaOver:
        """Return how the life has ended, as its execution shows it."""
        ran_us = self.tools.clock.now_us() - self.began_us
        first_us, last_us = self.requests.first_us, self.requests.last_us
        return LambdaOver(
            outcome=outcome,
            served=self.requests.served,
            first_request=iso(first_us) if first_us else "",
            last_request=iso(last_us) if last_us else "",
            estimated_usd=round(float(self.tools.meter.prices.cache_usd(ran_us)), 9),
            estimate_covers=CACHE_FUNCTION,
        )

    async def _announce(self) -> bool:
        """Begin the life with what the row has of it; False if the key is held otherwise."""
        row = await self.title.claim()
        if row is None:
            return False
        self.node = row.node
        self.requests.take_over(row, is_first=not self.task.attempt)
        if self.task.attempt:
            self.began_us = min(self.began_us, row.changed_at_us)
        self.life.begin(row, self.tools.clock.now_us())
        if not self.task.token:
            self.life.promote()
        self.requests.count_early()
        self._may_ask_for_redis()
        if self.life.is_reported and (await self._node()).phase_at(self.tools.clock.now_us()) == "running":
            self._finish("idle")  # the node takes the key as a guest
        return True

    async def _until_over(self) -> None:
        while not self._over.is_set():
            self._sooner.clear()
            left_s = (min(self.life.deadline_us, self.end_by_us) - self.tools.clock.now_us()) / US_PER_S
            if left_s <= 0:
                if self.tools.clock.now_us() < self.end_by_us and await self._bridges():
                    continue
                return
            try:
                await asyncio.wait_for(self._sooner.wait(), left_s)
            except TimeoutError:
                continue  # GETs may have put the deadline off meanwhile

    def _outlives_the_invocation(self) -> bool:
        """Whether the next invocation has to go on with the life."""
        asks_for_redis = self.life.is_promoted or self._is_promoting
        return self.life.deadline_us > self.end_by_us and not asks_for_redis and not self._over.is_set()

    async def _bridges(self) -> bool:
        """Whether the life goes on because its node boots."""
        if not self.life.is_reported:
            return False
        try:
            return self.life.bridges(await self._node(), self.tools.clock.now_us())
        except ServiceError:
            logger().warning("the node's row cannot be read, the life ends", exc_info=True)
            return False

    async def _node(self) -> NodeRow:
        return await asyncio.to_thread(self.tools.nodes.read, self.node)

    async def _on_get(self, message: bytes, respond: Respond, waited_s: float) -> None:
        request: Get | ServedElsewhere = json.loads(message)
        if "served" in request:
            await respond(b"")
            return self._count([Request.decode(text) for text in request["served"]])
        self.copy.see_fence(request.get("fence_us", 0))
        left_s = request.get("within_us", 0) / US_PER_S - waited_s
        if "within_us" in request and left_s <= 0:
            return  # its reader is with S3 by now
        # In half of its time, so that the reader gets the answer in the other half.
        entry = await self.copy.get(within_s=left_s / 2)
        if entry is None:
            return await respond(NOT_HERE)
        if request["method"] == "HEAD":  # costs no body, so it does not count as use
            return await respond(wire.encode(entry.without_body()))
        await respond(wire.encode(entry))
        self._count([Request(request["at_us"], request["request_id"])])

    def _count(self, requests: Iterable[Request]) -> None:
        former_deadline_us = self.life.deadline_us
        if self.requests.count(requests):
            if self.life.deadline_us < former_deadline_us:
                self._sooner.set()
            self._may_ask_for_redis()

    def _may_ask_for_redis(self) -> None:
        is_barred = self.title.is_handed_over or self.tools.clock.now_us() < self._not_promoted_before_us
        if self.life.wants_promotion() and not self._is_promoting and not is_barred:
            self._is_promoting = True
            self._spawn(self._promote())

    async def _on_control(self, message: bytes, respond: Respond, _: float) -> None:
        order: Order = json.loads(message)
        if order.get("epoch", self.task.epoch) != self.task.epoch:
            return
        if order["op"] == "refresh":
            self.copy.drop()
        elif order["op"] == "stop":
            await respond(encode(Ended(window=[request.encode() for request in self.requests.newest()])))
            self._finish("idle" if not self.life.is_promoted else "stopped")

    async def _promote(self) -> None:
        """Ask for Redis if there is any; a later GET asks again while its node may not boot or the stack is paused."""
        try:
            if self.node and await self._may_promote():
                self.life.promote()  # at once: it may not end while it asks
                await self._complete_as_promoted()
        except ServiceError:
            self.life.unpromote()
            logger().warning("promotion failed; the next GET asks again", exc_info=True)
        finally:
            self._is_promoting = False

    async def _may_promote(self) -> bool:
        node, now_us = await self._node(), self.tools.clock.now_us()
        if node.is_barred(now_us):
            self._not_promoted_before_us = node.not_before_us
            return False
        if node.phase_at(now_us) == "stopping":
            return False
        return await asyncio.to_thread(self.tools.pauses.read) is None

    async def _complete_as_promoted(self) -> None:
        if not await asyncio.to_thread(self.tools.executions.succeed, self.task.token, self.over("promoted")):
            await self.title.check()

    async def _report_now_and_then(self) -> None:
        while True:
            await asyncio.sleep(_REPORT_S)
            await self._report()

    async def _report(self) -> None:
        """Report what was served since the last time; what cannot be is lost."""
        served = None if self.copy.known is None else self.requests.report(self.task.key, self.copy.known)
        if self.tools.reports is not None and served is not None:
            report = self.tools.reports.start(served)
            await asyncio.to_thread(self.tools.reports.finish, report)

    async def _follow_writes(self) -> None:
        """Load the object again after a write to it; a write during the load starts another."""
        while True:
            await self.copy.is_due.wait()
            self.copy.is_due.clear()
            try:
                with passing_failures_named():
                    await self.copy.load(self._fetch)
            except (ObjectNotFoundError, ObjectTooLargeError):
                return self._finish("gone")
            except BurstcacheError as error:  # unreadable now: S3 itself answers from here on
                self._finish("failed")
                await asyncio.to_thread(self.tools.executions.fail, self.task.token, error)
                return

    async def _fetch(self, known: Entry | None) -> Entry:
        return await asyncio.to_thread(self.load, known)

    def _finish(self, end: End) -> None:
        if not self._over.is_set():
            self._end = end
            self._over.set()
            self._sooner.set()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._work.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._work.discard(task)
        if not task.cancelled() and (error := task.exception()):
            logger().error("the cache function goes on without a part of its work", exc_info=error)
