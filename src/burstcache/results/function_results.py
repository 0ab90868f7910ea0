"""Function results: keys, encoding, lifetimes and statistics of one function's results."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Self

from burstcache.adapters.clock import Instant
from burstcache.core.errors import InvalidSettingError
from burstcache.forks import Lock
from burstcache.logs import logger
from burstcache.results.cache import Cache, CachedResult, Decoded, Outcome
from burstcache.results.codecs import JSON, Codec, NotKeptError, codec_named, json_codec
from burstcache.results.compression import compression_named
from burstcache.results.entries import ANY, ERROR, NONE, VALUE, ResultEntry
from burstcache.results.errors import CachedErrors, is_duration_s
from burstcache.results.keys import KeyMaker
from burstcache.results.layers import Packing
from burstcache.results.result_classes import ResultClasses

TTL_S = 300.0
MAX_BYTES = 1 << 20
WAIT_S = 60.0
_NONE = "None"


class Options(NamedTuple):
    """Options of a cached function, documented in `cached`."""

    key: str | None = None
    arguments: Sequence[str] | None = None
    ttl_s: float = TTL_S
    stale_s: float = 0.0
    negative_ttl_s: float = 0.0
    exceptions: Mapping[type[Exception], float] | None = None
    codec: str | Codec = JSON
    version: str | None = None
    max_bytes: int = MAX_BYTES
    compress_above_bytes: int | None = None
    compression: str = "zlib"
    wait_s: float = WAIT_S


class FunctionResults:
    """The attribute `results` of a cached function."""

    def __init__(self, function: Callable[..., Any], cache: Cache, options: Options) -> None:
        """Validate the options. Raise InvalidSettingError if an option is invalid."""
        _check(options)
        self.cache = cache
        default = json_codec(ResultClasses(function), is_answer=options.key is not None)
        self._codec = codec_named(options.codec, default)
        if cache.layers.shared and not self._codec.is_safe:
            raise InvalidSettingError(
                f"codec={self._codec.name!r} would run code that others stored; accepted: with memory:// alone"
            )
        self._keys = KeyMaker(
            function, key=options.key, arguments=options.arguments, version=options.version, codec=self._codec.name
        )
        self.make_key, self.event = self._keys.make, self._keys.event
        self.is_method = self._keys.is_method
        self._bound: tuple[object, ...] = ()  # the instance, if these are the results of its method
        self.may_be_answers = options.key is not None
        self.ttl_s, self.stale_s = options.ttl_s, options.stale_s
        self._negative_ttl_s = options.negative_ttl_s
        self._errors = CachedErrors(options.exceptions or {}, default)
        above_bytes, compression = options.compress_above_bytes, compression_named(options.compression)
        self.packing = Packing(options.max_bytes, None if above_bytes is None else compression, above_bytes or 0)
        self.wait_s = min(options.wait_s, threading.TIMEOUT_MAX)
        self._meter = cache.meter
        self._counts: Counter[str] = Counter()
        self._reasons: Counter[str] = Counter()
        self._lock = Lock()

    def bind(self, instance: object) -> Self:
        """Return the results of an instance's method, of which `key` and `forget` take the arguments after `self`."""
        bound = object.__new__(type(self))
        bound.__dict__.update(self.__dict__, _bound=(instance,))
        return bound

    def key(self, *args: Any, **kwargs: Any) -> str | None:
        """Return the key of a call's result, or None if the call is not cacheable.

        Raises:
            NoCanonicalFormError: A value in the key has no canonical form.
            TypeError: The function does not accept these arguments. A class method's class comes first, as does a
                method's instance if the method is reached through the class.
        """
        if not self._bound:
            self._keys.check_owner(args)
        return self.make_key((*self._bound, *args), kwargs)

    def forget(self, *args: Any, **kwargs: Any) -> bool:
        """Remove a call's result from all backends.

        Concurrent computations and reads of the result in this process are not cached. Other processes keep their
        copies in memory until the copies expire.

        Returns:
            False if a backend was down or refused the removal, which may serve the result until it expires. Also False
            if the call is not cacheable.
        """
        return (key := self.key(*args, **kwargs)) is not None and self.cache.forget(key)

    def stats(self) -> dict[str, Any]:
        """Return the number of calls by result source.

        A source is the name of a layer, `computed`, `followed`, `stale` or `bypassed`. `not_kept` counts the results
        that were not cached, by reason.
        """
        with self._lock:
            return {**self._counts, **({"not_kept": dict(self._reasons)} if self._reasons else {})}

    def count(self, name: str) -> None:
        """Count a call by its source."""
        with self._lock:
            self._counts[name] += 1
        if self._meter is not None:
            self._meter.count(name)

    def answer(self, cached: CachedResult) -> Any:
        """Count a hit, and return or raise its result."""
        self.count("stale" if cached.is_stale else cached.layer)
        return _result(cached.decoded)

    def conclude(self, outcome: Outcome) -> Any:
        """Count a computation, and return or raise its result."""
        self.count(outcome.source)
        return _result(outcome.decoded)

    def encode(self, value: Any, made: Instant) -> ResultEntry | None:
        """Return the entry of a returned value, or None if it is not cacheable."""
        return self.encode_for(value, made, fresh_s=self.ttl_s, stale_s=self.stale_s)

    def encode_for(
        self, value: Any, made: Instant, *, fresh_s: float, stale_s: float, variant: str = ANY
    ) -> ResultEntry | None:
        """Return the entry of a result that is fresh for `fresh_s`, and then stale for `stale_s` [s]."""
        try:
            if value is None:
                if not self._negative_ttl_s:
                    raise NotKeptError(_NONE)
                return self._entry(NONE, b"", made, self._negative_ttl_s)
            try:
                payload = self._codec.encode(value)
            except NotKeptError:
                raise
            except Exception as error:
                raise NotKeptError(f"codec {self._codec.name}: {type(error).__name__}", str(error)) from error
            return self._entry(VALUE, payload, made, fresh_s, stale_s, variant)
        except NotKeptError as error:
            self.not_kept(error)
            return None

    def encode_error(self, error: Exception, made: Instant) -> ResultEntry | None:
        """Return the entry of a raised exception, or None if it is not cacheable."""
        if (ttl_s := self._errors.ttl_s(error)) is None:
            return None
        try:
            return self._entry(ERROR, self._errors.encode(error), made, ttl_s)
        except Exception as why:
            self.not_kept(NotKeptError(f"exception {type(error).__qualname__}", f"it cannot be stored: {why}"))
            return None

    def decode(self, entry: ResultEntry) -> Decoded | None:
        """Return the result in an entry, or None if this process cannot decode it."""
        try:
            if entry.kind == ERROR:
                return Decoded(error=self._errors.decode(entry.payload))
            if entry.kind == NONE:
                return Decoded()
            if entry.codec == self._codec.name:
                return Decoded(self._codec.decode(entry.payload))
            reason = f"its codec is {entry.codec!r}"
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
        logger().warning(
            "results: an entry cannot be decoded, so it counts as a miss", reason=f"{self._keys.name}: {reason}"
        )
        return None

    def other_key(self, key: str) -> str | None:
        """Return None, since these results have only one key."""
        return None

    def not_kept(self, why: NotKeptError) -> None:
        """Count an uncacheable result, and log the reason once."""
        with self._lock:
            self._reasons[why.reason] += 1
        if self._meter is not None:
            self._meter.count("not_kept")
        if why.reason != _NONE:  # None is not cached by default
            logger().warning("results: a result is not cached", reason=f"{self._keys.name}: {why}")

    def _entry(
        self, kind: str, payload: bytes, made: Instant, fresh_s: float, stale_s: float = 0.0, variant: str = ANY
    ) -> ResultEntry | None:
        fresh_ms = int(fresh_s * 1000)
        if not fresh_ms:
            return None
        if len(payload) > self.packing.max_bytes:
            raise NotKeptError(f"larger than max_bytes={self.packing.max_bytes}", "raise `max_bytes`")
        return ResultEntry(kind, self._codec.name, payload, made, fresh_ms, fresh_ms + int(stale_s * 1000), variant)


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


def _result(decoded: Decoded) -> Any:
    if decoded.error is not None:
        raise decoded.error
    return decoded.value
