"""Results in S3: for what must outlive every Redis. There are no leases, and a lifecycle rule of the bucket deletes."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from botocore.exceptions import BotoCoreError, ClientError

from burstcache.core.errors import ResultStoreDownError, ResultStoreRefusalError
from burstcache.results.stores.store import PING_TIMEOUT_S
from burstcache.results.threads import OfProcess, Threads

if TYPE_CHECKING:
    from types_boto3_s3.client import S3Client

T = TypeVar("T")

_THREADS = 32
_MISSING = {"NoSuchKey", "404"}


class S3Store:
    """Objects below a prefix of a bucket.

    Each operation runs in a thread, as that alone bounds all that boto3 does for it: resolving, connecting, reading.
    """

    name = "s3"

    def __init__(self, make_client: Callable[[], S3Client], bucket: str, prefix: str, *, timeout_s: float) -> None:
        """Ask that bucket.

        Args:
            make_client: Makes boto3's client of S3, which should not repeat what failed; called anew in the child of a
                fork, which must not talk on its parent's connections.
            bucket: The bucket's name.
            prefix: What keys begin with, up to a slash; may be empty.
            timeout_s: How long to wait for an answer [s].
        """
        self._clients = OfProcess(make_client)
        self._clients.get()  # now, as it takes longer than a caller may wait
        self._bucket = bucket
        self._prefix = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
        self._timeout_s = timeout_s
        self._threads = Threads(_THREADS)

    def get(self, key: str, *, most_bytes: int) -> bytes | None:
        """Return what is kept under a key, or of something larger its start."""

        def read() -> bytes:
            with self._client.get_object(Bucket=self._bucket, Key=self._object(key))["Body"] as body:
                found: bytes = body.read(most_bytes + 1)
            return found

        return self._ask(read, missing=None)

    def put(self, key: str, data: bytes, *, kept_ms: int) -> None:
        """Keep bytes; the entry in them says for how long it is good."""
        self._ask(lambda: self._client.put_object(Bucket=self._bucket, Key=self._object(key), Body=data))

    def forget(self, key: str) -> None:
        """Remove what is kept under a key."""
        self._ask(lambda: self._client.delete_object(Bucket=self._bucket, Key=self._object(key)))

    def ping(self) -> None:
        """Return if S3 answers, be it with a refusal."""
        try:
            self._ask(lambda: self._client.head_bucket(Bucket=self._bucket), at_least_s=PING_TIMEOUT_S)
        except ResultStoreRefusalError:
            return

    def close(self) -> None:
        """Close the connections; a later call opens new ones."""
        self._client.close()

    @property
    def _client(self) -> S3Client:
        return self._clients.get()

    def _object(self, key: str) -> str:
        return f"{self._prefix}{key.replace(':', '/')}"

    def _ask(self, call: Callable[[], T], missing: Any = None, at_least_s: float = 0.0) -> T | Any:
        timeout_s = max(self._timeout_s, at_least_s)
        try:
            return self._threads.pool().submit(call).result(timeout_s)
        except ClientError as error:
            if error.response["Error"]["Code"] in _MISSING:
                return missing
            raise ResultStoreRefusalError(f"S3 refuses: {error}") from error
        except (BotoCoreError, OSError, concurrent.futures.TimeoutError) as error:
            raise ResultStoreDownError(f"S3 does not answer within {timeout_s} s: {error!r}") from error
