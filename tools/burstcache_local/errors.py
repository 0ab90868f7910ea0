"""The local cloud's errors. Each message is one line that says what to do."""

from __future__ import annotations

from burstcache.core.errors import BurstcacheError


class LocalCloudError(BurstcacheError):
    """The local cloud cannot start or continue."""


class TemplateError(LocalCloudError):
    """The template cannot be read, transformed or created."""


class GuardrailError(TemplateError):
    """A guardrail of the account, or the deploying role's policy, refuses resources of the stack."""


class PortTakenError(LocalCloudError):
    """Another process listens on the chosen port."""


class FunctionNotFoundError(LocalCloudError):
    """No function has this name."""


class TenantError(LocalCloudError):
    """An invocation lacks a required tenant id, or has a tenant id that the function does not accept."""


class ThrottledError(LocalCloudError):
    """The account's concurrency is exhausted, or no environment became idle in time."""


class StartLostError(LocalCloudError):
    """The zygote process, which forks the environments, exited before an environment started."""


class RuleError(TemplateError):
    """A rule of the template rejects its parameter values. `rule` is the rule's name."""

    def __init__(self, message: str, *, rule: str) -> None:
        super().__init__(message)
        self.rule = rule
