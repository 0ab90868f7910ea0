"""The client: reads through a stack's tiers, or caches S3 in the caller's memory without a stack."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from burstcache.client.client import Client
from burstcache.client.objects import Object
from burstcache.client.streams import ObjectFile

if TYPE_CHECKING:
    from burstcache.client.async_client import AsyncClient
    from burstcache.client.copies import expire_copies

__all__ = ["AsyncClient", "Client", "Object", "ObjectFile", "expire_copies"]

if not TYPE_CHECKING:  # otherwise type checkers would accept any name

    def __getattr__(name: str) -> Any:
        """Import names that few programs need on first use."""
        if name == "AsyncClient":
            from burstcache.client.async_client import AsyncClient

            return AsyncClient
        if name == "expire_copies":
            from burstcache.client.copies import expire_copies

            return expire_copies
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """List all public names, including those not imported yet."""
    return sorted({*globals(), *__all__})
