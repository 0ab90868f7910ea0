"""The table's keys and columns and the messages' fields have one home each: elsewhere they are not written as text."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import get_type_hints

import pytest

from burstcache.core import table
from support.project import ROOT

_PACKAGE = ROOT / "src" / "burstcache"
_HOMES = {_PACKAGE / "core" / "table.py", *(_PACKAGE / "core" / "messages").glob("*.py")}
_PREFIXES = re.compile(r"(KEY|NODE|LEASE|HOT)#|^(ROUTE|HOT)$")
_COLUMNS = set().union(
    *(get_type_hints(columns) for columns in (table.KeyColumns, table.NodeColumns, table.LeaseColumns))
)
# Words that mean other things as well: what is logged, a header, an address, a bus event's field, an instance's boot.
_EVERYDAY = {"key", "node", "host", "window", "trigger", "running", "etag", "entry", "part", "tier"}
_EXPRESSION = re.compile(r"\b(SET|REMOVE|ADD|DELETE) #?\w+|= :\w+|\battribute_(not_)?exists\b")


def strangers(source: str) -> list[str]:
    """Return the text constants of a module, docstrings apart, that belong into one of the homes.

    A column or field as a subscript of a TypedDict, or where a Literal is expected, is checked by mypy.
    """
    tree = ast.parse(source)
    constants = (node for node in ast.walk(tree) if isinstance(node, ast.Constant))
    texts = {id(node): node.value for node in constants if isinstance(node.value, str)}
    keys = {id(key) for node in ast.walk(tree) if isinstance(node, ast.Dict) for key in node.keys}
    fields = {id(node.slice) for node in ast.walk(tree) if isinstance(node, ast.Subscript)} | keys
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr):  # a docstring
            texts.pop(id(node.value), None)
    return [
        text
        for place, text in texts.items()
        if _PREFIXES.search(text)
        or _EXPRESSION.search(text)
        or (text == "op" and place in fields)
        or (text in _COLUMNS - _EVERYDAY and place in keys)
    ]


@pytest.mark.parametrize("path", sorted(set(_PACKAGE.rglob("*.py")) - _HOMES), ids=lambda path: path.name)
def test_no_key_column_or_field_is_written_as_text(path: Path) -> None:
    allowed = ALLOWED.get(str(path.relative_to(_PACKAGE)), set())

    assert set(strangers(path.read_text())) - allowed == set()


ALLOWED = {
    "adapters/functions.py": {"op"},  # logged
    "adapters/key_table.py": {"SET ", "expires_at"},  # the shape of an expression, and the one column that is its own
    "control/operations.py": {"op"},  # the field by which operations are told apart
    "control/state_leases.py": {"op"},
    "control/cache_life.py": {"op"},  # … and orders
    "control/pool_operations.py": {"op"},
    "handlers/pool_control.py": {"op"},
    "pool/environment.py": {"served"},  # of a member's answer
    "handlers/cache.py": {"epoch"},  # logged
}


@pytest.mark.parametrize(
    "source",
    ['pk = f"KEY#{hash_}"', '{"deadline_at_us": 1}', 'message["op"]', 'condition = "epoch = :epoch"', 'sk = "ROUTE"'],
)
def test_a_key_column_or_field_written_as_text_is_found(source: str) -> None:
    assert strangers(source)
