"""What the Lambda service refuses."""

from __future__ import annotations

from burstcache_local.errors import LocalCloudError


class FunctionNotFoundError(LocalCloudError):
    """No function has this name."""


class TenantError(LocalCloudError):
    """A function with tenant isolation is invoked without a tenant, or another one with a tenant."""


class ThrottledError(LocalCloudError):
    """The account's concurrency is used up, or no environment became free in time."""
