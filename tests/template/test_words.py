"""Rules for words in the code: see the section "Words" of `CONTRIBUTING.md`."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from support.project import ROOT
from support.sources import sources

_PRODUCT = ("src", "tools", "cloudformation")
_NO_VERB = re.compile(r"(?:what|how|whatever|return (?:what|how))\b", re.IGNORECASE)
Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def _modules() -> dict[str, ast.Module]:
    return {str(path.relative_to(ROOT)): ast.parse(path.read_text()) for path in sources(".py")}


def _lacks_its_name(path: str, tree: ast.Module) -> bool:
    """Whether the first line of a module's docstring has no word of the module's name, in singular or plural."""
    name = (Path(path).stem if Path(path).stem != "__init__" else Path(path).parent.name).strip("_")
    line = (ast.get_docstring(tree) or "").partition("\n")[0].lower()
    stems = [re.sub(r"e?s?$", "", word) for word in name.split("_") if len(word) > 2] or [name]
    return not any(re.search(rf"\b{re.escape(stem)}", line) for stem in stems) and name not in re.sub(r"\W", "", line)


def _begins_without_a_verb(path: str, tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, Function) and _NO_VERB.match(docstring := ast.get_docstring(node) or ""):
            yield f"{path}:{node.lineno}: {docstring.partition(chr(10))[0]}"


def _public_classes(tree: ast.Module) -> Iterator[str]:
    yield from (node.name for node in tree.body if isinstance(node, ast.ClassDef) and not node.name.startswith("_"))


def test_the_docstring_of_a_module_names_it() -> None:
    product = {path: tree for path, tree in _modules().items() if path.startswith(_PRODUCT)}

    assert len(product) > 600
    assert [path for path, tree in product.items() if _lacks_its_name(path, tree)] == []


def test_the_docstring_of_a_function_begins_with_a_verb() -> None:
    assert [line for path, tree in _modules().items() for line in _begins_without_a_verb(path, tree)] == []


def test_a_public_class_has_a_name_of_its_own_in_the_library() -> None:
    library = [tree for path, tree in _modules().items() if path.startswith("src/")]

    names = Counter(name for tree in library for name in _public_classes(tree))

    assert len(names) > 400
    assert [name for name, count in names.items() if count > 1] == []


@pytest.mark.parametrize(
    ("path", "text", "is_right"),
    [
        ("src/burstcache/pool/peers.py", '"""Peers: other hubs of one pool."""', True),
        ("src/burstcache/pool/hub.py", '"""Where members dial in."""', False),
        ("src/burstcache/core/__init__.py", '"""The core decides."""', True),
        ("src/burstcache/core/breakeven.py", '"""The break-even policy."""', True),
        ("src/burstcache/serve/__init__.py", '"""Serving of requests."""', True),
        ("src/burstcache/control/cache_lease.py", '"""The lease of a cache function."""', True),
        ("src/burstcache/serve/tier.py", "", False),
    ],
)
def test_a_docstring_without_the_module_s_name_is_found(path: str, text: str, is_right: bool) -> None:
    assert _lacks_its_name(path, ast.parse(text)) is not is_right


@pytest.mark.parametrize("docstring", ["What a look finds.", "How long it takes.", "Return what stands for a report."])
def test_a_docstring_without_a_verb_is_found(docstring: str) -> None:
    assert list(_begins_without_a_verb("a.py", ast.parse(f'class A:\n    def b(self):\n        """{docstring}"""')))
