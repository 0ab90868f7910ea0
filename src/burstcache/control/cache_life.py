"""The life of a key in a cache function, which holds the object, serves it over the relay, and decides when to end.

No other component sees the key's requests meanwhile, so the function runs the policy itself. It completes its Step
Functions task as `idle`, `gone` or `promoted`. It has one event loop, and calls AWS in threads.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from burstcache.adapters.calls import translated_transient_errors
from burstcache.control.cache_lease import CacheLease
from burstcache.control.cache_requests import LifeRequests
from burstcache.control.cache_tools import CacheTask, CacheTools, End, Relay, Respond
from burstcache.control.held_copy import HeldCopy
from burstcache.core.cache_lives import CacheLife, new_life
from burstcache.core.errors import BurstcacheError, ObjectNotFoundError, ObjectTooLargeError, ServiceError
from burstcache.core.messages.answers import CACHE_FUNCTION, LambdaOver
from burstcache.core.messages.encoding import encode, iso
from burstcache.core.messages.relay import (
    NOT_HERE,
    FunctionEnded,
    Get,
    Order,
    ServedElsewhere,
    control_subject,
    get_subject,
)
from burstcache.core.parameters import US_PER_S
from burstcache.core.policy import RecordedRequest
from burstcache.core.rows import NodeRow
from burstcache.logs import logger
from burstcache.web import entry as wire
from burstcache.web.entry import Entry

_REPORT_S = 5  # each report costs an event and a scheduler run


@dataclass(slots=True)
class KeyCache:
    """The cache of one key. It serves until the key is idle, an order stops it, or its lease is lost."""

    task: CacheTask
    tools: CacheTools
    load: Callable[[Entry | None], Entry]  # fetches S3's current object, given the last copy
    began_us: int  # when the invocation began
    end_by_us: int  # shortly before the invocation ends
    copy: HeldCopy = field(init=False)
    life: CacheLife = field(init=False)
    requests: LifeRequests = field(init=False)
    lease: CacheLease = field(init=False)
    node: str = ""  # the key's Redis node, from the row
    _end: End = "idle"
    _over: asyncio.Event = field(default_factory=asyncio.Event)
    _sooner: asyncio.Event = field(default_factory=asyncio.Event)  # set when the life ends or gets an earlier deadline
    _is_promoting: bool = False
    _not_promoted_before_us: int = 0  # end of the node's cool-down after a failed boot
    _work: set[asyncio.Task[None]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.copy = HeldCopy(self.tools.clock)
        self.life = new_life(self.tools.policy)
        self.requests = LifeRequests(self.life)
        self.lease = CacheLease(self.task, self.tools, self.life, self.requests, self._finish)

    async def serve(self, relay: Relay) -> End:
        """Subscribe to orders, load, subscribe to GETs, announce, serve and drain. Return the life's outcome."""
        hash_ = self.task.hash  # also the queue group, so that exactly one of an old and a new cache answers a GET
        relay.on_connection_change(self.copy.set_connected)
        orders = await relay.listen(control_subject(hash_), queue="", answer=self._on_order)  # goes to every cache
        subscriptions = [orders]
        try:
            await relay.flush()
            await self.copy.load(self._fetch)
            gets = await relay.listen(get_subject(hash_), queue=hash_, answer=self._on_get, after=orders, busy=NOT_HERE)
            subscriptions.insert(0, gets)
            await relay.flush()
            if not await self._announce():
                return "superseded"
            self._spawn(self.lease.renew())
            self._spawn(self.lease.hand_over(self.end_by_us, self._outlives_invocation))
            self._spawn(self._follow_writes())
            if self.life.is_reported:
                self._spawn(self._report_regularly())
            await self._until_over()
            try:
                await asyncio.to_thread(self.lease.release)
            except ServiceError:
                logger().warning("the route stays in the row until the next step removes it", exc_info=True)
            await self._report()
        finally:
            for subscription in subscriptions:  # GETs first, because a cache needs orders as long as it answers
                await relay.drain(subscription)
            for work in self._work:
                work.cancel()
        return self._end

    def over(self, outcome: Literal["idle", "promoted", "gone"]) -> LambdaOver:
        """Return the life's result, which becomes the output of its state."""
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
        """Acquire the lease and begin the life from the key's row. Return False if another invocation holds the key."""
        row = await self.lease.acquire()
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
        self._promote_if_due()
        if self.life.is_reported and (await self._node()).phase_at(self.tools.clock.now_us()) == "running":
            self._finish("idle")  # the node holds the key as a read-through entry
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
                continue  # GETs may have extended the deadline

    def _outlives_invocation(self) -> bool:
        """Return whether the life must continue in the next invocation."""
        is_promoted = self.life.is_promoted or self._is_promoting
        return self.life.deadline_us > self.end_by_us and not is_promoted and not self._over.is_set()

    async def _bridges(self) -> bool:
        """Return whether the life continues because its node is booting."""
        if not self.life.is_reported:
            return False
        try:
            return self.life.bridges(await self._node(), self.tools.clock.now_us())
        except ServiceError:
            logger().warning("cannot read the node's row, the life ends", exc_info=True)
            return False

    async def _node(self) -> NodeRow:
        return await asyncio.to_thread(self.tools.nodes.read, self.node)

    async def _on_get(self, message: bytes, respond: Respond, waited_s: float) -> None:
        request: Get | ServedElsewhere = json.loads(message)
        if "served" in request:
            await respond(b"")
            return self._count([RecordedRequest.decode(text) for text in request["served"]])
        self.copy.see_fence(request.get("fence_us", 0))
        left_s = request.get("within_us", 0) / US_PER_S - waited_s
        if "within_us" in request and left_s <= 0:
            return  # the reader has fallen back to S3
        # Half of the remaining time is for a reload, the other half for sending the response.
        entry = await self.copy.get(within_s=left_s / 2)
        if entry is None:
            return await respond(NOT_HERE)
        if request["method"] == "HEAD":  # sends no body, so it does not count as use
            return await respond(wire.encode(entry.without_body()))
        await respond(wire.encode(entry))
        self._count([RecordedRequest(request["at_us"], request["request_id"])])

    def _count(self, requests: Iterable[RecordedRequest]) -> None:
        former_deadline_us = self.life.deadline_us
        if self.requests.count(requests):
            if self.life.deadline_us < former_deadline_us:
                self._sooner.set()
            self._promote_if_due()

    def _promote_if_due(self) -> None:
        is_barred = self.lease.is_handed_over or self.tools.clock.now_us() < self._not_promoted_before_us
        if self.life.wants_promotion() and not self._is_promoting and not is_barred:
            self._is_promoting = True
            self._spawn(self._promote())

    async def _on_order(self, message: bytes, respond: Respond, _: float) -> None:
        order: Order = json.loads(message)
        if order.get("epoch", self.task.epoch) != self.task.epoch:
            return
        if order["op"] == "refresh":
            self.copy.drop()
        elif order["op"] == "stop":
            await respond(encode(FunctionEnded(window=[request.encode() for request in self.requests.newest()])))
            self._finish("idle" if not self.life.is_promoted else "stopped")

    async def _promote(self) -> None:
        """Promote the key to Redis if its node may boot and the stack is not paused. Later GETs retry."""
        try:
            if self.node and await self._may_promote():
                self.life.promote()  # first, because the life must not end during the call
                await self._complete_as_promoted()
        except ServiceError:
            self.life.unpromote()
            logger().warning("promotion failed, the next GET tries again", exc_info=True)
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
            await self.lease.check()

    async def _report_regularly(self) -> None:
        while True:
            await asyncio.sleep(_REPORT_S)
            await self._report()

    async def _report(self) -> None:
        """Report the requests served since the last report. Failed reports are not retried."""
        served = None if self.copy.last is None else self.requests.report(self.task.key, self.copy.last)
        if self.tools.reports is not None and served is not None:
            report = self.tools.reports.start(served)
            await asyncio.to_thread(self.tools.reports.finish, report)

    async def _follow_writes(self) -> None:
        """Reload the object after each write to it, and again if a write arrives during the load."""
        while True:
            await self.copy.is_due.wait()
            self.copy.is_due.clear()
            try:
                with translated_transient_errors():
                    await self.copy.load(self._fetch)
            except (ObjectNotFoundError, ObjectTooLargeError):
                return self._finish("gone")
            except BurstcacheError as error:  # the object is unreadable, so readers get S3's own response
                self._finish("failed")
                await asyncio.to_thread(self.tools.executions.fail, self.task.token, error)
                return

    async def _fetch(self, last: Entry | None) -> Entry:
        return await asyncio.to_thread(self.load, last)

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
            logger().error("a background task of the cache function failed", exc_info=error)
