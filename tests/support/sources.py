"""The project's own text files, for tests that read all of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from support.project import ROOT

_FOLDERS = (
    "src", "cloudformation", "tools", "tests", "benchmarks", "research", "examples", "docs", "events", "statemachines",
)  # fmt: skip


def sources(*suffixes: str, under: str = "") -> Iterator[Path]:
    """Yield the project's files with one of these suffixes in a folder, or in all of them and at the top level."""
    if not under:
        yield from (path for path in sorted(ROOT.iterdir()) if path.is_file() and path.suffix in suffixes)
    for folder in [under] if under else _FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in suffixes and path.is_file() and not any(map(_is_made, path.relative_to(ROOT).parts)):
                yield path


def _is_made(part: str) -> bool:
    """Whether a file or folder of this name was made by a build."""
    return part.startswith(".") or ".egg-info" in part
