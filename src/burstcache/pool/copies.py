"""Members that are being copied: a hub keeps the first environment of each while a second one takes over."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from burstcache.pool.frames import Kind
from burstcache.pool.member_link import MemberLink
from burstcache.pool.passage import CopyPassage

_ARRIVES_WITHIN_S = 10.0  # as long as an environment may take to begin
_MOVES_WITHIN_S = 5.0  # a copy of which nothing has passed for as long has stopped


@dataclass(slots=True)
class _Running:
    first: MemberLink
    end: asyncio.Future[bool]
    copy: MemberLink | None = None
    passage: CopyPassage | None = None
    watch: asyncio.TimerHandle | None = None
    watched_bytes: int = field(default=-1)


class Copies:
    """All copies of one hub.

    Args:
        reinstate: Makes an environment the one that serves its member again.

    Attributes:
        passed_bytes: What has passed to copies.
    """

    def __init__(self, reinstate: Callable[[MemberLink], None]) -> None:
        self.passed_bytes = 0
        self._reinstate = reinstate
        self._running: dict[str, _Running] = {}

    def expect(self, first: MemberLink) -> asyncio.Future[bool]:
        """Have an environment wait for its copy; the result is whether that has everything."""
        running = self._running.get(first.name)
        if not running:
            running = self._add(first)
            first.send(Kind.COPY, 0)
            self._watch(running, _ARRIVES_WITHIN_S)
        return running.end

    def abandon(self, member: str) -> None:
        """Note that no copy of a member will come."""
        if running := self._running.get(member):
            self._give_back(running)

    def begin(self, former: MemberLink, copy: MemberLink) -> bool:
        """Note that a copy has dialled in; False: the former connection is not copied, so it is of no use any more."""
        running = self._running.get(copy.name) or self._add(former)
        is_first = running.first is former
        running.copy = copy
        self._watch(running, _MOVES_WITHIN_S)
        return is_first

    def passage(self, member: str) -> CopyPassage:
        """Return a hub's end of the connection by which a copy takes over."""
        running = self._running.get(member)
        passage = CopyPassage(lambda: running.first if running and self._is(running) else None)
        if running:
            running.passage = passage
            passage.ended.add_done_callback(lambda _: self._ended(running, passage))
        return passage

    def lost(self, link: MemberLink) -> None:
        """Note that a connection is gone: the other of the two environments goes on."""
        running = self._running.get(link.name)
        if running and link is running.first:
            self._end(running, is_whole=False)
            if running.passage:
                running.passage.end()
        elif running and link is running.copy:
            self._give_back(running)

    def _add(self, first: MemberLink) -> _Running:
        running = _Running(first, asyncio.get_running_loop().create_future())
        self._running[first.name] = running
        return running

    def _is(self, running: _Running) -> bool:
        return self._running.get(running.first.name) is running

    def _ended(self, running: _Running, passage: CopyPassage) -> None:
        self.passed_bytes += passage.passed_bytes
        if self._is(running) and running.passage is passage:
            if passage.is_done:
                self._end(running, is_whole=True)
                running.first.send(Kind.COPIED, 0, number=1)
            else:
                self._give_back(running)

    def _give_back(self, running: _Running) -> None:
        """Let the first environment go on, and the second one return."""
        self._end(running, is_whole=False)
        running.first.send(Kind.COPIED, 0, number=0)
        self._reinstate(running.first)
        if running.copy and not running.copy.ended.done():
            running.copy.send(Kind.COPIED, 0, number=1)

    def _end(self, running: _Running, *, is_whole: bool) -> None:
        del self._running[running.first.name]
        if running.watch:
            running.watch.cancel()
        if not running.end.done():  # nobody may wait for it any more
            running.end.set_result(is_whole)

    def _watch(self, running: _Running, limit_s: float) -> None:
        if running.watch:
            running.watch.cancel()
        running.watch = asyncio.get_running_loop().call_later(limit_s, self._look, running)

    def _look(self, running: _Running) -> None:
        """End a copy that has not come, or has stopped."""
        passed_bytes = running.passage.passed_bytes if running.passage else -1
        if passed_bytes > running.watched_bytes:
            running.watched_bytes = passed_bytes
            self._watch(running, _MOVES_WITHIN_S)
            return
        self._give_back(running)
        if running.passage:
            running.passage.end()
