"""The log: structured lines in the stack's own functions, Python's `logging` in a caller's process.

A read that goes well writes nothing, so the library of structured logs is imported at the first line.
"""

from __future__ import annotations

import logging
import re
from collections.abc import MutableMapping
from functools import cache
from typing import Any, Protocol

_OF_LOGGING = frozenset({"exc_info", "extra", "stack_info", "stacklevel"})
_HASH = re.compile(r"[0-9a-f]{32}")
_MAX_CAUSES = 1000
_is_structured = False
_request_id = ""


class Log(Protocol):
    """What code here asks of a log; `details` are fields of a structured line."""

    def info(self, msg: str, *args: object, **details: Any) -> None: ...
    def warning(self, msg: str, *args: object, **details: Any) -> None: ...
    def error(self, msg: str, *args: object, **details: Any) -> None: ...
    def exception(self, msg: str, *args: object, **details: Any) -> None: ...


@cache
def logger() -> Log:
    """Return this process's log."""
    return _powertools() if _is_structured else OnceLog(logging.getLogger("burstcache"))


def log_structured_lines() -> None:
    """Have this process write structured lines, as one of the stack's functions does."""
    global _is_structured
    _is_structured = True
    logger.cache_clear()


def name_request(request_id: str) -> None:
    """Have each structured line from now on name the request that a function works on, as Powertools names it.

    Its own decorator would import it for reads that write no line, and add what the log group's name says already.
    """
    global _request_id
    _request_id = request_id
    if _is_structured and logger.cache_info().currsize:
        logger().append_keys(function_request_id=request_id)  # type: ignore[attr-defined]


class OnceLog(logging.LoggerAdapter[logging.Logger]):
    """Writes each cause once: a program that reads without the cache need not hear of it at every read."""

    def __init__(self, log: logging.Logger) -> None:
        super().__init__(log)
        self._written: set[str] = set()

    def process(self, msg: str, kwargs: MutableMapping[str, Any]) -> tuple[str, MutableMapping[str, Any]]:
        """Return the line with its details as text."""
        details = ", ".join(f"{name}: {value}" for name, value in kwargs.items() if name not in _OF_LOGGING)
        kept = {name: value for name, value in kwargs.items() if name in _OF_LOGGING}
        return f"{msg} ({details})" if details else msg, kept

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        """Write a line, unless one of the same cause was written: the key that met it is no part of a cause."""
        key = str(kwargs.get("key", ""))
        reason = str(kwargs.get("reason", ""))
        cause = _HASH.sub("", f"{msg}: {reason.replace(repr(key), '') if key else reason}")
        if cause not in self._written and len(self._written) < _MAX_CAUSES:
            self._written.add(cause)
            super().log(level, msg, *args, **kwargs)


def _powertools() -> Log:
    from aws_lambda_powertools import Logger  # service and level come from POWERTOOLS_SERVICE_NAME and …_LOG_LEVEL

    log = Logger()
    log.append_keys(function_request_id=_request_id)
    return log
