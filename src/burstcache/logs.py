"""Logs: structured lines in the stack's own functions, and Python's `logging` in a caller's process.

A successful read logs nothing, so Powertools' logger is imported with the first log line.
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
    """A logger with structured fields (`details`)."""

    def info(self, msg: str, *args: object, **details: Any) -> None: ...
    def warning(self, msg: str, *args: object, **details: Any) -> None: ...
    def error(self, msg: str, *args: object, **details: Any) -> None: ...
    def exception(self, msg: str, *args: object, **details: Any) -> None: ...


@cache
def logger() -> Log:
    """Return this process's logger."""
    return _powertools() if _is_structured else OnceLog(logging.getLogger("burstcache"))


def log_structured_lines() -> None:
    """Switch this process to structured lines, for the stack's functions."""
    global _is_structured
    _is_structured = True
    logger.cache_clear()


def name_request(request_id: str) -> None:
    """Set the field `function_request_id`, Powertools' name for Lambda's request id, in all later lines.

    Powertools' own decorator would import Powertools even for reads that log nothing, and would add fields that only
    repeat the log group's name.
    """
    global _request_id
    _request_id = request_id
    if _is_structured and logger.cache_info().currsize:
        logger().append_keys(function_request_id=request_id)  # type: ignore[attr-defined]


class OnceLog(logging.LoggerAdapter[logging.Logger]):
    """A logger that writes each cause once, instead of at every read while the cache is down."""

    def __init__(self, log: logging.Logger) -> None:
        super().__init__(log)
        self._written: set[str] = set()

    def process(self, msg: str, kwargs: MutableMapping[str, Any]) -> tuple[str, MutableMapping[str, Any]]:
        """Append the details to the message as text."""
        details = ", ".join(f"{name}: {value}" for name, value in kwargs.items() if name not in _OF_LOGGING)
        standard = {name: value for name, value in kwargs.items() if name in _OF_LOGGING}
        return f"{msg} ({details})" if details else msg, standard

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        """Write a line, unless its cause was logged before. Object keys are not part of a cause."""
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
