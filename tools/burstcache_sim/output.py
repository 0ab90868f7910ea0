"""Output of a command: to a file, into a folder, to standard output."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from errno import EACCES
from pathlib import Path

from burstcache.core.errors import InvalidSettingError

STANDARD_OUTPUT = "-"


def check_target(option: str, name: str) -> None:
    """Check before a long computation that its output file can be written.

    Args:
        option: The option that names the file, for the error message.
        name: A file, or `-` for standard output.

    Raises:
        InvalidSettingError: The name is a folder, its parent folder does not exist, or the file is not writable.
    """
    if name == STANDARD_OUTPUT:
        return
    path = Path(name)
    if path.is_dir():
        raise _refusal(option, name, "it is a folder")
    if not path.parent.is_dir():
        raise _refusal(option, name, f"there is no folder {path.parent}")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise _refusal(option, name, os.strerror(EACCES))


def write_lines(option: str, name: str, lines: Iterable[str]) -> None:
    """Write lines to a file, or to standard output if it is named `-`.

    Raises:
        InvalidSettingError: The file cannot be written.
    """
    if name == STANDARD_OUTPUT:
        sys.stdout.writelines(lines)
        return
    try:
        with open(name, "w", encoding="utf-8", newline="") as file:
            file.writelines(lines)
    except OSError as error:
        raise _refusal(option, name, error.strerror) from error


def made_folder(option: str, name: str | Path) -> Path:
    """Return a writable folder, creating it if it is missing.

    Raises:
        InvalidSettingError: The folder cannot be created or is not writable.
    """
    path = Path(name)
    try:
        path.mkdir(parents=True, exist_ok=True)
        if not os.access(path, os.W_OK):
            raise PermissionError(EACCES, os.strerror(EACCES))
    except OSError as error:
        reason = error.strerror
        raise InvalidSettingError(f"{option} {path}: expected a folder that can be written ({reason})") from error
    return path


def _refusal(option: str, name: str, reason: str | None) -> InvalidSettingError:
    return InvalidSettingError(f"{option} {name}: expected a file that can be written ({reason})")
