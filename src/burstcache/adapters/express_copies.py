"""Copies of objects in an S3 Express directory bucket, each stored under its key's hash.

A write replaces the copy with a tombstone, which S3 expires. Copies are stored by compare-and-set on the ETag that the
read returned. Therefore a late put of an older version fails on the write's tombstone.

Source:
    Amazon S3 User Guide, "How to prevent object overwrites with conditional writes". Directory buckets never reuse an
    ETag. Other stores derive the ETag from the content, so tombstones have random content.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError

from burstcache.adapters.calls import call_aws
from burstcache.core.errors import ServiceError, ServiceTransientError

if TYPE_CHECKING:
    from types_boto3_s3.client import S3Client

_PIECE_BYTES = 65_536
TOMBSTONE_BYTES = 16  # smaller than any entry, so that S3's lifecycle rules distinguish them by size
_HEAD_RANGE = "bytes=0-16383"  # S3 accepts 8 KB of headers with a write
_NO_OBJECT = "404"  # of a response to HEAD, which names no other code
_CHANGED = frozenset({"PreconditionFailed", "ConditionalRequestConflict", "NoSuchKey"})


def ignore_progress(_: int) -> None:
    """Ignore received bytes."""


@dataclass(frozen=True, slots=True)
class ExpressHit:
    """A stored copy: an encoded entry or its beginning. `data` is None for a tombstone."""

    etag: str  # of the copy itself, not of the object
    data: bytes | None
    size_bytes: int  # of the whole copy


class ExpressCopies:
    """The copies in one directory bucket. Every method raises ServiceError if S3 fails."""

    def __init__(self, bucket: str, client: S3Client) -> None:
        self._bucket = bucket
        self._client = client

    def read(
        self, hash_: str, *, only_meta: bool = False, received: Callable[[int], None] = ignore_progress
    ) -> ExpressHit | None:
        """Return the copy under a hash, or None. With `only_meta`, return only its beginning, which has the headers.

        `received` is called with the size of each chunk that arrives [bytes]. It may raise to abort the read.
        """
        more: Any = {"Range": _HEAD_RANGE} if only_meta else {}
        try:
            response = call_aws(self._client.get_object, Bucket=self._bucket, Key=hash_, **more)
        except ServiceError as error:
            if error.code == "NoSuchKey":
                return None
            raise
        body = response["Body"]
        size_bytes = _size_bytes(response["ResponseMetadata"]["HTTPHeaders"])
        if size_bytes == TOMBSTONE_BYTES:
            body.close()
            return ExpressHit(response["ETag"], None, size_bytes)
        try:
            data = b"".join(_pieces(body, received))
        except (BotoCoreError, OSError) as error:
            raise ServiceTransientError(f"the copy of S3 Express broke off: {error}") from error
        return ExpressHit(response["ETag"], data, size_bytes)

    def stored_bytes(self, hash_: str) -> int | None:
        """Return the size of a copy or tombstone from its headers alone, or None if there is neither [bytes]."""
        try:
            return call_aws(self._client.head_object, Bucket=self._bucket, Key=hash_)["ContentLength"]
        except ServiceError as error:
            if error.code == _NO_OBJECT:
                return None
            raise

    def put(self, hash_: str, data: bytes, *, replaces: str) -> bool:
        """Compare-and-set: store an entry if the ETag still is `replaces` (empty: no copy). Otherwise return False."""
        condition: Any = {"IfMatch": replaces} if replaces else {"IfNoneMatch": "*"}
        try:
            call_aws(self._client.put_object, Bucket=self._bucket, Key=hash_, Body=data, **condition)
        except ServiceError as error:
            if error.code in _CHANGED:
                return False
            raise
        return True

    def put_tombstone(self, hash_: str) -> None:
        """Store a tombstone, which invalidates the copy and makes readers' pending puts fail."""
        call_aws(self._client.put_object, Bucket=self._bucket, Key=hash_, Body=secrets.token_bytes(TOMBSTONE_BYTES))


def _pieces(body: Any, received: Callable[[int], None]) -> Iterator[bytes]:
    with closing(body):
        while piece := body.read(_PIECE_BYTES):
            received(len(piece))
            yield piece


def _size_bytes(headers: Mapping[str, str]) -> int:
    return int(headers.get("content-range", "").rpartition("/")[2] or headers["content-length"])
