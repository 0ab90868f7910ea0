"""Paths of the file system (`BUCKET/KEY`): their details, and S3's errors as OSErrors."""

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
    """The details of a path. Only objects have `LastModified` and `ETag` (with S3's quotes).

    The size is None if the store does not report it before sending the object.
    """

    name: str
    size: int | None
    type: Literal["file", "directory"]
    ETag: str
    LastModified: datetime


def split_path(path: str) -> tuple[str, str]:
    """Return the bucket and key of a path without protocol. Either may be empty."""
    bucket, _, key = path.partition("/")
    return bucket, key


def parent(path: str) -> str:
    """Return the directory that contains a path without protocol. Empty for a bucket."""
    return path.rpartition("/")[0]


def file_info(path: str, attributes: Mapping[str, Any]) -> Info:
    """Return the details of an object.

    Args:
        path: The object's path.
        attributes: The object's attributes under boto3's names. Some stores omit some of them.
    """
    size_bytes = attributes.get("ContentLength", attributes.get("Size"))
    info = Info(name=path, size=size_bytes, type="file")
    for name in ("ETag", "LastModified"):
        if attributes.get(name) is not None:
            info[name] = attributes[name]
    return info


def directory_info(path: str) -> Info:
    """Return the details of a directory."""
    return Info(name=path, size=0, type="directory")


def is_file(info: Info) -> bool:
    """Return True for the details of an object."""
    return info["type"] == "file"


@contextmanager
def as_os_errors(path: str) -> Iterator[None]:
    """Raise S3's errors as OSErrors."""
    try:
        yield
    except ClientError as error:
        number = _ERRNO_BY_STATUS.get(http_status(error), errno.EIO)
        raise OSError(number, in_one_line(error), path) from error
    except (BotoCoreError, ValueError) as error:  # boto3 cannot parse the response, such as a malformed date
        raise OSError(errno.EIO, in_one_line(error), path) from error


def http_status(error: ClientError) -> int:
    """Return the status of S3's response, or 0 if there is none."""
    return error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
