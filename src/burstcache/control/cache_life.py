"""One life of the cache function: it holds an object, serves it over the relay, and decides when it is over.

Nothing else sees the key's requests while it serves, so it runs the policy itself: it completes the task of its state
as `idle` or `promoted`. One event loop; calls to AWS go to threads.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, Protocol

from burstcache.adapters.calls import passing_failures_named
from burstcache.adapters.clock import Clock
from burstcache.adapters.executions import Executions
from burstcache.adapters.key_table import KeyTable
from burstcache.adapters.node_table import NodeTable
from burstcache.adapters.object_store import ObjectStore
from burstcache.adapters.pauses import Pauses
from burstcache.control.meter import Meter
from burstcache.core.cache_lives import CacheLife, new_life
from burstcache.core.deadlines import ANNOUNCED_S
from burstcache.core.errors import (
    BurstcacheError,
    InvocationEndsTransientError,
    ObjectNotFoundError,
    ObjectTooLargeError,
    ServiceError,
)
from burstcache.core.messages.answers import CACHE_FUNCTION, LambdaOver
from burstcache.core.messages.encoding import encode, iso
from burstcache.core.messages.events import KeyServed, RequestsServed
from burstcache.core.messages.relay import Ended, Get, Order, ServedElsewhere, control_subject, get_subject
from burstcache.core.parameters import US_PER_S
from burstcache.core.policies import LivePolicy
from burstcache.core.policy import Request, remember
from burstcache.core.table import KeyColumns, NodeRow
from burstcache.logs import logger
from burstcache.web import entry as wire
from burstcache.web.entry import Entry

End = Literal["idle", "gone", "stopped", "handed_over", "superseded", "failed"]

_HEARTBEAT_S = 15  # the state allows 60 s
_HAND_OVER_US = 60 * US_PER_S  # before the invocation ends: two starts of the next one, should the first fail
_HAND_OVER_POLL_S = 1
_REPORT_S = 5  # each is an event and a run of the scheduler
_MOST_REPORTED = 8  # the newest requests, by name: the others only count
_TRIM_FACTOR = 4  # of the window's useful length: what a quarter of an hour's load would remember fills the memory

Respond = Callable[[bytes], Awaitable[None]]


class Relay(Protocol):
    """What the cache function needs of the relay. A subscription is whatever `listen` returns."""

    async def open(self) -> None:
        """Connect, or raise RelayDownError."""

    async def close(self) -> None:
        """Leave the relay."""

    async def listen(self, subject: str, *, queue: str, answer: Callable[[bytes, Respond], Awaitable[None]]) -> Any:
        """Answer messages; of the listeners of one queue group exactly one gets each message, without one all do."""

    async def flush(self) -> None:
        """Return when the relay has processed what was sent."""

    async def drain(self, subscription: Any) -> None:
        """End a subscription so that no request is lost."""


class Reports(Protocol):
    """Where served requests are reported."""

    def start(self, event: RequestsServed) -> Any:
        """Begin to report, and return what `finish` takes."""

    def finish(self, report: Any) -> None:
        """Return when the report has been sent; a failure is logged, never raised."""


@dataclass(frozen=True, slots=True)
class CacheTask:
    """What the state passes to the cache function."""

    key: str
    hash: str
    epoch: int
    attempt: int  # how often it was started before: a later attempt takes the key over
    token: str  # of the state; empty: that is over, and Redis is awaited
    holder: str  # this invocation


@dataclass(frozen=True, slots=True)
class CacheTools:
    """What a life works with."""

    keys: KeyTable
    nodes: NodeTable
    executions: Executions
    objects: ObjectStore
    pauses: Pauses
    max_object_bytes: int
    policy: LivePolicy
    clock: Clock
    meter: Meter
    reports: Reports | None = None  # where served requests are reported that count for the key's node


@dataclass(slots=True)
class KeyCache:
    """Serves one key until it is idle, is stopped by a message, or no longer owns the key."""

    task: CacheTask
    tools: CacheTools
    entry: Entry
    began_us: int  # when the invocation began
    end_by_us: int  # a little before its end
    life: CacheLife = field(init=False)
    window: set[Request] = field(default_factory=set)  # what this life knows of: from the row, and what it served
    node: str = ""  # the key's Redis node, from the row
    _early: list[Request] | None = field(default_factory=list)  # served before the life began; None: it has
    _served: int = 0
    _first_us: int = 0
    _last_us: int = 0
    _end: End = "idle"
    _over: asyncio.Event = field(default_factory=asyncio.Event)
    _sooner: asyncio.Event = field(default_factory=asyncio.Event)  # over, or the deadline has come closer
    _stale: asyncio.Event = field(default_factory=asyncio.Event)
    _is_promoting: bool = False
    _is_handed_over: bool = False  # to the next invocation, which may not serve yet
    _not_promoted_before_us: int = 0  # the node cools down after a failed boot
    _unreported: list[Request] = field(default_factory=list)
    _work: set[asyncio.Task[None]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.life = new_life(self.tools.policy)

    async def serve(self, relay: Relay) -> End:
        """Subscribe, announce, serve until the end, drain; return how it ended."""
        hash_ = self.task.hash  # its queue group, too: of an old and a new cache exactly one answers
        gets = await relay.listen(get_subject(hash_), queue=hash_, answer=self._on_get)
        orders = await relay.listen(control_subject(hash_), queue="", answer=self._on_control)  # both have a copy
        try:
            await relay.flush()
            if not await self._announce():
                return "superseded"
            self._spawn(self._beat())
            self._spawn(self._hand_over())
            self._spawn(self._follow_writes())
            if self.life.is_reported:
                self._spawn(self._report_now_and_then())
            await self._until_over()
            try:
                await asyncio.to_thread(self._retire)
            except ServiceError:
                logger().warning("the route stays in the row until the next step takes it off", exc_info=True)
            await self._report()
        finally:
            await relay.drain(gets)
            await relay.drain(orders)
            for work in self._work:
                work.cancel()
        return self._end

    def over(self, outcome: Literal["idle", "promoted", "gone"]) -> LambdaOver:
        """Return how the life has ended, as its execution shows it."""
        ran_s = (self.tools.clock.now_us() - self.began_us) / US_PER_S
        return LambdaOver(
            outcome=outcome,
            served=self._served,
            first_request=iso(self._first_us) if self._first_us else "",
            last_request=iso(self._last_us) if self._last_us else "",
            estimated_usd=round(ran_s * float(self.tools.meter.prices.lambda_usd_per_s), 9),
            estimate_covers=CACHE_FUNCTION,
        )

    async def _announce(self) -> bool:
        """Claim the key for this invocation, since Lambda may invoke twice and only one may serve."""
        now_us = self.tools.clock.now_us()
        claim = KeyColumns(
            tier="lambda",
            holder=self.task.holder,
            attempt=self.task.attempt,
            ready_at_us=now_us,
            deadline_at_us=now_us + ANNOUNCED_S * US_PER_S,
        )
        row = await asyncio.to_thread(
            self.tools.keys.update,
            self.task.hash,
            epoch=self.task.epoch,
            set_=claim,
            unless_held=True,
            while_tier="" if self.task.token else "lambda",  # Redis may have taken over meanwhile
        )
        if row is None or row.trigger is None:
            return False
        # Of a write since the object was loaded the row knows, or only the cache function before this one has heard.
        if row.written_in == self.task.epoch or self.task.attempt:
            self._stale.set()
        self.node = row.node
        self.window.update(row.window)
        self._first_us = self._last_us = row.trigger.at_us
        if self.task.attempt:
            self._served, self.began_us = row.served, min(self.began_us, row.changed_at_us)
        self.life.begin(row, self.tools.clock.now_us())
        if not self.task.token:
            self.life.promote()
        self._count_early()
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

    async def _on_get(self, message: bytes, respond: Respond) -> None:
        request: Get | ServedElsewhere = json.loads(message)
        if "served" in request:
            await respond(b"")
            return self._count([Request.decode(text) for text in request["served"]])
        if request["method"] == "HEAD":  # costs no body, so it does not count as use
            return await respond(wire.encode(self.entry.without_body()))
        await respond(wire.encode(self.entry))
        self._count([Request(request["at_us"], request["request_id"])])

    def _count_early(self) -> None:
        """Count what came between the row's write, which leads readers here, and its answer."""
        early, self._early = self._early, None
        self._count(early or ())

    def _count(self, requests: Iterable[Request]) -> None:
        if self._early is not None:
            self._early += requests
            return
        former_deadline_us = self.life.deadline_us
        for request in requests:
            self._served += 1
            self._last_us = max(self._last_us, request.at_us)
            self.window.add(request)
            self.life.serve(request)
            if self.life.is_reported:
                self._unreported.append(request)
        if self.life.deadline_us < former_deadline_us:
            self._sooner.set()
        if len(self.window) > _TRIM_FACTOR * self.life.keeps:
            self.window = set(remember(self.window, (), self.life.keeps))
        is_barred = self._is_handed_over or self.tools.clock.now_us() < self._not_promoted_before_us
        if self.life.wants_promotion() and not self._is_promoting and not is_barred:
            self._is_promoting = True
            self._spawn(self._promote())

    async def _on_control(self, message: bytes, respond: Respond) -> None:
        order: Order = json.loads(message)
        if order.get("epoch", self.task.epoch) != self.task.epoch:
            return
        if order["op"] == "refresh":
            self._stale.set()
            await respond(b"{}")
        elif order["op"] == "stop":
            await respond(encode(Ended(window=[request.encode() for request in self._newest()])))
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
            await self._check_title()

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(_HEARTBEAT_S)
            try:
                # Of a promoted life the task is complete, or about to be: a promotion that fails is taken back.
                if self.life.is_promoted or not await asyncio.to_thread(
                    self.tools.executions.heartbeat, self.task.token
                ):
                    await self._check_title()
            except ServiceError:
                logger().warning("heartbeat failed; the next one may not", exc_info=True)

    async def _check_title(self) -> None:
        """Leave unless the row still leads here. If it does and the task is over, Redis is awaited, or the next one."""
        row = await asyncio.to_thread(self.tools.keys.read, self.task.hash)
        if row is None or row.epoch != self.task.epoch or row.holder != self.task.holder or row.tier != "lambda":
            self._finish("handed_over" if self._is_handed_over else "superseded")
        elif not (self.life.is_promoted or self._is_handed_over):
            self.life.promote()

    async def _hand_over(self) -> None:
        """Before the invocation ends, have the next one start if the life goes on; serve until that one does."""
        await asyncio.sleep((self.end_by_us - _HAND_OVER_US - self.tools.clock.now_us()) / US_PER_S)
        while not self._over.is_set():
            try:
                if self._is_handed_over:
                    await self._check_title()
                elif self.life.deadline_us > self.end_by_us and not (self.life.is_promoted or self._is_promoting):
                    await self._start_next()
            except ServiceError:
                logger().warning("the key cannot be handed over yet", exc_info=True)
            await asyncio.sleep(_HAND_OVER_POLL_S)

    async def _start_next(self) -> None:
        """Leave what the life knows in the row, and have the state start its function again."""
        if await asyncio.to_thread(self.tools.pauses.read) is not None:
            return
        window = [request.encode() for request in self._newest()]
        left = self.life.columns() | KeyColumns(window=window, served=self._served)
        leave = partial(self.tools.keys.update, epoch=self.task.epoch, set_=left, while_held_by=self.task.holder)
        error = InvocationEndsTransientError(f"the invocation ends, and {self.task.key!r} is still asked for")
        self._is_handed_over = True  # nothing is promoted from here on
        try:
            if await asyncio.to_thread(leave, self.task.hash) is not None:
                await asyncio.to_thread(self.tools.executions.fail, self.task.token, error)
        except ServiceError:
            self._is_handed_over = False
            raise

    async def _report_now_and_then(self) -> None:
        while True:
            await asyncio.sleep(_REPORT_S)
            await self._report()

    async def _report(self) -> None:
        """Report what was served since the last time, for the use of the key's node; what cannot be is lost."""
        requests, self._unreported = self._unreported, []
        if self.tools.reports is None or not requests:
            return
        served = KeyServed(
            key=self.task.key,
            requests=[request.encode() for request in requests[-_MOST_REPORTED:]],
            size_bytes=self.entry.size_bytes,
            etag=self.entry.etag,
            served_by="lambda",
            left_out=max(len(requests) - _MOST_REPORTED, 0),
        )
        report = self.tools.reports.start(RequestsServed(keys=[served]))
        await asyncio.to_thread(self.tools.reports.finish, report)

    async def _follow_writes(self) -> None:
        """Replace the copy after a write to the object; a write during the reload starts another."""
        while True:
            await self._stale.wait()
            self._stale.clear()
            try:
                with passing_failures_named():
                    newer = await asyncio.to_thread(
                        self.tools.objects.fetch_if_newer,
                        self.task.key,
                        self.entry.etag,
                        max_bytes=self.tools.max_object_bytes,
                    )
            except (ObjectNotFoundError, ObjectTooLargeError):
                return self._finish("gone")
            except BurstcacheError as error:  # unreadable now: S3 itself answers from here on
                self._finish("failed")
                await asyncio.to_thread(self.tools.executions.fail, self.task.token, error)
                return
            self.entry = newer or self.entry

    def _retire(self) -> None:
        """Take the route off and leave the times of the last requests in the row, before the subscription ends.

        A route to Redis, which may be written at this moment, stays.
        """
        row = self.tools.keys.read(self.task.hash)
        if row is None or row.epoch != self.task.epoch or row.holder != self.task.holder:
            return
        unknown = [request for request in self._newest() if request not in row.window]
        leave = partial(
            self.tools.keys.update,
            self.task.hash,
            epoch=self.task.epoch,
            set_=self.life.columns(),
            append_window=unknown,
            while_held_by=self.task.holder,
        )
        if row.tier != "lambda" or leave(remove=["tier"], while_tier="lambda") is None:
            leave()

    def _newest(self) -> list[Request]:
        return sorted(self.window)[-self.life.keeps :]

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
