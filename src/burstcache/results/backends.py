"""Backends of a result cache: one URL, or several in lookup order."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from functools import cache as memoized
from urllib.parse import parse_qsl, urlsplit

from burstcache.adapters.clock import Clock, SystemClock
from burstcache.core.errors import InvalidSettingError
from burstcache.results.cache import Cache
from burstcache.results.layers import Layers, SharedLayer
from burstcache.results.memory import EVICTIONS, LRU, MAX_BYTES, ResultMemory
from burstcache.results.stores.store import Store

VARIABLE = "BURSTCACHE_RESULTS"
TIMEOUT_MS = 100
S3_TIMEOUT_MS = 1000
_LONGEST_MS = 999_999_999
_WHOLE = "a whole number above 0, of nine digits at most"
_FACTORS = {"": 1, "kb": 1 << 10, "mb": 1 << 20, "gb": 1 << 30}
_SIZE = re.compile(r"([0-9]{1,15})(kb|mb|gb|)")
_ACCEPTED = "accepted: memory://, unix:///PATH, redis://HOST, rediss://HOST, s3://BUCKET/PREFIX, burstcache://STACK"


def open_cache(
    backend: str | Sequence[str] | None = None, *, timeout_ms: int | None = None, clock: Clock | None = None
) -> Cache:
    """Open a cache, which several functions can share through their `backend` argument.

    Args:
        backend: URLs in lookup order, separated by spaces or commas, or as a list. None: the environment variable
            BURSTCACHE_RESULTS, or `memory://` if it is not set.
        timeout_ms: Timeout of each backend [ms], unless its URL sets one. None: 100, or 1,000 for S3.
        clock: Measures the age of results, and timeouts. None: the machine's clock.

    Raises:
        InvalidSettingError: A URL or the timeout is invalid.
    """
    urls = backend_urls(backend)
    if timeout_ms is not None and not (isinstance(timeout_ms, int) and 0 < timeout_ms <= _LONGEST_MS):
        raise InvalidSettingError(f"timeout_ms={timeout_ms!r}; accepted: {_WHOLE}, or None")
    clock = clock or SystemClock()
    memories = [url for url in urls if url.startswith("memory:")]
    if memories not in ([], urls[:1]):
        raise InvalidSettingError(f"backend {_shown(' '.join(urls))}: memory:// may occur once, as the first")
    memory = _memory(memories[0]) if memories else None
    stores = [_store(url, timeout_ms, clock) for url in urls[len(memories) :]]
    shared = [SharedLayer(store, clock) for store in stores]
    return Cache(Layers(memory, shared), clock)


@memoized
def shared_cache(urls: tuple[str, ...], timeout_ms: int | None) -> Cache:
    """Return this process's cache for these URLs, so that all functions share memory and connections."""
    return open_cache(urls, timeout_ms=timeout_ms)


def backend_urls(backend: str | Sequence[str] | None) -> list[str]:
    """Return the backend URLs in lookup order."""
    if backend is None:
        backend = os.environ.get(VARIABLE, "")
    texts = [backend] if isinstance(backend, str) else backend
    if not isinstance(texts, Sequence) or not all(isinstance(text, str) for text in texts):
        raise InvalidSettingError(
            f"backend {backend!r}; accepted: URLs in a string or a list, or a cache that open_cache returned"
        )
    return [url for text in texts for url in re.split(r"[\s,]+", text) if url] or ["memory://"]


def _memory(url: str) -> ResultMemory:
    if not re.fullmatch(r"memory://(\?.*)?", url):
        raise InvalidSettingError(f"backend {url!r}; accepted: memory://, with options as in memory://?max_bytes=64mb")
    options = _options(url, {"max_bytes", "eviction", "ttl_s"})
    eviction = options.get("eviction", LRU)
    if eviction not in EVICTIONS:
        raise InvalidSettingError(f"backend {url!r}: eviction={eviction!r}; accepted: {', '.join(EVICTIONS)}")
    ttl_ms = _whole("ttl_s", options["ttl_s"], url) * 1000 if "ttl_s" in options else None
    return ResultMemory(_bytes(options.get("max_bytes", str(MAX_BYTES)), url), eviction=eviction, ttl_ms=ttl_ms)


def _store(url: str, timeout_ms: int | None, clock: Clock) -> Store:
    scheme = urlsplit(url).scheme
    if scheme in ("redis", "rediss", "unix"):
        from burstcache.results.stores.redis_store import RedisStore

        url, url_timeout_ms = _take_timeout(url)
        return RedisStore.at(url, clock, timeout_s=(url_timeout_ms or timeout_ms or TIMEOUT_MS) / 1000)
    if scheme == "s3":
        return _s3_store(url, timeout_ms)
    if scheme == "burstcache":
        return _stack_store(url, timeout_ms, clock)
    raise InvalidSettingError(f"backend {_shown(url)}; {_ACCEPTED}")


def _stack_store(url: str, timeout_ms: int | None, clock: Clock) -> Store:
    from burstcache.results.stores.stack_store import stack_store

    url, url_timeout_ms = _take_timeout(url)
    parts = urlsplit(url)
    if parts.path.strip("/") or parts.query:
        raise InvalidSettingError(f"backend {url!r}; accepted: burstcache://STACK?timeout_ms=100")
    return stack_store(parts.netloc, clock, timeout_s=(url_timeout_ms or timeout_ms or TIMEOUT_MS) / 1000)


def _s3_store(url: str, timeout_ms: int | None) -> Store:
    import boto3

    from burstcache.adapters.clients import Clients
    from burstcache.results.stores.s3_store import S3Store

    url, url_timeout_ms = _take_timeout(url)
    parts = urlsplit(url)
    if not parts.netloc or parts.query:
        raise InvalidSettingError(f"backend {url!r}; accepted: s3://BUCKET/PREFIX?timeout_ms=1000")
    timeout_s = (url_timeout_ms or timeout_ms or S3_TIMEOUT_MS) / 1000
    return S3Store(lambda: Clients("results", session=boto3).s3, parts.netloc, parts.path, timeout_s=timeout_s)


def _take_timeout(url: str) -> tuple[str, int | None]:
    """Split a URL into the URL without its timeout, and the timeout [ms]."""
    rest, _, query = url.partition("?")
    options = query.split("&") if query else []
    timeouts = [option.partition("=")[2] for option in options if option.startswith("timeout_ms=")]
    others = "&".join(option for option in options if not option.startswith("timeout_ms="))
    timeout_ms = _whole("timeout_ms", timeouts[0], url) if timeouts else None
    return f"{rest}?{others}" if others else rest, timeout_ms


def _whole(name: str, text: str, url: str) -> int:
    if not re.fullmatch("[0-9]{1,9}", text) or not int(text):
        raise InvalidSettingError(f"backend {_shown(url)}: {name}={text!r}; accepted: {_WHOLE}")
    return int(text)


def _shown(url: str) -> str:
    """Return a URL for messages, with its credentials masked."""
    return repr(re.sub(r"(?<=//)[^/@]*@", "…@", re.sub(r"password=[^&]*", "password=…", url)))


def _options(url: str, accepted: set[str]) -> dict[str, str]:
    parts = urlsplit(url)
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    if unknown := sorted(set(options) - accepted):
        raise InvalidSettingError(f"backend {url!r}: {unknown[0]!r}; accepted: {', '.join(sorted(accepted))}")
    return options


def _bytes(text: str, url: str) -> int:
    match = _SIZE.fullmatch(text.lower())
    if not match or not int(match[1]):
        raise InvalidSettingError(f"backend {url!r}: max_bytes={text!r}; accepted: 1048576, 512kb, 64mb, 1gb, above 0")
    return int(match[1]) * _FACTORS[match[2]]
