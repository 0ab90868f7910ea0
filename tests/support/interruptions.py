"""Interruptions: something else happens in the middle of a part's work."""

from __future__ import annotations

import inspect
import itertools
import sys
from collections.abc import Callable
from contextvars import Context
from types import FrameType, ModuleType
from typing import Any, TypeVar

from burstcache.adapters.object_store import ObjectStore
from support.world import World

T = TypeVar("T")
_SUSPENDS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


def after(part: T, method: str, then: Callable[[], object]) -> T:
    """Wrap `part` so that `then` runs right after the first call of one of its methods."""
    return _Interrupted(part, method, then)  # type: ignore[return-value]


def deadly(world: World, times: int, which: slice = slice(None)) -> ObjectStore:
    """Return a world's object store whose first `times` reads kill cache functions, oldest first."""
    return _Deadly(world, times, which)  # type: ignore[return-value]


def interrupt_at(number: int, module: ModuleType, work: Callable[[], object]) -> KeyboardInterrupt | None:
    """Run `work` with a Ctrl-C at one of the instants at which functions of a module begin or return.

    The interpreter looks for signals at these instants, among others.

    Args:
        number: Of the instant, from 0.
        module: The module.
        work: Runs in this thread.

    Returns:
        The interruption, whose traceback keeps the interrupted frames alive as that of a shell does. None if there
        are fewer instants, so `work` was not interrupted.
    """
    left = itertools.count(number, -1)

    def look(frame: FrameType, event: str, _: object) -> Any:
        code = frame.f_code
        is_one = code.co_filename == module.__file__ and code.co_name != "<genexpr>"  # it may be closing
        # An exception at the event of a yield would skip the generator's own `finally`.
        is_instant = event == "call" or (event == "return" and not code.co_flags & _SUSPENDS)
        if is_one and is_instant and next(left) == 0:
            raise KeyboardInterrupt
        return look

    sys.settrace(look)
    try:
        work()
    except KeyboardInterrupt as interruption:
        return interruption
    finally:
        sys.settrace(None)
    return None


class _Deadly:
    def __init__(self, world: World, times: int, which: slice) -> None:
        self._world, self._left, self._which = world, times, which

    def __getattr__(self, name: str) -> Any:
        return getattr(self._world.objects, name)

    def fetch(self, key: str, *, max_bytes: int) -> Any:
        if self._left:
            self._left -= 1
            self._world.kill_cache(which=self._which)
        return self._world.objects.fetch(key, max_bytes=max_bytes)


class _Interrupted:
    def __init__(self, part: object, method: str, then: Callable[[], object]) -> None:
        self._part, self._method, self._then = part, method, [then]

    @property  # type: ignore[misc]
    def __class__(self) -> Any:  # for `isinstance`
        return type(self._part)

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._part, name)
        if name != self._method:
            return attribute

        def call(*args: Any, **kwargs: Any) -> Any:
            answer = attribute(*args, **kwargs)
            if self._then:
                Context().run(self._then.pop())  # a new context: it does not run as the interrupted function
            return answer

        return call
