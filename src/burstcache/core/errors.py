"""Errors by name: the state machines match the class name of what a function raises.

A name that ends in `TransientError` may be retried, others are final (`docs/understand/lifecycle.md`, "Retries").

    BurstcacheError
    ├── InvalidSettingError                   what a person has to put right
    │   ├── AccountTooSmallError
    │   ├── NoCanonicalFormError
    │   ├── NodeAbsentError
    │   ├── PausedError
    │   └── PriceMissingError
    ├── RefusedRequestError                   what a client has to put right: a 4xx
    │   └── WrongTypeError                    also a TypeError
    ├── OriginError                           S3 does not give an object
    │   ├── AccessDeniedError
    │   ├── ObjectNotFoundError
    │   ├── ObjectTooLargeError
    │   ├── OriginUnavailableError            asking again may help
    │   ├── UnidentifiedObjectError
    │   └── WriteConflictError                asking again helps
    ├── UnmetConditionError                   an object is there, and not what a read asked for
    │   ├── NotModifiedError
    │   ├── PreconditionFailedError
    │   └── RangeNotSatisfiableError
    ├── PartDownError                         a part of the stack does not do its work
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
    ├── FrameError                            the other end of a connection of the pool breaks the protocol
    ├── IllegalPhaseError                     a defect: the tables of `phases` do not allow a write
    ├── LeaseLostError                        a holder of a database no longer holds it
    ├── SupersededError                       another life has taken over: leave
    └── TransientError                        asking again helps
        ├── ContendedRowTransientError
        ├── HolderDiedTransientError
        ├── InstancePendingTransientError
        └── InvocationEndsTransientError
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_MOST_CHARACTERS = 1000  # of what others say in a message


class BurstcacheError(Exception):
    """Base of all errors; its message names the culprit and the remedy."""


def in_one_line(said: object) -> str:
    """Return another library's message without line breaks, and not at any length."""
    return " ".join(str(said).split())[:_MOST_CHARACTERS]


class InvalidSettingError(BurstcacheError):
    """A setting or parameter has a value that is not accepted."""


class AccountTooSmallError(InvalidSettingError):
    """The stack's parameters ask for more than the account may have."""


class NoCanonicalFormError(InvalidSettingError):
    """What decides a function's result is of a type that cannot be part of a key."""


class NodeAbsentError(InvalidSettingError):
    """The settings name no such Redis node."""


class PausedError(InvalidSettingError):
    """The stack is paused, so nothing starts."""


class PriceMissingError(InvalidSettingError):
    """A price sheet has no price for what is to be billed."""


class RefusedRequestError(BurstcacheError):
    """The client's request is refused with a 4xx that names what is wrong and what is accepted."""

    def __init__(self, status: int, code: str, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.headers = dict(headers or {})

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.status, self.code, self.message, self.headers)  # a pool of processes pickles errors


class WrongTypeError(RefusedRequestError, TypeError):
    """An argument of a call is of a type that is not accepted; a TypeError as well."""

    def __init__(self, message: str) -> None:
        super().__init__(400, "WrongType", message)

    @classmethod
    def of(cls, name: str, value: object, accepted: str) -> WrongTypeError:
        """Return the error that names an argument, its type and what is accepted."""
        return cls(f"{name} is of type {type(value).__name__}; accepted: {accepted}")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.message,)


class OriginError(BurstcacheError):
    """S3 answered otherwise than with the object, or not at all.

    `status` and `code` are what S3 answered, 0 and empty if it did not.
    """

    def __init__(self, message: str, *, status: int = 0, code: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.code = code


class AccessDeniedError(OriginError):
    """S3 refuses the read: the caller lacks a right to the object."""


class ObjectNotFoundError(OriginError):
    """S3 has no such object."""


class ObjectTooLargeError(OriginError):
    """The object is larger than what a tier may hold."""


class OriginUnavailableError(OriginError):
    """S3 cannot be reached or fails; asking again may help."""


class UnidentifiedObjectError(OriginError):
    """The store does not say which version of the object it sends (ETag, size, Last-Modified): nothing may keep it."""


class WriteConflictError(OriginError):
    """S3 has another write of the object under way, and has written nothing; to write again may help (409)."""


class UnmetConditionError(BurstcacheError):
    """An object is there, but a condition or the range of the read rules it out.

    `etag` is the object's with its quotes, as far as it is known.
    """

    def __init__(self, message: str, *, etag: str = "") -> None:
        super().__init__(message)
        self.etag = etag


class NotModifiedError(UnmetConditionError):
    """The object is the one that the caller has: `if_none_match` or `if_modified_since` (304)."""


class PreconditionFailedError(UnmetConditionError):
    """The object is not the one that the caller wants: `if_match` or `if_unmodified_since` (412)."""


class RangeNotSatisfiableError(UnmetConditionError):
    """The object has no byte of the range (416); `size_bytes` is the object's size, None if it is not known."""

    def __init__(self, message: str, *, etag: str = "", size_bytes: int | None = None) -> None:
        super().__init__(message, etag=etag)
        self.size_bytes = size_bytes


class PartDownError(BurstcacheError):
    """A part of the stack does not do its work."""


class CleaningFailedError(PartDownError):
    """The janitor could not clean everything; its message names what it could not, and why."""


class CopiesNotDroppedError(PartDownError):
    """S3 has what was written, but a service of AWS failed while copies were let go.

    S3's event of the write has them go; until then some readers may see the object that was there before. To write it
    again, or `Client.purge`, asks again. `etag` is that of the new object, empty after a deletion.
    """

    def __init__(self, message: str, *, etag: str = "") -> None:
        super().__init__(message)
        self.etag = etag


class DatabaseAsleepError(PartDownError):
    """A database of state did not wake up within the time that its caller waits."""


class FunctionFailedError(PartDownError):
    """A Lambda function that was invoked ended with an error."""


class NodeFailedError(PartDownError):
    """A Redis node did not come up; its waiters' tokens fail with this name."""


class RedisDownError(PartDownError):
    """Redis does not answer on a node that should be running."""


class RelayDownError(PartDownError):
    """The relay cannot be reached, so a cache function cannot serve."""


class SilentHolderError(RelayDownError):
    """A cache function holds the key, but does not answer: other keys need not do without the relay."""


class ResultStoreDownError(PartDownError):
    """A place that keeps results does not answer, or not in time: it is left alone until it does."""


class ResultStoreRefusalError(PartDownError):
    """A place that keeps results answered at once that it does not take or give this: it is full, or a right lacks."""


class ServiceError(PartDownError):
    """An AWS service refused a call or did not answer it.

    `code` is the service's name for the reason, empty if it did not answer; `reasons` are the codes of a cancelled
    transaction, one per item.
    """

    def __init__(self, message: str, *, code: str = "", reasons: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.code = code
        self.reasons = reasons


class FrameError(BurstcacheError):
    """The other end of a connection of the pool does not keep to the protocol, or has not proved who it is."""


class IllegalPhaseError(BurstcacheError):
    """A step would write a phase that may not follow the present one."""


class LeaseLostError(BurstcacheError):
    """The lease on a database of state has run out or was taken back: what comes now may find it asleep or changed."""


class SupersededError(BurstcacheError):
    """The key's or node's row belongs to a newer epoch, generation or part: this execution must leave."""


class TransientError(BurstcacheError):
    """A failure that passes by itself; the state machines retry it."""


class ContendedRowTransientError(TransientError):
    """A row changed under every attempt to write it."""


class HolderDiedTransientError(TransientError):
    """The invocation of a cache function that held a key, or was to, has died: another one takes its place."""


class InstancePendingTransientError(TransientError):
    """EC2 refuses to stop an instance that is still starting."""


class InvocationEndsTransientError(TransientError):
    """A cache function's invocation ends before the life of its key: the next one takes the key over.

    A retry, which is one transition, in place of a new life after a gap.
    """


class ServiceTransientError(ServiceError, TransientError):
    """An AWS service was throttled, overloaded or out of reach."""
