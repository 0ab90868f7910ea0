"""Error copies: each caller that shares a failed computation raises its own exception.

Raising an exception appends the caller's frames to its traceback. A shared exception would accumulate the frames of all
callers.
"""

from __future__ import annotations

import copy
from types import GetSetDescriptorType, MemberDescriptorType, TracebackType
from typing import Any


def copy_error(error: Exception, traceback: TracebackType | None) -> Exception | None:
    """Return an exception with the same class, arguments, attributes, notes and cause.

    Args:
        error: The exception, which another thread may be raising concurrently.
        traceback: The copy's initial traceback: the place where the exception was first raised.

    Returns:
        The copy, or None if the class does not allow an equal copy.
    """
    for make in (_allocate, copy.copy):  # `_allocate` runs no code of the class, which may log or require arguments
        try:
            made = make(error)
            if type(made) is type(error) and made is not error:
                _fill(made, error)
                if str(made) == str(error):
                    return made.with_traceback(traceback)
        except Exception:  # any exception, from a class that cannot be copied this way
            continue
    return None


def _allocate(error: Exception) -> Exception:
    built_in = next(each for each in type(error).__mro__ if each.__module__ == "builtins")
    return built_in.__new__(type(error), *error.args)


def _fill(made: Exception, error: Exception) -> None:
    vars(made).update(vars(error))
    if (notes := vars(made).get("__notes__")) is not None:
        vars(made)["__notes__"] = list(notes)
    for name in _members(type(error)):
        value = getattr(error, name, None)
        if getattr(made, name, None) is not value:
            _set(made, name, value)
    for name in ("args", "__cause__", "__context__", "__suppress_context__"):  # `__cause__` also sets the last one
        BaseException.__setattr__(made, name, getattr(error, name))  # a frozen dataclass overrides `__setattr__`


def _set(made: Exception, name: str, value: Any) -> None:
    try:
        BaseException.__setattr__(made, name, value)
    except (AttributeError, TypeError):  # the attribute is read-only, or unset in both exceptions
        if getattr(made, name, None) != value:
            raise


def _members(kind: type[Any]) -> list[str]:
    """Return the names of attributes outside the instance's dictionary, such as slots or an OSError's `filename`."""
    return [
        name
        for each in kind.__mro__
        for name, member in vars(each).items()
        if isinstance(member, (MemberDescriptorType, GetSetDescriptorType)) and not name.startswith("__")
    ]
