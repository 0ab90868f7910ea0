"""The results of one function: their keys, how they are encoded, how long they live, and how often they were found."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from burstcache.core.errors import InvalidSettingError
from burstcache.forks import Lock
from burstcache.logs import logger
from burstcache.results.cache import Cache, Found, Opened, Outcome
from burstcache.results.codecs import Codec, codec_named
from burstcache.results.compression import compression_named
from burstcache.results.entries import ERROR, NONE, VALUE, Entry
from burstcache.results.errors import CachedErrors, is_duration_s
from burstcache.results.keys import KeyMaker
from burstcache.results.layers import Packing

TTL_S = 300.0
MAX_BYTES = 1 << 20
WAIT_S = 60.0


class Options(NamedTuple):
    """What a function decides of its results; `cached` has what each means."""

    key: str | None = None
    arguments: Sequence[str] | None = None
    ttl_s: float = TTL_S
    stale_s: float = 0.0
    negative_ttl_s: float = 0.0
    exceptions: Mapping[type[Exception], float] | None = None
    codec: str | Codec = "json"
    version: str | None = None
    max_bytes: int = MAX_BYTES
    compress_above_bytes: int | None = None
    compression: str = "zlib"
    wait_s: float = WAIT_S


class FunctionResults:
    """What a cached function has as its attribute `results`."""

    def __init__(self, function: Callable[..., Any], cache: Cache, options: Options) -> None:
        """Check the options; raise InvalidSettingError if one is not accepted."""
        _check(options)
        self.cache = cache
        self._codec = codec_named(options.codec)
        if cache.layers.shared and not self._codec.is_safe:
            raise InvalidSettingError(
                f"codec={self._codec.name!r} runs what others stored; accepted: with memory:// alone"
            )
        self._keys = KeyMaker(
            function, key=options.key, arguments=options.arguments, version=options.version, codec=self._codec.name
        )
        self.make_key = self._keys.make
        self._ttl_ms, self._stale_ms = int(options.ttl_s * 1000), int(options.stale_s * 1000)
        self._negative_ttl_ms = int(options.negative_ttl_s * 1000)
        self._errors = CachedErrors(options.exceptions or {})
        above_bytes, compression = options.compress_above_bytes, compression_named(options.compression)
        self.packing = Packing(options.max_bytes, None if above_bytes is None else compression, above_bytes or 0)
        self.wait_s = min(options.wait_s, threading.TIMEOUT_MAX)
        self._meter = cache.meter
        self._counts: Counter[str] = Counter()
        self._lock = Lock()

    def key(self, *args: Any, **kwargs: Any) -> str | None:
        """Return the key of a call's result, or None if such a call is not cached: its event lacks what `key` names."""
        return self.make_key(args, kwargs)

    def forget(self, *args: Any, **kwargs: Any) -> bool:
        """Remove a call's result from all layers; what this process computes or reads of it meanwhile is not kept.

        Memories of other processes keep theirs for its time.

        Returns:
            Whether it is removed: False if a place was down or refused, which may then serve it for its time.
        """
        return (key := self.make_key(args, kwargs)) is None or self.cache.forget(key)

    def stats(self) -> dict[str, int]:
        """Return how many calls each layer answered (by its name), and how many were `computed`, `stale` and so on."""
        with self._lock:
            return dict(self._counts)

    def count(self, name: str) -> None:
        """Count a call."""
        with self._lock:
            self._counts[name] += 1
        if self._meter is not None:
            self._meter.count(name)

    def recall(self, key: str) -> Found | None:
        """Return what memory has, fresh or stale."""
        memory = self.cache.layers.memory
        if memory is None or (entry := memory.get(key)) is None or self.cache.now_ms() >= entry.kept_until_ms:
            return None
        return None if (opened := self.open(entry)) is None else Found(entry, opened, memory.name)

    def is_stale(self, entry: Entry) -> bool:
        """Whether an entry is to be computed anew."""
        return self.cache.now_ms() >= entry.fresh_until_ms

    def answer(self, found: Found) -> Any:
        """Count a layer's answer, and return or raise it."""
        self.count("stale" if self.is_stale(found.entry) else found.layer)
        return _result(found.opened)

    def conclude(self, outcome: Outcome) -> Any:
        """Count how a computation ended, and return or raise its result."""
        self.count(outcome.source)
        return _result(outcome.opened)

    def encode(self, value: Any, now_ms: int) -> Entry | None:
        """Return the entry of what the function returned, or None if it is not to be kept."""
        if value is None:
            return self._entry(NONE, b"", now_ms, self._negative_ttl_ms)
        try:
            payload = self._codec.encode(value)
        except Exception as error:
            self._not_kept(f"{self._codec.name} does not take it: {error}")
            return None
        return self._entry(VALUE, payload, now_ms, self._ttl_ms)

    def encode_error(self, error: Exception, now_ms: int) -> Entry | None:
        """Return the entry of what the function raised, or None if it is not to be kept."""
        if (ttl_s := self._errors.ttl_s(error)) is None:
            return None
        try:
            payload = self._errors.encode(error)
        except Exception as why:
            self._not_kept(f"the exception cannot be stored: {why}")
            return None
        return self._entry(ERROR, payload, now_ms, int(ttl_s * 1000))

    def open(self, entry: Entry) -> Opened | None:
        """Return what an entry says, or None if it cannot be decoded here."""
        kind, codec, payload, _, _ = entry
        try:
            if kind == ERROR:
                return Opened(error=self._errors.decode(payload))
            if kind == NONE:
                return Opened()
            if codec == self._codec.name:
                return Opened(self._codec.decode(payload))
            reason = f"its codec is {codec!r}"
        except Exception as error:
            reason = repr(error)
        logger().warning(
            "results: an entry cannot be read, so it is computed anew", reason=f"{self._keys.name}: {reason}"
        )
        return None

    def _entry(self, kind: str, payload: bytes, now_ms: int, ttl_ms: int) -> Entry | None:
        if not ttl_ms:
            return None
        if len(payload) > self.packing.max_bytes:
            self._not_kept(f"{len(payload)} bytes are more than max_bytes={self.packing.max_bytes}")
            return None
        fresh_until_ms = now_ms + ttl_ms
        stale_ms = self._stale_ms if kind == VALUE else 0
        return Entry(kind, self._codec.name, payload, fresh_until_ms, fresh_until_ms + stale_ms)

    def _not_kept(self, reason: str) -> None:
        logger().warning("results: a result is not kept", reason=f"{self._keys.name}: {reason}")
        self.count("not_kept")


def _check(options: Options) -> None:
    for name in ("ttl_s", "stale_s", "negative_ttl_s", "wait_s"):
        seconds = getattr(options, name)
        if not is_duration_s(seconds) or (name == "ttl_s" and seconds < 0.001):
            raise InvalidSettingError(f"{name}={seconds!r}; accepted: seconds, 0 or more (ttl_s: 0.001 or more)")
    if not isinstance(options.max_bytes, int) or options.max_bytes < 1:
        raise InvalidSettingError(f"max_bytes={options.max_bytes!r}; accepted: a whole number, 1 or more")
    above_bytes = options.compress_above_bytes
    if above_bytes is not None and (not isinstance(above_bytes, int) or above_bytes < 0):
        raise InvalidSettingError(
            f"compress_above_bytes={above_bytes!r}; accepted: a whole number, 0 or more, or None for never"
        )


def _result(opened: Opened) -> Any:
    if opened.error is not None:
        raise opened.error
    return opened.value
