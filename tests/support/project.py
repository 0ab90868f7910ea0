"""Where the project's own files are."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

ROOT = Path(__file__).parents[2]
_DEPLOYED = ("cloudformation", "src", "statemachines", "template.yaml")
# For a fresh interpreter: what is deployed, and what runs on a person's machine.
PYTHONPATH = os.pathsep.join(map(str, (ROOT / "src", ROOT / "tools")))


def fingerprint(*more: str) -> str:
    """Return a hash of what is deployed, and of more of the project's files and folders: the state a result is of."""
    found = hashlib.sha256()
    for name in (*_DEPLOYED, *more):
        top = ROOT / name
        for path in sorted(top.rglob("*")) if top.is_dir() else [top]:
            if path.is_file() and path.suffix != ".pyc":
                found.update(f"{path.relative_to(ROOT)}\0{path.stat().st_size}\0".encode() + path.read_bytes())
    return found.hexdigest()[:12]
