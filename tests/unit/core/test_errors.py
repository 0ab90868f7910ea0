"""The errors are the tree that their module draws, and their names say which may be retried."""

from __future__ import annotations

import inspect
import re

from burstcache.core import errors

_CLASSES = {name: cls for name, cls in inspect.getmembers(errors, inspect.isclass) if issubclass(cls, Exception)}


def _drawn() -> dict[str, str]:
    """Return the parent of each error in the docstring's drawing."""
    parents: dict[str, str] = {}
    branch: list[str] = []
    for line in str(errors.__doc__).splitlines():
        if found := re.match(r"    ((?:[│ ]   )*(?:[├└]── )?)(\w+Error)\b", line):
            depth = len(found[1]) // 4
            branch = [*branch[:depth], found[2]]
            if depth:
                parents[found[2]] = branch[depth - 1]
    return parents


def test_the_drawing_is_the_tree() -> None:
    assert _drawn() == {name: cls.__bases__[0].__name__ for name, cls in _CLASSES.items() if name != "BurstcacheError"}


def test_what_may_be_retried_is_a_transient_error_by_name_and_by_class() -> None:
    for name, cls in _CLASSES.items():
        assert name.endswith("TransientError") is issubclass(cls, errors.TransientError), name
