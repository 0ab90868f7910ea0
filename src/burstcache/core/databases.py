"""State databases: names of their nodes, and validation of lease holders' operations."""

from __future__ import annotations

import re
from collections.abc import Mapping

from burstcache.core.errors import InvalidSettingError

_NODE_PREFIX = "state-"
MAX_HOLD_S = 24 * 3600  # a holder that needs the database for longer renews its lease
_FIELDS = {
    "acquire": ("database", "holder", "for_s"),
    "keep": ("database", "holder", "for_s"),
    "release": ("database", "holder"),
    "look": ("database",),
}
_HOLDER = re.compile(r"[0-9A-Za-z_:./+=@-]{1,256}")  # the ARN of an execution matches


def node_of_database(database: str) -> str:
    """Return the name of a database's node."""
    return f"{_NODE_PREFIX}{database}"


def database_of_node(node: str) -> str:
    """Return the name of a node's database."""
    return node.removeprefix(_NODE_PREFIX)


def is_database(node: str) -> bool:
    """Return whether a node is a state database's."""
    return node.startswith(_NODE_PREFIX)


def check_operation(operation: Mapping[str, object]) -> None:
    """Raise InvalidSettingError if an operation is unknown or lacks a field. Users write operations in workflows."""
    op = operation.get("op")
    if not isinstance(op, str) or op not in _FIELDS:
        raise InvalidSettingError(f"op {op!r}: expected one of {', '.join(_FIELDS)}")
    if missing := [name for name in _FIELDS[op] if name not in operation]:
        raise InvalidSettingError(f"{op} lacks {missing[0]!r}: expected {', '.join(_FIELDS[op])}")


def check_holder(holder: str) -> str:
    """Return a holder's name, or raise InvalidSettingError if it is invalid."""
    if not isinstance(holder, str) or not _HOLDER.fullmatch(holder):
        raise InvalidSettingError(f"holder {holder!r}: expected 1 to 256 letters, digits or any of _ : . / + = @ -")
    return holder


def check_hold_s(for_s: int) -> int:
    """Return the duration of a lease [s], or raise InvalidSettingError if it is invalid."""
    if not (type(for_s) is int and 0 < for_s <= MAX_HOLD_S):
        raise InvalidSettingError(f"for_s {for_s!r}: expected whole seconds from 1 to {MAX_HOLD_S}")
    return for_s
