"""Parts that are interrupted: something else happens in the middle of their work."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context
from typing import Any, TypeVar

T = TypeVar("T")


def after(part: T, method: str, then: Callable[[], object]) -> T:
    """Return `part` with something else happening right after the first call of one of its methods."""
    return _Interrupted(part, method, then)  # type: ignore[return-value]


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
