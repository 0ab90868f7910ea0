"""Cached results of functions: in process, on this machine, over the network, or in S3."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from burstcache.results.backends import open_cache as open_cache
    from burstcache.results.cache import Cache as Cache
    from burstcache.results.codecs import Codec as Codec
    from burstcache.results.decorator import cached as cached

_HOMES = {
    "Cache": "burstcache.results.cache",
    "Codec": "burstcache.results.codecs",
    "cached": "burstcache.results.decorator",
    "open_cache": "burstcache.results.backends",
}

__all__ = ["Cache", "Codec", "cached", "open_cache"]


def __getattr__(name: str) -> Any:
    """Import a public name on first use. `handler` is built from environment variables."""
    from importlib import import_module

    if name == "handler":  # a Lambda function's `Handler: burstcache.results.handler`
        made = import_module("burstcache.results.wrapped_handler").make_handler()
    elif name in _HOMES:
        made = getattr(import_module(_HOMES[name]), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = made
    return made
