"""Parts that are interrupted: something else happens in the middle of their work."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context
from typing import Any, TypeVar

from burstcache.adapters.object_store import ObjectStore
from support.world import World

T = TypeVar("T")


def after(part: T, method: str, then: Callable[[], object]) -> T:
    """Return `part` with something else happening right after the first call of one of its methods."""
    return _Interrupted(part, method, then)  # type: ignore[return-value]


def deadly(world: World, times: int, which: slice = slice(None)) -> ObjectStore:
    """Return the objects of a world, of which the first `times` reads let cache functions die, oldest first."""
    return _Deadly(world, times, which)  # type: ignore[return-value]


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

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._part, name)
        if name != self._method:
            return found

        def call(*args: Any, **kwargs: Any) -> Any:
            answer = found(*args, **kwargs)
            if self._then:
                Context().run(self._then.pop())  # what happens is nobody's work who is interrupted by it
            return answer

        return call
