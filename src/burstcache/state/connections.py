"""Connections that serve while their database is held.

Whatever a client of redis-py hands out (a pipeline, a subscription, a client with a connection of its own) speaks over
such a connection, so all of it ends with the lease.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any


class _Checked:
    """The mark of a connection that asks `check` before each step, and before it passes on a failure."""

    def __init__(self, *, check: Callable[[], None], **options: Any) -> None:
        self._check = check
        super().__init__(**options)

    @contextmanager
    def _held(self) -> Iterator[None]:
        self._check()
        try:
            yield
        except Exception:  # of any kind: redis-py expects nobody to close a connection that another thread reads from
            self._check()
            raise


class _Held(_Checked):
    """Steps of a connection of redis-py."""

    def connect_check_health(self, *arguments: Any, **options: Any) -> Any:
        with self._held():
            return super().connect_check_health(*arguments, **options)  # type: ignore[misc]

    def send_packed_command(self, *arguments: Any, **options: Any) -> Any:
        with self._held():
            return super().send_packed_command(*arguments, **options)  # type: ignore[misc]

    def can_read(self, *arguments: Any, **options: Any) -> Any:
        with self._held():
            return super().can_read(*arguments, **options)  # type: ignore[misc]

    def read_response(self, *arguments: Any, **options: Any) -> Any:
        with self._held():
            return super().read_response(*arguments, **options)  # type: ignore[misc]


class _AsyncHeld(_Checked):
    """Steps of a connection of redis.asyncio."""

    async def connect_check_health(self, *arguments: Any, **options: Any) -> Any:
        with self._held():
            return await super().connect_check_health(*arguments, **options)  # type: ignore[misc]

    async def send_packed_command(self, *arguments: Any, **options: Any) -> Any:
        with self._held():
            return await super().send_packed_command(*arguments, **options)  # type: ignore[misc]

    async def can_read(self, *arguments: Any, **options: Any) -> Any:
        with self._held():
            return await super().can_read(*arguments, **options)  # type: ignore[misc]

    async def can_read_destructive(self, *arguments: Any, **options: Any) -> Any:
        with self._held():
            return await super().can_read_destructive(*arguments, **options)  # type: ignore[misc]

    async def read_response(self, *arguments: Any, **options: Any) -> Any:
        with self._held():
            return await super().read_response(*arguments, **options)  # type: ignore[misc]


@cache
def held(kind: type, *, is_async: bool) -> type:
    """Return a kind of connections that takes one more argument, `check`, which raises once the lease is over."""
    return type(f"Held{kind.__name__}", (_AsyncHeld if is_async else _Held, kind), {})
