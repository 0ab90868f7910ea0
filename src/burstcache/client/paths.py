"""Paths of the file system as `BUCKET/KEY`, what is known of them, and S3's errors as those of files."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Literal, TypedDict

from botocore.exceptions import BotoCoreError, ClientError

from burstcache.core.errors import in_one_line

_ERRNO_BY_STATUS = {403: errno.EACCES, 404: errno.ENOENT, 412: errno.ESTALE}


class Info(TypedDict, total=False):
    """What is known of a path. `ETag`, in S3's quotes, and `LastModified` are an object's alone.

    The size is None where a store does not say it before it has sent the object.
    """

    name: str
    size: int | None
    type: Literal["file", "directory"]
    ETag: str
    LastModified: datetime


def split_path(path: str) -> tuple[str, str]:
    """Return bucket and key of a path without protocol; either may be empty."""
    bucket, _, key = path.partition("/")
    return bucket, key


def file_info(path: str, said: Mapping[str, Any]) -> Info:
    """Return what is known of an object.

    Args:
        path: Its path.
        said: What the store says of it, by boto3's names; some stores leave out one or the other.
    """
    size_bytes = said.get("ContentLength", said.get("Size"))
    info = Info(name=path, size=size_bytes, type="file")
    for name in ("ETag", "LastModified"):
        if said.get(name) is not None:
            info[name] = said[name]
    return info


def directory_info(path: str) -> Info:
    """Return what is known of a directory."""
    return Info(name=path, size=0, type="directory")


def is_file(info: Info) -> bool:
    """Whether a path is an object's."""
    return info["type"] == "file"


@contextmanager
def as_os_errors(path: str) -> Iterator[None]:
    """Raise what S3 answers as Python's own errors of files."""
    try:
        yield
    except ClientError as error:
        number = _ERRNO_BY_STATUS.get(http_status(error), errno.EIO)
        raise OSError(number, in_one_line(error), path) from error
    except (BotoCoreError, ValueError) as error:  # boto3 cannot read the answer: a date that is none
        raise OSError(errno.EIO, in_one_line(error), path) from error


def http_status(error: ClientError) -> int:
    """Return the status of S3's answer; 0 if there was none."""
    return error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
