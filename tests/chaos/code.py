"""The version of the code that results belong to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path

_PROJECT = Path(__file__).parents[2]


def code_of(project: Path = _PROJECT, *, also: Sequence[str] = ()) -> str:
    """Return a short hash of the deployed code, and of other folders."""
    found = sha256()
    for path in _files(project, also):
        content = path.read_bytes()
        found.update(f"{path.relative_to(project)} {len(content)}\n".encode() + content)
    return found.hexdigest()[:12]


def _files(project: Path, also: Sequence[str]) -> Iterator[Path]:
    yield project / "template.yaml"
    for folder in ("cloudformation", "src", "statemachines", *also):
        for path in sorted((project / folder).rglob("*")):
            if path.is_file() and path.suffix != ".pyc" and not any(".egg-info" in part for part in path.parts):
                yield path
