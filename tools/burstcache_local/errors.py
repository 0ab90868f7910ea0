"""Errors of the local cloud; each message is one line that says what to do."""

from __future__ import annotations

from burstcache.core.errors import BurstcacheError


class LocalCloudError(BurstcacheError):
    """The local cloud cannot start or go on."""


class TemplateError(LocalCloudError):
    """The template cannot be read, transformed or created."""


class PortTakenError(LocalCloudError):
    """Another process listens on the chosen port."""


class FunctionNotFoundError(LocalCloudError):
    """No function has this name."""


class TenantError(LocalCloudError):
    """A function with tenant isolation is invoked without a tenant, or another one with a tenant."""


class ThrottledError(LocalCloudError):
    """The account's concurrency is used up, or no environment became free in time."""


class StartLostError(LocalCloudError):
    """The process that functions are forked from has ended before an environment was."""


class RuleError(TemplateError):
    """A rule of the template refuses the values of its parameters; `rule` is its name."""

    def __init__(self, message: str, *, rule: str) -> None:
        super().__init__(message)
        self.rule = rule
