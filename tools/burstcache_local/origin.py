"""The files that become the origin's objects."""

from __future__ import annotations

import mimetypes
from pathlib import Path

from burstcache_local.errors import LocalCloudError
from burstcache_local.moto import endpoints


def check_origin(folder: Path) -> None:
    """Raise LocalCloudError if `folder` is not one."""
    if not folder.is_dir():
        raise LocalCloudError(f"{folder} is not a folder: give --origin a folder whose files become objects")


def upload(folder: Path, bucket: str) -> list[str]:
    """Put every file under `folder` into the bucket, with a guessed content type; return the keys."""
    check_origin(folder)
    s3, keys = endpoints.client("s3"), []
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        key = path.relative_to(folder).as_posix()
        kind, encoding = mimetypes.guess_type(path.name)
        with path.open("rb") as body:
            s3.put_object(
                Bucket=bucket,
                Key=key,
                Body=body,
                ContentType=kind or "application/octet-stream",
                **({"ContentEncoding": encoding} if encoding else {}),
            )
        keys.append(key)
    return keys
