"""Errors of the local cloud; each message is one line that says what to do."""

from __future__ import annotations

from burstcache.core.errors import BurstcacheError


class LocalCloudError(BurstcacheError):
    """The local cloud cannot start or go on."""


class TemplateError(LocalCloudError):
    """The template cannot be read, transformed or created."""


class PortTakenError(LocalCloudError):
    """Another process listens on the chosen port."""
