"""Errors by name: the state machines match the class name of what a function raises.

A name that ends in `TransientError` may be retried, others are final (`docs/understand/lifecycle.md`, "Retries").
"""

from __future__ import annotations


class BurstcacheError(Exception):
    """Base of every error of ours; its message names the culprit and the remedy."""


class InvalidSettingError(BurstcacheError):
    """A setting or parameter has a value that is not accepted."""


class PriceMissingError(InvalidSettingError):
    """A price sheet has no price for what is to be billed."""


class ObjectNotFoundError(BurstcacheError):
    """S3 has no such object."""


class ObjectTooLargeError(BurstcacheError):
    """The object is larger than what a tier may hold."""


class OriginError(BurstcacheError):
    """S3 answered a request of the control plane with an error other than 'not found'."""


class RelayDownError(BurstcacheError):
    """The relay cannot be reached, so a cache function cannot serve."""


class SilentHolderError(RelayDownError):
    """A process holds the subject, but does not answer."""


class RedisDownError(BurstcacheError):
    """Redis does not answer on a node that should be running."""


class NodeFailedError(BurstcacheError):
    """A Redis node did not come up; its waiters' tokens fail with this name."""


class NodeAbsentError(BurstcacheError):
    """The settings name no such Redis node."""


class ServiceError(BurstcacheError):
    """An AWS service refused a call or did not answer it.

    `code` is the service's name for the reason, empty if it did not answer; `reasons` are the codes of a cancelled
    transaction, one per item.
    """

    def __init__(self, message: str, *, code: str = "", reasons: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.code = code
        self.reasons = reasons


class FunctionFailedError(BurstcacheError):
    """A Lambda function that was invoked ended with an error."""


class KeyFailedError(BurstcacheError):
    """A tier is up, but did not serve this one key: the other keys need not do without it."""


class SupersededError(BurstcacheError):
    """The key's or node's row belongs to a newer epoch or generation: this execution must leave."""


class InstanceStoppingTransientError(BurstcacheError):
    """EC2 refuses to start an instance that is still stopping; asking again helps."""


class ContendedRowTransientError(BurstcacheError):
    """A row changed under every attempt to write it; asking again helps."""
