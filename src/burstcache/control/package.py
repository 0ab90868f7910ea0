"""The running function's package, for a container that runs the same code."""

from __future__ import annotations

import base64
import io
import zipfile
from pathlib import Path

_COMPILED = "__pycache__"


def packed(root: Path | None = None) -> str:
    """Return a zip archive of the function's package as base64. Lambda limits a response to 6 MB.

    Args:
        root: The package's folder. The default is the folder that this code was loaded from.
    """
    root = root or Path(__file__).parents[2]
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as files:
        for path in sorted(root.rglob("*")):
            if path.is_file() and _COMPILED not in path.parts:
                files.write(path, path.relative_to(root))
    return base64.b64encode(archive.getvalue()).decode()
