"""The project's sources and other text files, for tests that scan all of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from support.project import ROOT

_FOLDERS = (
    "src", "cloudformation", "instance", "tools", "tests", "benchmarks", "research", "examples", "docs", "events",
    "statemachines",
)  # fmt: skip


def sources(*suffixes: str, under: str = "") -> Iterator[Path]:
    """Yield the files with these suffixes in `under`, by default in the top-level folder and all source folders."""
    if not under:
        yield from (path for path in sorted(ROOT.iterdir()) if path.is_file() and path.suffix in suffixes)
    for folder in [under] if under else _FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in suffixes and path.is_file() and not any(map(_is_made, path.relative_to(ROOT).parts)):
                yield path


def _is_made(part: str) -> bool:
    """Return True if a file or folder with this name is hidden or a build artifact."""
    return part.startswith(".") or ".egg-info" in part
