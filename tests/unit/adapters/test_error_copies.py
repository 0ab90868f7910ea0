"""Copies of exceptions: all that can be seen of the original, and no state shared with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from burstcache.adapters.error_copies import copy_error


class Keyword(Exception):
    def __init__(self, text: str, *, status: int) -> None:
        super().__init__(f"{text} {status}")
        self.status = status


class Slots(Exception):
    __slots__ = ("status",)

    def __init__(self, status: int) -> None:
        self.status = status


class OwnNew(Exception):
    def __new__(cls, *, status: int) -> OwnNew:
        return super().__new__(cls)

    def __init__(self, *, status: int) -> None:
        self.status = status


@dataclass(frozen=True)
class Frozen(Exception):
    status: int


class Counting(Exception):
    made = 0

    def __init__(self) -> None:
        type(self).made += 1


def _raised(call: Callable[[], Any]) -> Exception:
    try:
        call()
    except Exception as error:
        return error
    raise AssertionError


ERRORS = [
    ValueError("no"), KeyError("a"), OSError(2, "no", "a.txt"), FileNotFoundError(2, "no", "a", None, "b"),
    BlockingIOError(11, "no", 5), ImportError("no", name="a", path="b"), StopIteration(5), Keyword("a", status=404),
    Slots(404), OwnNew(status=404), Counting(), ExceptionGroup("no", [ValueError(1), KeyError(2)]),
    UnicodeEncodeError("utf8", "a", 0, 1, "no"), _raised(lambda: b"\xff".decode()), _raised(lambda: (1).a),  # type: ignore[attr-defined]
    _raised(lambda: compile("a b", "file", "exec")), _raised(lambda: int("x")),
    ClientError({"Error": {"Code": "NoSuchKey"}}, "GetObject"), EndpointConnectionError(endpoint_url="http://a"),
]  # fmt: skip
_ATTRIBUTES = (
    "filename", "filename2", "errno", "strerror", "characters_written", "name", "path", "obj", "value", "status",
    "object", "start", "lineno", "text", "exceptions", "response", "operation_name",
)  # fmt: skip


def _seen(error: BaseException) -> dict[str, Any]:
    return {
        "type": type(error), "args": error.args, "text": str(error), "repr": repr(error), "variables": vars(error),
        "cause": error.__cause__, "context": error.__context__, "is_suppressed": error.__suppress_context__,
        **{name: getattr(error, name, None) for name in _ATTRIBUTES},
    }  # fmt: skip


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("cause", [None, LookupError("cause")])
def test_a_copy_has_all_that_can_be_seen_and_notes_of_its_own(error: Exception, cause: Exception | None) -> None:
    error.add_note("first")
    error.__cause__ = cause
    made = Counting.made

    copy = copy_error(error, None)

    assert copy is not None
    assert copy is not error
    assert _seen(copy) == _seen(error)
    copy.add_note("second")
    assert error.__notes__ == ["first"]
    assert Counting.made == made
    del error.__notes__


class Refusing(Exception):
    """Cannot be made twice."""

    def __str__(self) -> str:
        return str(id(self))


def test_an_exception_that_no_copy_equals_is_not_copied() -> None:
    assert copy_error(Refusing(), None) is None
