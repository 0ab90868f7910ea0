"""One write: S3 first, then every copy is let go, then the answer. What comes after it sees the new object anywhere."""

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
    """Writes the objects of one bucket. Threads may share it.

    Attributes:
        store: S3.
        prefix: Of all keys that may be written; empty: all may be.
        drop_copies: Has the stack let copies go, and raises what that fails with; None: there is no stack, and no copy
            that others know of.
        forget: Lets go what this process remembers of a key, by its hash.
    """

    store: ObjectStore
    prefix: str
    drop_copies: DropCopies | None
    forget: Callable[[str], None]

    def put(self, key: str, data: bytes, **headers: Unpack[WriteHeaders]) -> Written:
        """Write an object.

        Args:
            key: The object's key.
            data: Its bytes.
            headers: What S3 keeps with it, and conditions; one that is empty is left out.

        Raises:
            PreconditionFailedError: The condition does not hold, so nothing was written.
            WriteConflictError: S3 has another write under way, so nothing was written.
            AccessDeniedError: S3 refuses the write.
            CopiesNotDroppedError: S3 has the new object, but somewhere an old copy may still be read.
            OriginUnavailableError: S3 does not answer: it may have the new object or not.
            OriginError: S3 answers otherwise.
        """
        return self._write(key, partial(self.store.put, key, data, **headers))

    def upload_url(self, key: str, *, valid_s: int, **headers: Unpack[WriteHeaders]) -> str:
        """Return a URL of S3 to which the object may be put; the copies follow by S3's event of it.

        Args:
            key: The object's key.
            valid_s: For how long the upload may begin [s].
            headers: As for `put`; the upload must have the same.

        Raises:
            AccessDeniedError: The key may not be written.
        """
        self._check(key)
        return self.store.presign_put(key, valid_s=valid_s, **headers)

    def delete(self, key: str, *, if_match: str = "") -> Written:
        """Delete an object, whether or not there is one; arguments and errors are those of `put`."""
        return self._write(key, partial(self.store.delete, key, if_match=if_match))

    def purge(self, key: str) -> None:
        """Let every copy of an object go; what it is read as next comes from S3.

        Raises:
            CopiesNotDroppedError: Somewhere an old copy may still be read.
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
                message = f"S3 has {key!r} as it was written, but copies of what was there may still be read: {error}"
                raise CopiesNotDroppedError(message, etag=written.etag) from error
            return written
        finally:
            # After the tiers, of which this process may have read meanwhile; also if S3 has it and could not say so.
            self.forget(key_hash(key))

    def _check(self, key: str) -> None:
        if not key.startswith(self.prefix):
            raise AccessDeniedError(f"{key!r} may not be written; accepted: keys that begin with {self.prefix!r}")

    def _drop(self, key: str) -> None:
        if self.drop_copies is not None:
            self.drop_copies(FollowWrite(op="follow_write", key=key))
