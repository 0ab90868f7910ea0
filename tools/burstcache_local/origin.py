"""Objects for the origin, loaded from files."""

from __future__ import annotations

import mimetypes
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from burstcache_local.errors import LocalCloudError

_MAX_KEY_BYTES = 1024  # S3's limit


@dataclass(frozen=True, slots=True)
class OriginFile:
    """A file and its object key."""

    path: Path
    key: str


def origin_files(folder: Path) -> list[OriginFile]:
    """Return all files under a folder, ordered by key.

    Raises:
        LocalCloudError: The path is not a folder, or a file cannot become an object. The message names the file and
            the reason.
    """
    if not folder.is_dir():
        raise LocalCloudError(f"{folder} is not a folder: give --origin a folder whose files become objects")
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return [OriginFile(path, _key(path, folder)) for path in paths]


def upload(files: Iterable[OriginFile], bucket: str, s3: Any) -> None:
    """Upload files to a bucket, with content types guessed from the file names."""
    for file in files:
        kind, encoding = mimetypes.guess_type(file.path.name)
        with file.path.open("rb") as body:
            s3.put_object(
                Bucket=bucket,
                Key=file.key,
                Body=body,
                ContentType=kind or "application/octet-stream",
                **({"ContentEncoding": encoding} if encoding else {}),
            )


def _key(path: Path, folder: Path) -> str:
    name = path.relative_to(folder).as_posix()
    try:
        size_bytes = len(name.encode())
    except UnicodeEncodeError:
        raise LocalCloudError(f"{os.fsencode(path)!r}: its name is not UTF-8, as an object's key must be") from None
    if size_bytes > _MAX_KEY_BYTES:
        raise LocalCloudError(f"{path}: its key has {size_bytes} bytes, of which S3 accepts {_MAX_KEY_BYTES}")
    if not os.access(path, os.R_OK):
        raise LocalCloudError(f"{path} cannot be read: change its permissions, or leave it out")
    return name
