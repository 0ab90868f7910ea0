"""Burstcache: a read cache in front of S3 that exists only while it is needed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from burstcache.client.boto3_wrapper import wrap as wrap
    from burstcache.serve.read_stats import stats as stats

__version__ = "1.0.0rc1"

if not TYPE_CHECKING:  # otherwise type checkers would accept any name

    def __getattr__(name: str) -> Any:
        """Import `wrap` and `stats` on first use: they load far more than the package itself."""
        if name == "wrap":
            from burstcache.client.boto3_wrapper import wrap

            return wrap
        if name == "stats":
            from burstcache.serve.read_stats import stats

            return stats
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """List all names, including those not imported yet."""
    return sorted({*globals(), "stats", "wrap"})
