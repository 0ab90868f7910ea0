"""Error copies: each caller that waited for one computation raises an exception of its own.

Raising an exception adds the caller's frames to its traceback. A shared one would collect those of all callers.
"""

from __future__ import annotations

import copy
from types import GetSetDescriptorType, MemberDescriptorType, TracebackType
from typing import Any


def copy_error(error: Exception, traceback: TracebackType | None) -> Exception | None:
    """Return an exception of the same class, arguments, attributes, notes and cause.

    Args:
        error: The exception, which its own caller may be raising meanwhile.
        traceback: The one that the copy begins with: where the exception was first raised.

    Returns:
        The copy, or None if the class allows none that is equal.
    """
    for make in (_allocate, copy.copy):  # the first runs no code of the class, which may log or want other arguments
        try:
            made = make(error)
            if type(made) is type(error) and made is not error:
                _fill(made, error)
                if str(made) == str(error):
                    return made.with_traceback(traceback)
        except Exception:  # whatever a class raises that cannot be copied this way
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
    for name in ("args", "__cause__", "__context__", "__suppress_context__"):  # setting a cause sets the last
        BaseException.__setattr__(made, name, getattr(error, name))  # a frozen dataclass has another way of its own


def _set(made: Exception, name: str, value: Any) -> None:
    try:
        BaseException.__setattr__(made, name, value)
    except (AttributeError, TypeError):  # it is read-only, or is not set at all in either
        if getattr(made, name, None) != value:
            raise


def _members(kind: type[Any]) -> list[str]:
    """Return the names of what a class keeps outside the instance's dictionary: `__slots__`, an OSError's file."""
    return [
        name
        for each in kind.__mro__
        for name, member in vars(each).items()
        if isinstance(member, (MemberDescriptorType, GetSetDescriptorType)) and not name.startswith("__")
    ]
