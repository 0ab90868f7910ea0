"""Where the project's own files are."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).parents[2]
# For a fresh interpreter: what is deployed, and what runs on a person's machine.
PYTHONPATH = os.pathsep.join(map(str, (ROOT / "src", ROOT / "tools")))
