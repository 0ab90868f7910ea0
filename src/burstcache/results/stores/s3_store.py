"""S3 store: durable results without leases. A lifecycle rule of the bucket must delete expired results."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from botocore.exceptions import BotoCoreError, ClientError

from burstcache.core.errors import ResultStoreDownError, ResultStoreRefusalError
from burstcache.results.stores.store import PING_TIMEOUT_S
from burstcache.results.threads import PerProcess, Threads

if TYPE_CHECKING:
    from types_boto3_s3.client import S3Client

T = TypeVar("T")

_THREADS = 32
_MISSING = {"NoSuchKey", "404"}
# Codes of refusals that hold for every key until somebody acts. The store counts as down, so few calls wait for it.
_USELESS = {
    "AllAccessDisabled", "ExpiredToken", "InvalidAccessKeyId", "InvalidToken", "NoSuchBucket", "PermanentRedirect",
    "SignatureDoesNotMatch",
}  # fmt: skip


class S3Store:
    """A store of objects under a bucket prefix.

    Each operation runs in a thread, the only way to bound all of boto3's steps: DNS lookup, connection and read.
    """

    name = "s3"

    def __init__(self, make_client: Callable[[], S3Client], bucket: str, prefix: str, *, timeout_s: float) -> None:
        """Create the client.

        Args:
            make_client: Creates a boto3 S3 client, which should not retry. A forked child creates its own, since it
                must not use its parent's connections.
            bucket: The bucket's name.
            prefix: The keys' prefix, without a trailing slash. May be empty.
            timeout_s: Timeout of an operation [s].
        """
        self._clients = PerProcess(make_client)
        self._clients.get()  # now, since creating a client takes longer than a caller may wait
        self._bucket = bucket
        self._prefix = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
        self._timeout_s = timeout_s
        self._threads = Threads(_THREADS)

    def get(self, key: str, *, most_bytes: int) -> bytes | None:
        """Return the value at a key, or the start of a larger value."""

        def read() -> bytes:
            with self._client.get_object(Bucket=self._bucket, Key=self._object(key))["Body"] as body:
                data: bytes = body.read(most_bytes + 1)
            return data

        return self._call(read, missing=None)

    def put(self, key: str, data: bytes, *, kept_ms: int) -> None:
        """Store bytes. `kept_ms` is ignored: the stored entry states its own lifetime."""
        self._call(lambda: self._client.put_object(Bucket=self._bucket, Key=self._object(key), Body=data))

    def forget(self, key: str) -> None:
        """Remove the value at a key."""
        self._call(lambda: self._client.delete_object(Bucket=self._bucket, Key=self._object(key)))

    def ping(self) -> None:
        """Raise an error unless S3 has the bucket and knows the caller. A missing permission counts as a response.

        It lists objects, since a refusal of `head_bucket` has no body, and so no code.
        """
        with suppress(ResultStoreRefusalError):
            self._call(lambda: self._client.list_objects_v2(Bucket=self._bucket, MaxKeys=1), at_least_s=PING_TIMEOUT_S)

    def close(self) -> None:
        """Close the connections. A later call opens new ones."""
        self._client.close()

    @property
    def _client(self) -> S3Client:
        return self._clients.get()

    def _object(self, key: str) -> str:
        return f"{self._prefix}{key.replace(':', '/')}"

    def _call(self, call: Callable[[], T], missing: Any = None, at_least_s: float = 0.0) -> T | Any:
        timeout_s = max(self._timeout_s, at_least_s)
        try:
            return self._threads.pool().submit(call).result(timeout_s)
        except ClientError as error:
            if (code := error.response["Error"]["Code"]) in _MISSING:
                return missing
            if code in _USELESS:
                raise ResultStoreDownError(f"S3 refuses: {error}") from error
            raise ResultStoreRefusalError(f"S3 refuses: {error}") from error
        except (BotoCoreError, OSError, concurrent.futures.TimeoutError) as error:
            raise ResultStoreDownError(f"S3 does not answer within {timeout_s} s: {error!r}") from error
