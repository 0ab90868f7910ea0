"""Looks at a stack while somebody looks at the page, and tells all pages what has changed."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from burstcache_dashboard.measured import Measured
from burstcache_dashboard.parts import Part, said
from burstcache_dashboard.receipt import Receipt, receipt_of, setup_of
from burstcache_dashboard.shown import Sections, changes, event, shown
from burstcache_dashboard.source import Failed, Rows, Source
from burstcache_dashboard.threads import in_thread
from burstcache_sim.bill.nodes import node_capacity_bytes

if TYPE_CHECKING:
    from types_boto3_stepfunctions.type_defs import ExecutionListItemTypeDef

_EVERY_LOCAL_S, _EVERY_DEPLOYED_S = 1.0, 5.0
# However large the table is, scans take a fortieth of a core at most, and a fifth of the time of what answers (here the
# local run). Reading the rows that have probably changed takes no more. Figures do not wait for what answers slowly.
_PAUSE_PER_WORK, _PAUSE_PER_WAIT = 40, 4
_FAILED_EVERY_S = 10.0
_PATIENCE_S = 2.0  # with a service without which there is something to show
_STACK_EVERY_S = 60.0  # whether a deployed stack was updated
_DAY_US = 24 * 3600 * 1_000_000
_KEEP_ALIVE_S = 15.0
_MOST_WAITING = 8  # changes that a page may not have taken yet; a slower one gets everything anew
_Told = bytes | Literal["anew", "end"]  # an event; or everything anew; or that the stream ends


@dataclass
class Watching:
    """The newest state of a stack. Without a page that listens nothing is read.

    Without its table there is nothing to show. All else is read in parts, each of which may fail by itself.
    """

    source: Source
    rows: Rows | None = None
    _sections: Sections | None = None
    _trouble: bytes = b""  # the event of the last look, if it failed
    _pages: set[asyncio.Queue[_Told]] = field(default_factory=set)
    _task: asyncio.Task[None] | None = None
    _is_over: bool = False
    _figures: Part[Measured | None] = field(
        default_factory=lambda: Part("figures", None, ("on", "reads", "failed", "bill"))
    )
    _executions: Part[tuple[ExecutionListItemTypeDef, ...]] = field(
        default_factory=lambda: Part("executions", (), ("failed",))
    )
    _events: Part[Mapping[str, int]] = field(default_factory=lambda: Part("queues", {}, ("failed",)))
    _node_runs: Part[int] = field(default_factory=lambda: Part("runs of nodes", 0, ("bill",)))  # of a local run
    _receipt: Part[Receipt | None] = field(default_factory=lambda: Part("bill", None, ("bill",)))
    _failed_at_s: float = -_FAILED_EVERY_S
    _stack_at_s: float = -_STACK_EVERY_S  # when it was last looked at whether the stack was updated
    _scan_at_s: float = 0.0  # not before
    _rows_at_s: float = 0.0  # likewise, of rows that have probably changed
    _scan_took_s: float = 0.0  # of a processor, within this look
    _reading: threading.Lock = field(default_factory=threading.Lock)  # a second reader waits for it

    @property
    def is_followed(self) -> bool:
        """Whether a page listens."""
        return bool(self._pages)

    @property
    def measured(self) -> Measured | None:
        """The newest figures; None: they could not be read yet."""
        return self._figures.value

    async def events(self) -> AsyncIterator[bytes]:
        """Yield everything, then what changes, until the page leaves."""
        if self._is_over:
            return
        page: asyncio.Queue[_Told] = asyncio.Queue(_MOST_WAITING)
        self._pages.add(page)
        if self._task is None:
            self._task = asyncio.create_task(self._watch())
        try:
            if self._sections is not None and len(self._pages) > 1:
                yield self._everything()
            while True:
                try:
                    told = await asyncio.wait_for(page.get(), _KEEP_ALIVE_S)
                except TimeoutError:
                    told = b": still here\n\n"
                if told == "end":
                    return
                yield self._everything() if told == "anew" else told
        finally:
            self._pages.discard(page)
            if not self._pages and self._task:
                self._task.cancel()
                self._task = None

    def _everything(self) -> bytes:
        """Return all parts of the page, and that they cannot be read now, if so."""
        return event("all", self._sections or {}) + self._trouble

    def end(self) -> None:
        """End all streams, also those that begin later."""
        self._is_over = True
        for page in self._pages:
            while page.full():
                page.get_nowait()
            page.put_nowait("end")

    async def look(self) -> Rows:
        """Return rows, read anew unless a page has them read all the time."""
        if self._task is None or self.rows is None:
            return await in_thread(self._read)
        return self.rows

    async def _watch(self) -> None:
        is_first, source = True, self.source
        while True:
            worked_s = 0.0
            try:
                sections, worked_s = await in_thread(self._sections_now)
            except Exception as error:  # whatever a service answers, the page says it and goes on
                self._trouble = event("trouble", {"what": said(error)})
                self._tell(self._trouble)
                is_first = True
            else:
                self._trouble = b""
                former, self._sections = self._sections, sections
                new = sections if is_first or former is None else changes(former, sections)
                self._tell(event("all" if is_first else "change", new | {"atMs": round(time.time() * 1000)}))
                is_first = False
            if source is not self.source:
                source = self.source
                self._tell(event("updated", {}))
            await asyncio.sleep(self._pause_s(worked_s))

    def _tell(self, told: bytes) -> None:
        for page in self._pages:
            if page.full():
                while not page.empty():
                    page.get_nowait()
                page.put_nowait("anew")
            else:
                page.put_nowait(told)

    def _sections_now(self) -> tuple[Sections, float]:
        """Return the page's parts, and how much of a processor they have taken apart from a scan [s]."""
        began_s, self._scan_took_s = time.thread_time(), 0.0
        rows, source = self._read(), self.source
        measured = self.measured
        if time.monotonic() - self._failed_at_s >= _FAILED_EVERY_S:
            since_us = measured.since_us if measured else rows.at_us - _DAY_US
            self._executions.read_within(_PATIENCE_S, lambda: source.failed_executions(since_us))
            self._events.read_within(_PATIENCE_S, source.waiting_events)
            if source.log_dir:
                self._node_runs.read_within(_PATIENCE_S, source.node_runs)
            self._failed_at_s = time.monotonic()
        setup = setup_of(source.parameters)
        if measured:
            policy = source.parameters.get("Policy") if source.log_dir else None
            runs = self._node_runs.value
            self._receipt.read(lambda: receipt_of(measured, rows, setup, source.prices, policy=policy, node_runs=runs))
        sections = shown(
            rows,
            measured,
            self._receipt.value,
            Failed(self._executions.value, self._events.value),
            max_object_bytes=source.max_object_bytes,
            node_bytes=dict.fromkeys(source.stack.node_names, node_capacity_bytes(setup.instance_type) or 0),
        )
        return sections | {"troubles": self._troubles()}, time.thread_time() - began_s - self._scan_took_s

    def _troubles(self) -> dict[str, list[Mapping[str, Any]]]:
        """Return which parts cannot be read, by place of the page."""
        parts = (self._figures, self._executions, self._events, self._node_runs, self._receipt)
        return {
            place: [part.trouble for part in parts if part.trouble and place in part.places]
            for place in self._figures.places
        }

    def _read(self) -> Rows:
        with self._reading:
            self._renew()
            measures = self.source.measures.read
            if self.source.log_dir:  # it is work, which counts
                self._figures.read(measures)
            else:
                self._figures.read_within(_PATIENCE_S, measures)
            if self.rows is None or time.monotonic() >= self._scan_at_s:
                self.rows = self._scanned()
            elif time.monotonic() >= self._rows_at_s:
                began_s = time.monotonic()
                self.rows = self.source.rows_after(self.rows)
                self._rows_at_s = time.monotonic() + _PAUSE_PER_WAIT * (time.monotonic() - began_s)
            return self.rows

    def _renew(self) -> None:
        """Take a new source if the stack was updated, or the local run was started anew."""
        if not self.source.log_dir and time.monotonic() - self._stack_at_s < _STACK_EVERY_S:
            return  # of a local run it takes a look at a file
        source, self._stack_at_s = self.source.renewed(), time.monotonic()
        if source is not self.source:
            self.source, self.rows = source, None

    def _scanned(self) -> Rows:
        worked_s, began_s = time.thread_time(), time.monotonic()
        rows = self.source.rows()
        self._scan_took_s = time.thread_time() - worked_s
        self._scan_at_s = time.monotonic() + self._pause_s(self._scan_took_s, time.monotonic() - began_s)
        return rows

    def _pause_s(self, worked_s: float, waited_s: float = 0.0) -> float:
        every_s = _EVERY_LOCAL_S if self.source.log_dir else _EVERY_DEPLOYED_S
        return max(every_s, _PAUSE_PER_WORK * worked_s, _PAUSE_PER_WAIT * waited_s)
