"""Errors of Burstcache. The state machines match errors by class name.

Errors with names that end in `TransientError` may be retried. All others are final (`docs/understand/lifecycle.md`,
"Retries").

    BurstcacheError
    ├── InvalidSettingError                   a user must correct a setting
    │   ├── AccountTooSmallError
    │   ├── NoCanonicalFormError
    │   ├── NodeAbsentError
    │   ├── PausedError
    │   └── PriceMissingError
    ├── RefusedRequestError                   a client must correct its request (4xx)
    │   └── WrongTypeError                    also a TypeError
    ├── OriginError                           S3 does not return an object
    │   ├── AccessDeniedError
    │   ├── ObjectNotFoundError
    │   ├── ObjectTooLargeError
    │   ├── OriginUnavailableError            a retry may help
    │   ├── UnexpectedPartError
    │   ├── UnidentifiedObjectError
    │   └── WriteConflictError                a retry may help
    ├── UnmetConditionError                   an object does not meet a condition of the read
    │   ├── NotModifiedError
    │   ├── PreconditionFailedError
    │   └── RangeNotSatisfiableError
    ├── PartDownError                         a part of the stack fails
    │   ├── CleaningFailedError
    │   ├── CopiesNotDroppedError
    │   ├── DatabaseAsleepError
    │   ├── FunctionFailedError
    │   ├── NodeFailedError
    │   ├── RedisDownError
    │   ├── RelayDownError
    │   │   └── SilentHolderError
    │   ├── ResultStoreDownError
    │   ├── ResultStoreRefusalError
    │   └── ServiceError
    │       └── ServiceTransientError         also a TransientError
    ├── FrameError                            a peer in the pool violates the protocol
    ├── IllegalPhaseError                     a defect: the tables in `phases` do not allow a write
    ├── LeaseLostError                        the lease on a state database is lost
    ├── SupersededError                       another life or run has taken over, so exit
    └── TransientError                        a retry helps
        ├── ContendedRowTransientError
        ├── HolderDiedTransientError
        ├── InstancePendingTransientError
        └── InvocationEndsTransientError
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_MOST_CHARACTERS = 1000  # maximum length of another library's message


class BurstcacheError(Exception):
    """Base class of all errors. The message names the cause and the remedy."""


def in_one_line(message: object) -> str:
    """Return another library's message without line breaks, cut to 1,000 characters."""
    return " ".join(str(message).split())[:_MOST_CHARACTERS]


class InvalidSettingError(BurstcacheError):
    """A setting or parameter has an invalid value."""


class AccountTooSmallError(InvalidSettingError):
    """The stack's parameters need more than the account's limits allow."""


class NoCanonicalFormError(InvalidSettingError):
    """A value that determines the result of a cached function has a type that cannot be part of a key."""


class NodeAbsentError(InvalidSettingError):
    """The settings have no Redis node with this name."""


class PausedError(InvalidSettingError):
    """The stack is paused, so nothing starts."""


class PriceMissingError(InvalidSettingError):
    """A price sheet lacks a price."""


class RefusedRequestError(BurstcacheError):
    """A client's request is refused with a 4xx response that names the problem and the accepted values."""

    def __init__(self, status: int, code: str, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.headers = dict(headers or {})

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.status, self.code, self.message, self.headers)  # process pools pickle errors


class WrongTypeError(RefusedRequestError, TypeError):
    """An argument has a type that is not accepted. This is also a TypeError."""

    def __init__(self, message: str) -> None:
        super().__init__(400, "WrongType", message)

    @classmethod
    def of(cls, name: str, value: object, accepted: str) -> WrongTypeError:
        """Return the error that names an argument, its type and the accepted types."""
        return cls(f"{name} is of type {type(value).__name__}; accepted: {accepted}")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.message,)


class OriginError(BurstcacheError):
    """S3 did not return the object, or did not respond.

    `status` and `code` come from S3's response. Without a response, they are 0 and empty.
    """

    def __init__(self, message: str, *, status: int = 0, code: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.code = code


class AccessDeniedError(OriginError):
    """S3 refuses the read because the caller lacks a permission."""


class ObjectNotFoundError(OriginError):
    """S3 has no such object."""


class ObjectTooLargeError(OriginError):
    """The object is too large for a tier."""


class UnexpectedPartError(OriginError):
    """The store sent another part of the object than was requested."""


class OriginUnavailableError(OriginError):
    """S3 is unreachable or fails. A retry may help."""


class UnidentifiedObjectError(OriginError):
    """A response does not identify the object's version (ETag, size, Last-Modified) and must not be cached."""


class WriteConflictError(OriginError):
    """S3 rejected the write because another write of the object was in progress (409). A retry may help."""


class UnmetConditionError(BurstcacheError):
    """An object exists, but does not satisfy a condition or the range of the read.

    `etag` is the object's ETag with its quotes, empty if unknown.
    """

    def __init__(self, message: str, *, etag: str = "") -> None:
        super().__init__(message)
        self.etag = etag


class NotModifiedError(UnmetConditionError):
    """The caller's copy is current according to `if_none_match` or `if_modified_since` (304)."""


class PreconditionFailedError(UnmetConditionError):
    """The object is not the version that the caller's `if_match` or `if_unmodified_since` expects (412)."""


class RangeNotSatisfiableError(UnmetConditionError):
    """The object has no byte in the range (416). `size_bytes` is the object's size, or None if unknown."""

    def __init__(self, message: str, *, etag: str = "", size_bytes: int | None = None) -> None:
        super().__init__(message, etag=etag)
        self.size_bytes = size_bytes


class PartDownError(BurstcacheError):
    """A part of the stack fails."""


class CleaningFailedError(PartDownError):
    """The janitor could not clean up everything. The message names each failure and its reason."""


class CopiesNotDroppedError(PartDownError):
    """S3 has applied the write, but an AWS service failed during the invalidation of cached copies.

    S3's event for the write will invalidate these copies. Until then, some readers may see the previous object. To
    retry, write the object again or call `Client.purge`. `etag` is the new object's ETag, empty after a deletion.
    """

    def __init__(self, message: str, *, etag: str = "") -> None:
        super().__init__(message)
        self.etag = etag


class DatabaseAsleepError(PartDownError):
    """A state database did not wake up before its caller timed out."""


class FunctionFailedError(PartDownError):
    """An invoked Lambda function ended with an error."""


class NodeFailedError(PartDownError):
    """A Redis node failed to boot. The task tokens of waiting keys fail with this error name."""


class RedisDownError(PartDownError):
    """Redis does not answer on a node that should be running."""


class RelayDownError(PartDownError):
    """The relay is unreachable, so a cache function cannot serve."""


class SilentHolderError(RelayDownError):
    """A cache function holds the key, but does not answer. The relay may still work for other keys."""


class ResultStoreDownError(PartDownError):
    """A result store timed out or cannot serve any call. Its circuit breaker stays open until the store works."""


class ResultStoreRefusalError(PartDownError):
    """A result store refused a call immediately because the store is full or a permission is missing."""


class ServiceError(PartDownError):
    """An AWS service refused a call or did not answer it.

    `code` is the service's error code, empty if there was no response. `reasons` are the cancellation codes of a
    transaction, one per item.
    """

    def __init__(self, message: str, *, code: str = "", reasons: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.code = code
        self.reasons = reasons


class FrameError(BurstcacheError):
    """A peer on a pool connection violates the protocol, or has not proved its identity."""


class IllegalPhaseError(BurstcacheError):
    """A step attempted to write a phase that may not follow the current phase."""


class LeaseLostError(BurstcacheError):
    """The lease on a state database has expired or was revoked. The database may be asleep or changed."""


class SupersededError(BurstcacheError):
    """The key's or node's row belongs to a newer epoch, generation or part, so this execution must exit."""


class TransientError(BurstcacheError):
    """A temporary failure, which the state machines retry."""


class ContendedRowTransientError(TransientError):
    """Every attempt to write a row lost to a concurrent write."""


class HolderDiedTransientError(TransientError):
    """The invocation of a key's cache function has died. Another invocation replaces it."""


class InstancePendingTransientError(TransientError):
    """EC2 refuses to stop an instance that is still starting."""


class InvocationEndsTransientError(TransientError):
    """A cache function's invocation ends before the life of its key. The next invocation takes over the key.

    A retry costs one transition and avoids a new life after a gap.
    """


class ServiceTransientError(ServiceError, TransientError):
    """An AWS service throttled the call, was overloaded or was unreachable."""
