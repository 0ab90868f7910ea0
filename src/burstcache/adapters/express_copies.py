"""Copies of objects in a directory bucket of S3 Express, each under its key's hash.

In the place of an object that was written there is a tombstone until S3 expires it. Reading a copy shows what is there,
and a copy is put only if that has not changed: one of an older version, however late, meets the tombstone of the write.

Source:
    Amazon S3 User Guide, "How to prevent object overwrites with conditional writes"; in directory buckets, too, an ETag
    is never given twice. Elsewhere it is made from the content, so a tombstone has a random one.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError

from burstcache.adapters.calls import ask
from burstcache.core.errors import ServiceError, ServiceTransientError

if TYPE_CHECKING:
    from types_boto3_s3.client import S3Client

_PIECE_BYTES = 65_536
TOMBSTONE_BYTES = 16  # an entry takes more, so S3's lifecycle rules can tell them apart by size
_HEAD_RANGE = "bytes=0-16383"  # S3 takes 8 KB of headers when an object is written
_CHANGED = frozenset({"PreconditionFailed", "ConditionalRequestConflict", "NoSuchKey"})


def unnoticed(_: int) -> None:
    """Do nothing about bytes that have come."""


@dataclass(frozen=True, slots=True)
class Found:
    """What lies under a hash: an encoded entry, or its beginning; of a tombstone None."""

    etag: str  # of the copy itself, not of the object
    data: bytes | None
    size_bytes: int  # of all that lies there


class ExpressCopies:
    """One directory bucket. Every method raises ServiceError if it does not answer."""

    def __init__(self, bucket: str, client: S3Client) -> None:
        self._bucket = bucket
        self._client = client

    def read(self, hash_: str, *, only_meta: bool = False, received: Callable[[int], None] = unnoticed) -> Found | None:
        """Return what lies under a hash, of a copy on request only the part with the meta; None if nothing does.

        `received` is called with the size of each piece of a copy that has come [bytes], and may raise.
        """
        more: Any = {"Range": _HEAD_RANGE} if only_meta else {}
        try:
            answer = ask(self._client.get_object, Bucket=self._bucket, Key=hash_, **more)
        except ServiceError as error:
            if error.code == "NoSuchKey":
                return None
            raise
        body = answer["Body"]
        size_bytes = _size_bytes(answer["ResponseMetadata"]["HTTPHeaders"])
        if size_bytes == TOMBSTONE_BYTES:
            body.close()
            return Found(answer["ETag"], None, size_bytes)
        try:
            data = b"".join(_pieces(body, received))
        except (BotoCoreError, OSError) as error:
            raise ServiceTransientError(f"the copy of S3 Express broke off: {error}") from error
        return Found(answer["ETag"], data, size_bytes)

    def put(self, hash_: str, data: bytes, *, replaces: str) -> bool:
        """Put an encoded entry where there is what was seen: its ETag, or empty for nothing. False if it is not."""
        condition: Any = {"IfMatch": replaces} if replaces else {"IfNoneMatch": "*"}
        try:
            ask(self._client.put_object, Bucket=self._bucket, Key=hash_, Body=data, **condition)
        except ServiceError as error:
            if error.code in _CHANGED:
                return False
            raise
        return True

    def bury(self, hash_: str) -> None:
        """Put a tombstone: what is there is read no more, and what readers are about to put comes too late."""
        ask(self._client.put_object, Bucket=self._bucket, Key=hash_, Body=secrets.token_bytes(TOMBSTONE_BYTES))


def _pieces(body: Any, received: Callable[[int], None]) -> Iterator[bytes]:
    with closing(body):
        while piece := body.read(_PIECE_BYTES):
            received(len(piece))
            yield piece


def _size_bytes(headers: Mapping[str, str]) -> int:
    return int(headers.get("content-range", "").rpartition("/")[2] or headers["content-length"])
