"""Connections that work only while their database's lease is held, or that look for its address.

Pipelines, subscriptions and single-connection clients of redis-py all use such connections. Therefore all of these end
with the lease.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any


class _Checked:
    """A connection that calls `check` before each operation, and before it propagates an error."""

    def __init__(self, *, check: Callable[[], None], locate: Callable[[], str] | None = None, **options: Any) -> None:
        self._check = check
        self._locate = locate
        super().__init__(**options)

    @contextmanager
    def _held(self) -> Iterator[None]:
        self._check()
        try:
            yield
        except Exception:  # any exception, since redis-py does not expect another thread to close the connection
            self._check()
            raise


class _Held(_Checked):
    """Checked operations of a redis-py connection."""

    def _connect(self) -> Any:
        if self._locate is not None:
            self.host = self._locate()
        return super()._connect()  # type: ignore[misc]

    def connect(self, *arguments: Any, **options: Any) -> Any:  # redis-py 5 has no `connect_check_health`
        with self._held():
            return super().connect(*arguments, **options)  # type: ignore[misc]

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
    """Checked operations of a redis.asyncio connection."""

    async def connect(self, *arguments: Any, **options: Any) -> Any:
        with self._held():
            return await super().connect(*arguments, **options)  # type: ignore[misc]

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
    """Return a subclass of a connection class with two extra arguments.

    `check` raises once the lease is lost. `locate` returns the address for each new connection.
    """
    return type(f"Held{kind.__name__}", (_AsyncHeld if is_async else _Held, kind), {})
