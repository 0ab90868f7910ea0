"""Decorators for compiled inner loops. The code is compiled once per machine and cached on disk."""

from __future__ import annotations

import hashlib
import importlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

_Function = TypeVar("_Function", bound=Callable[..., Any])

numba: Any = importlib.import_module("numba")  # takes half a second, so import this module lazily


def cache_folder() -> Path:
    """Return the folder for compiled code: below XDG_CACHE_HOME or ~/.cache, else below the temporary folder."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    for folder in (Path(base) / "burstcache", Path(tempfile.gettempdir()) / f"burstcache-{os.getuid()}"):
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(folder, os.W_OK) and folder.stat().st_uid == os.getuid():
            return folder
    return Path(tempfile.mkdtemp(prefix="burstcache-"))


def sources_digest(folder: Path = Path(__file__).parents[1]) -> str:
    """Hash all sources of compiled code, to version its cache.

    numba detects changes in a function's own file, but not in the files of its constants and callees.
    """
    sources = (path for package in ("engine", "optimum") for path in sorted((folder / package).glob("*.py")))
    return hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:16]


def compiled(function: _Function) -> _Function:
    """Compile a function of integers and arrays at its first call. It runs without the GIL."""
    return cast(_Function, numba.njit(cache=True, nogil=True)(function))


def uncounted(function: _Function) -> _Function:
    """Compile a function that allocates nothing, without reference counting, because its caller owns the arrays.

    Reference counting takes longer than most of these functions.
    """
    return cast(_Function, numba.njit(cache=True, nogil=True, _nrt=False)(function))


def inlined(function: _Function) -> _Function:
    """Compile like `uncounted`, inlined into every caller. Passing many arrays takes longer than a short function."""
    return cast(_Function, numba.njit(cache=True, nogil=True, _nrt=False, forceinline=True)(function))


if not numba.config.CACHE_DIR:  # NUMBA_CACHE_DIR takes precedence
    numba.config.CACHE_DIR = str(cache_folder() / sources_digest())
