"""The watching loop, which polls a stack while a page is open, and streams changes to all pages."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from burstcache_dashboard.gateways import gateways
from burstcache_dashboard.measured import Measured
from burstcache_dashboard.parts import Part, error_text
from burstcache_dashboard.receipt import Receipt, receipt_of
from burstcache_dashboard.shown import Sections, changes, event, shown
from burstcache_dashboard.source import Failed, Rows, Source
from burstcache_dashboard.threads import in_thread
from burstcache_sim.bill.nodes import node_capacity_bytes

if TYPE_CHECKING:
    from types_boto3_stepfunctions.type_defs import ExecutionListItemTypeDef

_EVERY_LOCAL_S, _EVERY_DEPLOYED_S = 1.0, 5.0
# Pauses limit the load at any table size. Scans use at most 1/40 of a core here, and occupy DynamoDB for at most 1/5 of
# the time. The limit for DynamoDB also applies to rereading rows. Slow services do not delay the figures.
_PAUSE_PER_WORK, _PAUSE_PER_WAIT = 40, 4
_FAILED_EVERY_S = 10.0
_TIMEOUT_S = 2.0  # for optional data
_STACK_EVERY_S = 60.0  # interval between checks for an updated stack
_DAY_US = 24 * 3600 * 1_000_000
_KEEP_ALIVE_S = 15.0
_MOST_WAITING = 8  # maximum number of events queued for a page; on overflow, the page gets the full state
_Message = bytes | Literal["resync", "end"]  # an event, a resend of the full state, or the end of the stream


@dataclass
class Watching:
    """A stack's current state, which is read only while a page is connected.

    The table is required. All other data are parts, which may fail independently.
    """

    source: Source
    rows: Rows | None = None
    _sections: Sections | None = None
    _trouble: bytes = b""  # event with the last read's error (empty: the read succeeded)
    _pages: set[asyncio.Queue[_Message]] = field(default_factory=set)
    _task: asyncio.Task[None] | None = None
    _is_over: bool = False
    _figures: Part[Measured | None] = field(
        default_factory=lambda: Part("figures", None, ("on", "reads", "failed", "bill"))
    )
    _executions: Part[tuple[ExecutionListItemTypeDef, ...]] = field(
        default_factory=lambda: Part("executions", (), ("failed",))
    )
    _events: Part[Mapping[str, int]] = field(default_factory=lambda: Part("queues", {}, ("failed",)))
    _node_runs: Part[int] = field(default_factory=lambda: Part("runs of nodes", 0, ("bill",)))  # local run only
    _receipt: Part[Receipt | None] = field(default_factory=lambda: Part("bill", None, ("bill",)))
    _gateways: Part[list[Mapping[str, Any]]] = field(default_factory=lambda: Part("gateways", [], ()))
    _failed_at_s: float = -_FAILED_EVERY_S
    _stack_at_s: float = -_STACK_EVERY_S  # time of the last check for an updated stack
    _scan_at_s: float = 0.0  # earliest time of the next scan
    _rows_at_s: float = 0.0  # earliest time of the next rereading of rows
    _scan_took_s: float = 0.0  # CPU time of the scan in the current read
    _reading: threading.Lock = field(default_factory=threading.Lock)  # serialises reads

    @property
    def is_followed(self) -> bool:
        """Whether any page is connected."""
        return bool(self._pages)

    @property
    def measured(self) -> Measured | None:
        """The latest figures, or None before the first read."""
        return self._figures.value

    async def events(self) -> AsyncIterator[bytes]:
        """Yield the full state and then changes until the page disconnects."""
        if self._is_over:
            return
        page: asyncio.Queue[_Message] = asyncio.Queue(_MOST_WAITING)
        self._pages.add(page)
        if self._task is None:
            self._task = asyncio.create_task(self._watch())
        try:
            if self._sections is not None and len(self._pages) > 1:
                yield self._everything()
            while True:
                try:
                    message = await asyncio.wait_for(page.get(), _KEEP_ALIVE_S)
                except TimeoutError:
                    message = b": still here\n\n"
                if message == "end":
                    return
                yield self._everything() if message == "resync" else message
        finally:
            self._pages.discard(page)
            if not self._pages and self._task:
                self._task.cancel()
                self._task = None

    def _everything(self) -> bytes:
        """Return events with the full state and, if the last read failed, the error."""
        return event("all", self._sections or {}) + self._trouble

    def end(self) -> None:
        """End all streams, and reject new streams."""
        self._is_over = True
        for page in self._pages:
            while page.full():
                page.get_nowait()
            page.put_nowait("end")

    async def current_rows(self) -> Rows:
        """Return the current rows, which are read unless the loop keeps them up to date for a connected page."""
        if self._task is None or self.rows is None:
            return await in_thread(self._read)
        return self.rows

    async def _watch(self) -> None:
        is_first, source = True, self.source
        while True:
            worked_s = 0.0
            try:
                sections, worked_s = await in_thread(self._sections_now)
            except Exception as error:  # the page shows the error, and the loop continues
                self._trouble = event("trouble", {"what": error_text(error)})
                self._publish(self._trouble)
                is_first = True
            else:
                self._trouble = b""
                former, self._sections = self._sections, sections
                new = sections if is_first or former is None else changes(former, sections)
                self._publish(event("all" if is_first else "change", new | {"atMs": round(time.time() * 1000)}))
                is_first = False
            if source is not self.source:
                source = self.source
                self._publish(event("updated", {}))
            await asyncio.sleep(self._pause_s(worked_s))

    def _publish(self, message: bytes) -> None:
        for page in self._pages:
            if page.full():
                while not page.empty():
                    page.get_nowait()
                page.put_nowait("resync")
            else:
                page.put_nowait(message)

    def _sections_now(self) -> tuple[Sections, float]:
        """Return the page's sections, and the CPU time for reading them without the scan [s]."""
        began_s, self._scan_took_s = time.thread_time(), 0.0
        rows, source = self._read(), self.source
        measured = self.measured
        if time.monotonic() - self._failed_at_s >= _FAILED_EVERY_S:
            since_us = measured.since_us if measured else rows.at_us - _DAY_US
            self._executions.read_within(_TIMEOUT_S, lambda: source.failed_executions(since_us))
            self._events.read_within(_TIMEOUT_S, source.waiting_events)
            if source.log_dir:
                self._node_runs.read_within(_TIMEOUT_S, source.node_runs)
            self._failed_at_s = time.monotonic()
        self._gateways.read_within(_TIMEOUT_S, gateways)
        setup = source.setup
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
            rules=source.rules if "PolicySettings" in source.stack.outputs else None,
            node_bytes=dict.fromkeys(source.stack.node_names, node_capacity_bytes(setup.instance_type) or 0),
        )
        sections |= {"gateways": self._gateways.value, "troubles": self._troubles()}
        return sections, time.thread_time() - began_s - self._scan_took_s

    def _troubles(self) -> dict[str, list[Mapping[str, Any]]]:
        """Return the parts' errors, by page section."""
        parts = (self._figures, self._executions, self._events, self._node_runs, self._receipt)
        return {
            place: [part.trouble for part in parts if part.trouble and place in part.places]
            for place in self._figures.places
        }

    def _read(self) -> Rows:
        with self._reading:
            self._renew()
            measures = self.source.measures.read
            if self.source.log_dir:  # CPU work, which is measured in this thread
                self._figures.read(measures)
            else:
                self._figures.read_within(_TIMEOUT_S, measures)
            if self.rows is None or time.monotonic() >= self._scan_at_s:
                self.rows = self._scanned()
            elif time.monotonic() >= self._rows_at_s:
                began_s = time.monotonic()
                self.rows = self.source.rows_after(self.rows)
                self._rows_at_s = time.monotonic() + _PAUSE_PER_WAIT * (time.monotonic() - began_s)
            return self.rows

    def _renew(self) -> None:
        """Replace the source if the stack was updated or the local run restarted."""
        if not self.source.log_dir and time.monotonic() - self._stack_at_s < _STACK_EVERY_S:
            return  # local runs are always checked, because reading the state file is cheap
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
