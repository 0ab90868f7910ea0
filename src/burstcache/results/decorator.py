"""Decorator `cached`, which caches the results of synchronous and async functions."""

from __future__ import annotations

import contextvars
import functools
import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MethodType
from typing import Any, Concatenate, ParamSpec, Protocol, Self, TypeVar, overload

from burstcache.core.errors import InvalidSettingError
from burstcache.results.backends import backend_urls, shared_cache
from burstcache.results.cache import Cache, Rules
from burstcache.results.codecs import JSON, Codec
from burstcache.results.function_results import MAX_BYTES, TTL_S, WAIT_S, FunctionResults, Options
from burstcache.results.keys import unnamed_owner
from burstcache.results.steps import run, run_async

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class CachedFunction(Protocol[P, R_co]):
    """A function with cached results."""

    results: FunctionResults

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Return the cached result, or call the function."""
        ...

    @overload
    def __get__(self, instance: None, owner: type, /) -> Self: ...

    @overload
    def __get__(
        self: CachedFunction[Concatenate[Any, Q], R_co], instance: object, owner: type | None = None, /
    ) -> CachedFunction[Q, R_co]: ...

    def __get__(self, instance: object, owner: type | None = None, /) -> Any:
        """Return the function itself, or an instance's method."""
        ...


class CachedMethod(functools.partial[Any]):
    """A function whose first parameter is `self` or `cls`, of which instances' methods have results of their own."""

    def __get__(self, instance: object, owner: type | None = None, /) -> Any:
        if instance is None:
            return self
        if instance is owner:  # beneath @classmethod, which binds without this call from Python 3.13 on
            return MethodType(self, instance)
        method = CachedMethod(self.func)
        method.__dict__.update(self.__dict__, results=self.__dict__["results"].bind(instance))
        return MethodType(method, instance)

    def __eq__(self, other: object) -> bool:  # a bound method equals itself when it is reached again
        return isinstance(other, CachedMethod) and self.func is other.func

    def __hash__(self) -> int:
        return hash(self.func)

    def __reduce__(self) -> str:
        return str(self.__dict__["__qualname__"])  # pickled by name, as a function


@overload
def cached(function: Callable[P, R], /) -> CachedFunction[P, R]: ...


@overload
def cached(
    *,
    key: str | None = None,
    arguments: Sequence[str] | None = None,
    backend: str | Sequence[str] | Cache | None = None,
    ttl_s: float = TTL_S,
    stale_s: float = 0.0,
    negative_ttl_s: float = 0.0,
    exceptions: Mapping[type[Exception], float] | None = None,
    codec: str | Codec = JSON,
    version: str | None = None,
    max_bytes: int = MAX_BYTES,
    compress_above_bytes: int | None = None,
    compression: str = "zlib",
    timeout_ms: int | None = None,
    wait_s: float = WAIT_S,
) -> Callable[[Callable[P, R]], CachedFunction[P, R]]: ...


def cached(
    function: Any = None,
    /,
    *,
    key: str | None = None,
    arguments: Sequence[str] | None = None,
    backend: str | Sequence[str] | Cache | None = None,
    ttl_s: float = TTL_S,
    stale_s: float = 0.0,
    negative_ttl_s: float = 0.0,
    exceptions: Mapping[type[Exception], float] | None = None,
    codec: str | Codec = JSON,
    version: str | None = None,
    max_bytes: int = MAX_BYTES,
    compress_above_bytes: int | None = None,
    compression: str = "zlib",
    timeout_ms: int | None = None,
    wait_s: float = WAIT_S,
    **unknown: object,
) -> Any:
    """Cache a function's results, and serve them to later calls with the same key.

    `@cached` uses the defaults; `@cached(ttl_s=60)` sets options.

    Cache failures never fail a call, since the function is called instead. Concurrent misses of one key share one
    computation within this process. A lease in the backend's first Redis extends this to all environments.

    Args:
        function: The function, if the decorator has no options.
        key: A JMESPath expression that extracts the key from the first argument (in a method, the one after `self`).
            Calls without a match are not cached. A result with a `statusCode` is an HTTP response, which is cached
            only if its status and its `Cache-Control` allow it.
        arguments: Names of the arguments that form the key, or `self.name` for an attribute. If neither `key` nor
            `arguments` is set, all arguments form the key, including `self`. Without `self` the instances of a class
            share results: `-self` says so, and saves the warning.
        backend: URLs in lookup order, or a cache returned by `open_cache`. None: the environment variable
            BURSTCACHE_RESULTS, or `memory://` if it is not set.
        ttl_s: Lifetime of a result [s], 0.001 or more.
        stale_s: Further time in which a stale result is served while it is revalidated in the background [s]. Does not
            apply to None or exceptions.
        negative_ttl_s: Lifetime of the result None [s]. 0: None is not cached.
        exceptions: Exception classes to cache and raise again, each with a lifetime [s].
        codec: Encoding of results: `json`, `bytes`, `pickle` (only with `memory://`) or a `Codec`.
        version: Part of every key. Set it to keep results across code changes. None: the Lambda function's name and
            version, a hash of the source file, the position in the file, and the values that the function closes over.
        max_bytes: Maximum encoded size of a cached result [bytes].
        compress_above_bytes: Size above which results are compressed in shared backends [bytes]. None: never.
        compression: `zlib`, or `zstd` if zstandard is installed.
        timeout_ms: Timeout of each backend [ms], unless its URL sets one. None: 100, or 1,000 for S3.
        wait_s: Maximum wait for another caller's or environment's computation before this call also computes [s].

    Raises:
        InvalidSettingError: The value of an argument is not accepted.
        TypeError: An argument is unknown.
        NoCanonicalFormError: Raised by a call if a value in its key has no canonical form.
    """
    if unknown:
        raise TypeError(_no_argument(next(iter(unknown))))
    if function is not None and not (callable(function) or isinstance(function, (classmethod, property))):
        raise TypeError(f"cached({function!r}): accepted are arguments by name, as in cached(ttl_s=60)")
    options = Options(
        key, arguments, ttl_s, stale_s, negative_ttl_s, exceptions, codec, version, max_bytes, compress_above_bytes,
        compression, wait_s,
    )  # fmt: skip

    def decorate(function: Callable[P, R]) -> CachedFunction[P, R]:
        is_generator = inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)
        if not inspect.isfunction(function) or is_generator:
            raise InvalidSettingError(
                f"{function!r}: accepted is a function, beneath @classmethod, @staticmethod, @property; no generator"
            )
        cache = backend if isinstance(backend, Cache) else shared_cache(tuple(backend_urls(backend)), timeout_ms)
        results = FunctionResults(function, cache, options)
        if owner := unnamed_owner(function, arguments):
            warnings.warn(_shared_text(function, owner, list(arguments or ())), stacklevel=2)
        wrap = _wrap_async if inspect.iscoroutinefunction(function) else _wrap
        call: Any = wrap(function, results)
        wrapper: Any = functools.update_wrapper(CachedMethod(call) if results.is_method else call, function)
        wrapper.results = results
        return wrapper  # type: ignore[no-any-return]

    return decorate if function is None else decorate(function)


def _shared_text(function: Callable[..., Any], owner: str, arguments: list[str]) -> str:
    """Return the warning for a method whose key does not mention its instance or class."""
    of, named = ("classes", "cls.name") if owner == "cls" else ("instances", "self.name")
    return (
        f"{function.__qualname__}: arguments={arguments} lacks {owner!r}, so all {of} share results; accepted: an"
        f" attribute that decides, as {named!r}, or '-{owner}' if they should"
    )


def _no_argument(name: str) -> str:
    """Return the error message for an unknown argument, with a suggestion."""
    from burstcache.results.near_misses import meant_by

    accepted = sorted(["backend", "timeout_ms", *Options._fields])
    return f"cached() has no argument {name!r}{meant_by(name, accepted)} (accepted: {', '.join(accepted)})"


def _rules_of(results: FunctionResults) -> Callable[[tuple[Any, ...], Mapping[str, Any]], Rules]:
    """Return a function that creates a call's rules from its arguments."""
    if not results.may_be_answers:
        return lambda args, kwargs: results
    from burstcache.results.http_answers import AnswerRules, EventRequest

    return lambda args, kwargs: AnswerRules(results, EventRequest(results.event(args, kwargs)))


def _wrap(function: Callable[..., Any], results: FunctionResults) -> Callable[..., Any]:
    cache, make_key, rules_of = results.cache, results.make_key, _rules_of(results)

    def call(*args: Any, **kwargs: Any) -> Any:
        if (key := make_key(args, kwargs)) is None:
            results.count("bypassed")
            return function(*args, **kwargs)
        rules = rules_of(args, kwargs)
        hit = cache.recall(key, rules)
        if hit is None:
            hit, key = run(cache.search(key, rules))
        compute = partial(function, *args, **kwargs)
        if hit is None:
            return results.conclude(run(cache.compute(key, rules), compute))
        if hit.is_stale:
            revalidate(cache, key, rules, compute)
        return results.answer(hit)

    return call


def revalidate(cache: Cache, key: str, rules: Rules, compute: Callable[[], Any]) -> None:
    """Recompute a stale result in the background, unless a computation is in progress."""
    if not cache.is_computing(key):
        context = contextvars.copy_context()  # the flow, too: a function that calls itself must not wait for itself
        cache.submit(lambda: context.run(run, cache.revalidate(key, rules), compute))


def _wrap_async(function: Callable[..., Any], results: FunctionResults) -> Callable[..., Any]:
    import asyncio

    cache, make_key, rules_of = results.cache, results.make_key, _rules_of(results)
    revalidations: set[asyncio.Task[None]] = set()  # the event loop keeps only weak references to tasks

    async def call(*args: Any, **kwargs: Any) -> Any:
        if (made := make_key(args, kwargs)) is None:
            results.count("bypassed")
            return await function(*args, **kwargs)
        key = made
        rules = rules_of(args, kwargs)
        hit = cache.recall(key, rules)
        compute = partial(function, *args, **kwargs)
        if hit is None:
            hit, key = await run_async(cache.search(key, rules), compute, cache.threads)
        if hit is None:
            return results.conclude(await run_async(cache.compute(key, rules), compute, cache.threads))
        if hit.is_stale and not cache.is_computing(key):
            task = asyncio.create_task(run_async(cache.revalidate(key, rules), compute, cache.threads))
            revalidations.add(task)
            task.add_done_callback(revalidations.discard)
        return results.answer(hit)

    return call
