"""Burstcache: a read cache in front of S3 that exists only while it is needed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from burstcache.client.boto3_wrapper import wrap as wrap

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Import at its first use what costs more than the package itself."""
    if name == "wrap":
        from burstcache.client.boto3_wrapper import wrap

        return wrap
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
