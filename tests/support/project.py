"""The project's files and its template."""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
STACK = "burstcache"  # name of the tests' stack
# For a new interpreter: the deployed code, and the tools that run on a user's machine.
PYTHONPATH = os.pathsep.join(map(str, (ROOT / "src", ROOT / "tools")))


@functools.cache
def template() -> dict[str, Any]:
    """Return the template as written. It is shared, so read-only."""
    from samtranslator.yaml_helper import yaml_parse  # most users of `ROOT` do without it

    return yaml_parse((ROOT / "template.yaml").read_text())  # type: ignore[no-any-return]
