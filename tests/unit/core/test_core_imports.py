"""Imports of `core`: the standard library, itself and the errors, and nothing that does I/O."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.project import ROOT

CORE = ROOT / "src" / "burstcache" / "core"
# Clock, randomness and I/O: with one of these the same inputs need not give the same bytes.
IMPURE = {
    "asyncio", "http", "io", "logging", "multiprocessing", "os", "pathlib", "random", "secrets", "shutil", "socket",
    "subprocess", "tempfile", "threading", "time", "urllib", "uuid",
}  # fmt: skip


def imported_modules(source: str) -> Iterator[str]:
    """Yield the names in a module's import statements at any depth. Relative imports appear as written (`.policy`)."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield "." * node.level + (node.module or "")


def is_allowed(module: str) -> bool:
    if module == "burstcache.core" or module.startswith("burstcache.core."):
        return True
    top = module.partition(".")[0]
    return top in sys.stdlib_module_names and top not in IMPURE


@pytest.mark.parametrize("path", sorted(CORE.rglob("*.py")), ids=lambda path: path.name)
def test_core_imports_nothing_but_the_standard_library_itself_and_the_errors(path: Path) -> None:
    strangers = [module for module in imported_modules(path.read_text()) if not is_allowed(module)]

    assert strangers == []


@pytest.mark.parametrize(
    "source",
    ["import boto3", "from burstcache.adapters.clients import client", "import burstcache.settings", "import time",
     "from random import Random", "def f():\n    import os.path", "from ..aws import clients"],
)  # fmt: skip
def test_an_import_that_core_must_not_have_is_found(source: str) -> None:
    assert [module for module in imported_modules(source) if not is_allowed(module)]


def test_core_is_where_the_test_looks() -> None:
    assert {path.name for path in CORE.glob("*.py")} >= {"keys.py", "parameters.py", "policy.py"}
