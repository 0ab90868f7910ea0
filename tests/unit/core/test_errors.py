"""The errors are the tree that their module draws, and their names say which may be retried."""

from __future__ import annotations

import inspect
import pickle
import re

import pytest

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


@pytest.mark.parametrize(
    "error",
    [
        errors.RefusedRequestError(400, "EmptyKey", "the key is empty", {"allow": "GET"}),
        errors.RangeNotSatisfiableError("no byte", etag='"e"', size_bytes=3),
        errors.ServiceError("refused", code="Throttling", reasons=("None",)),
    ],
)
def test_an_error_reaches_another_process_whole(error: errors.BurstcacheError) -> None:
    received = pickle.loads(pickle.dumps(error))

    assert (type(received), str(received), vars(received)) == (type(error), str(error), vars(error))


def test_what_may_be_retried_is_a_transient_error_by_name_and_by_class() -> None:
    for name, cls in _CLASSES.items():
        assert name.endswith("TransientError") is issubclass(cls, errors.TransientError), name
