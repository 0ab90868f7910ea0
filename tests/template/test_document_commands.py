"""Every command that a document names exists: of `burstcache` with its options, of make, of Python, of SAM CLI."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest

from burstcache_cli.cli import _function
from burstcache_cli.registry import COMMANDS, GROUPS, TOPICS
from burstcache_terminal.options import Parser
from support.project import ROOT

_DOCUMENTS = sorted(
    path
    for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md"))
    if path.name != "CHANGELOG.md"  # which names what there was
)
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.M | re.S)
_INLINE = re.compile(r"`([^`\n]+(?:\n[^`\n]+)?)`")
_PROGRAM = re.compile(r"(?:\S*/)?(burstcache|make|sam|python)(?= [a-z-]|$)")
_TARGETS = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.M))
# What stands in code without being a command: names of programs, packages and instances.
_NO_CALL = {"burstcache", "make", "python", "sam", "burstcache node-1"}


def _calls(text: str) -> Iterator[str]:
    """Yield the commands that a document tells its reader to type, by their first word."""
    for language, block in _FENCE.findall(text):
        if language in ("", "bash", "sh", "console", "make"):
            for line in block.replace("\\\n", " ").splitlines():
                yield from (part.strip() for part in re.split(r"&&|\|\||;|\$\(", line.partition("  #")[0]))
    for inline in _INLINE.findall(_FENCE.sub("", text)):
        yield " ".join(inline.split())


def _named(program: str) -> list[tuple[str, str]]:
    """Return document and call for each call of a program."""
    return [
        (str(path.relative_to(ROOT)), call)
        for path in _DOCUMENTS
        for call in _calls(path.read_text())
        if (match := _PROGRAM.match(call)) and match[1] == program and call not in _NO_CALL
    ]


@cache
def _options(words: str) -> set[str]:
    parser = Parser(prog=words)
    _function(next(command for command in COMMANDS if command.words == words).options)(parser)
    kinds = [kind for action in parser._actions if isinstance(action.choices, dict) for kind in action.choices.values()]
    return {
        "--debug",
        *parser._option_string_actions,
        *(name for kind in kinds for name in kind._option_string_actions),
    }


def _problem(call: str) -> str:
    """Return the first part of a `burstcache` call that does not exist."""
    words = _words(call)[1:]
    known = {command.words for command in COMMANDS}
    command = next((" ".join(words[:n]) for n in (2, 1) if " ".join(words[:n]) in known), None)
    if command is None:
        rest = words[1:] if words and words[0] in {*GROUPS, *TOPICS} else words
        is_whole = not rest or rest[0].startswith(("-", "…"))
        return "" if is_whole else "no such command"
    absent = [word for word in words if word.startswith("--") and word.partition("=")[0] not in _options(command)]
    return f"no option {', '.join(absent)}" if absent else ""


def _words(call: str) -> list[str]:
    try:
        return shlex.split(call, comments=True)
    except ValueError:  # the end of a substitution, whose beginning was cut off
        return call.rstrip(')"').split()


def test_commands_of_burstcache_exist_with_their_options() -> None:
    calls = _named("burstcache")

    assert len(calls) > 100
    assert [(path, call, problem) for path, call in calls if (problem := _problem(call))] == []


def test_targets_of_make_exist() -> None:
    calls = _named("make")

    assert len(calls) > 50
    assert [(path, call) for path, call in calls if _words(call)[1] not in _TARGETS] == []


def test_sam_is_named_by_where_it_is() -> None:
    evidence = ("docs/evidence/", "docs/understand/")  # which speak of its commands, and have nobody type them
    typed = [(path, call) for path, call in _named("sam") if not path.startswith(evidence)]

    assert [(path, call) for path, call in typed if ".venv-sam/bin/sam" not in call.split()[0]] == []


def test_modules_that_python_is_to_run_exist() -> None:
    modules = [(path, match[1]) for path, call in _named("python") if (match := re.search(r" -m ([\w.]+)", call))]

    assert len(modules) >= 5
    assert [(path, module) for path, module in modules if module.islower() and find_spec(module) is None] == []


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        ("burstcache show nodes", "no such command"),
        ("burstcache keys --jsn", "no option --jsn"),
        ("burstcache sim", ""),
        ("burstcache operate", ""),
        ("burstcache operate keys", "no such command"),
        ("burstcache redis status --json", ""),
    ],
)
def test_a_command_that_does_not_exist_is_found(call: str, problem: str) -> None:
    assert _problem(call) == problem


def test_every_document_is_read() -> None:
    assert Path(ROOT / "docs" / "operate" / "operations.md") in _DOCUMENTS
