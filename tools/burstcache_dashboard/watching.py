"""Looks at a stack while somebody looks at the page, and tells all pages what has changed."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Literal

from burstcache.core.errors import BurstcacheError
from burstcache_dashboard.measured import Measured
from burstcache_dashboard.receipt import receipt_of, setup_of
from burstcache_dashboard.shown import Sections, changes, event, shown
from burstcache_dashboard.source import Failed, Rows, Source
from burstcache_sim.bill.nodes import node_capacity_bytes

_EVERY_LOCAL_S, _EVERY_DEPLOYED_S = 1.0, 5.0
# However large the table is, scans take a fortieth of a core at most, and a fifth of the time of what answers (here the
# local run). Reading the rows that have probably changed takes no more. Figures do not wait for what answers slowly.
_PAUSE_PER_WORK, _PAUSE_PER_WAIT = 40, 4
_FAILED_EVERY_S = 10.0
_KEEP_ALIVE_S = 15.0
_MOST_WAITING = 8  # changes that a page may not have taken yet; a slower one gets everything anew
_Told = bytes | Literal["anew", "end"]  # an event; or everything anew; or that the stream ends


@dataclass
class Watching:
    """The newest state of a stack. Without a page that listens nothing is read."""

    source: Source
    rows: Rows | None = None
    measured: Measured | None = None
    _sections: Sections | None = None
    _trouble: bytes = b""  # the event of the last look, if it failed
    _pages: set[asyncio.Queue[_Told]] = field(default_factory=set)
    _task: asyncio.Task[None] | None = None
    _failed: Failed = field(default_factory=Failed)
    _node_runs: int = 0  # of a local run's nodes
    _failed_at_s: float = -_FAILED_EVERY_S
    _scan_at_s: float = 0.0  # not before
    _rows_at_s: float = 0.0  # likewise, of rows that have probably changed
    _scan_took_s: float = 0.0  # of a processor, within this look
    _reading: threading.Lock = field(default_factory=threading.Lock)  # a second reader waits for it

    @property
    def is_followed(self) -> bool:
        """Whether a page listens."""
        return bool(self._pages)

    async def events(self) -> AsyncIterator[bytes]:
        """Yield everything, then what changes, until the page leaves."""
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
        """End all streams."""
        for page in self._pages:
            while page.full():
                page.get_nowait()
            page.put_nowait("end")

    async def look(self) -> tuple[Rows, Measured]:
        """Return rows and figures, read anew unless a page has them read all the time."""
        if self._task is None or self.rows is None or self.measured is None:
            return await asyncio.to_thread(self._read)
        return self.rows, self.measured

    async def _watch(self) -> None:
        is_first = True
        while True:
            worked_s = 0.0
            try:
                sections, worked_s = await asyncio.to_thread(self._sections_now)
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
        rows, measured = self._read()
        source = self.source
        if time.monotonic() - self._failed_at_s >= _FAILED_EVERY_S:
            self._failed, self._failed_at_s = source.failed(measured.since_us), time.monotonic()
            self._node_runs = source.node_runs() if source.log_dir else 0
        policy = source.parameters.get("Policy") if source.log_dir else None
        setup = setup_of(source.parameters)
        receipt = receipt_of(measured, rows, setup, source.prices, policy=policy, node_runs=self._node_runs)
        node_bytes = dict.fromkeys(source.stack.node_names, node_capacity_bytes(setup.instance_type) or 0)
        sections = shown(
            rows, measured, receipt, self._failed, max_object_bytes=source.max_object_bytes, node_bytes=node_bytes
        )
        return sections, time.thread_time() - began_s - self._scan_took_s

    def _read(self) -> tuple[Rows, Measured]:
        with self._reading:
            self.measured = self.source.measures.read()
            if self.rows is None or time.monotonic() >= self._scan_at_s:
                self.rows = self._scanned()
            elif time.monotonic() >= self._rows_at_s:
                began_s = time.monotonic()
                self.rows = self.source.rows_after(self.rows)
                self._rows_at_s = time.monotonic() + _PAUSE_PER_WAIT * (time.monotonic() - began_s)
            return self.rows, self.measured

    def _scanned(self) -> Rows:
        worked_s, began_s = time.thread_time(), time.monotonic()
        rows = self.source.rows()
        self._scan_took_s = time.thread_time() - worked_s
        self._scan_at_s = time.monotonic() + self._pause_s(self._scan_took_s, time.monotonic() - began_s)
        return rows

    def _pause_s(self, worked_s: float, waited_s: float = 0.0) -> float:
        every_s = _EVERY_LOCAL_S if self.source.log_dir else _EVERY_DEPLOYED_S
        return max(every_s, _PAUSE_PER_WORK * worked_s, _PAUSE_PER_WAIT * waited_s)


def said(error: Exception) -> str:
    """Return what the page says of a failure."""
    return str(error) if isinstance(error, BurstcacheError) else f"{type(error).__name__}: {error}"
