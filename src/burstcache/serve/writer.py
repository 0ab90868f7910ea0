"""Writer: writes to S3, then invalidates every cached copy, then returns.

Reads that start afterwards see the new object in every tier.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Unpack

from burstcache.adapters.object_store import ObjectStore, Written
from burstcache.core.errors import AccessDeniedError, BurstcacheError, CopiesNotDroppedError
from burstcache.core.keys import key_hash
from burstcache.core.messages.operations import FollowWrite

if TYPE_CHECKING:
    from burstcache.web.writing import WriteHeaders

DropCopies = Callable[[FollowWrite], object]


@dataclass(frozen=True, slots=True)
class Writer:
    """A thread-safe writer of the objects in one bucket.

    Attributes:
        store: S3.
        prefix: Only keys with this prefix may be written. Empty: all keys.
        drop_copies: Invalidates the stack's copies and propagates errors. None if there is no stack.
        forget: Invalidates this process's copies of a key, given its hash.
    """

    store: ObjectStore
    prefix: str
    drop_copies: DropCopies | None
    forget: Callable[[str], None]

    def put(self, key: str, data: bytes, **headers: Unpack[WriteHeaders]) -> Written:
        """Write an object.

        Args:
            key: The object's key.
            data: The object's bytes.
            headers: Headers that S3 stores with the object, and conditions. Empty ones are omitted.

        Raises:
            PreconditionFailedError: The condition is not met. Nothing was written.
            WriteConflictError: S3 is processing another write of the object. Nothing was written.
            AccessDeniedError: S3 denies the write.
            CopiesNotDroppedError: S3 has the new object, but stale copies may still be served.
            OriginUnavailableError: S3 does not respond. The outcome of the write is unknown.
            OriginError: S3 returned any other error.
        """
        return self._write(key, partial(self.store.put, key, data, **headers))

    def upload_url(self, key: str, *, valid_s: int, **headers: Unpack[WriteHeaders]) -> str:
        """Return a presigned S3 URL for a PUT of the object. S3's event of the upload invalidates the copies.

        Args:
            key: The object's key.
            valid_s: Time until which the upload must begin [s].
            headers: As for `put`. The upload must send the same headers.

        Raises:
            AccessDeniedError: The key may not be written.
        """
        self._check(key)
        return self.store.presign_put(key, valid_s=valid_s, **headers)

    def delete(self, key: str, *, if_match: str = "") -> Written:
        """Delete an object, whether it exists or not. See `put` for arguments and errors."""
        return self._write(key, partial(self.store.delete, key, if_match=if_match))

    def purge(self, key: str) -> None:
        """Invalidate every copy of an object. The next read goes to S3.

        Raises:
            CopiesNotDroppedError: Stale copies may still be served.
        """
        try:
            self._drop(key)
        except BurstcacheError as error:
            raise CopiesNotDroppedError(f"copies of {key!r} may still be read: {error}") from error
        finally:
            self.forget(key_hash(key))

    def _write(self, key: str, write: Callable[[], Written]) -> Written:
        self._check(key)
        try:
            written = write()
            try:
                self._drop(key)
            except BurstcacheError as error:
                message = f"S3 has the new version of {key!r}, but old copies may still be read: {error}"
                raise CopiesNotDroppedError(message, etag=written.etag) from error
            return written
        finally:
            # After the tiers, since this process may have cached a stale copy from them meanwhile. Also after an error,
            # since S3 may have written the object.
            self.forget(key_hash(key))

    def _check(self, key: str) -> None:
        if not key.startswith(self.prefix):
            raise AccessDeniedError(f"{key!r} may not be written; accepted: keys that begin with {self.prefix!r}")

    def _drop(self, key: str) -> None:
        if self.drop_copies is not None:
            self.drop_copies(FollowWrite(op="follow_write", key=key))
