"""The decorator: a function's results are kept and found again, whether it is synchronous or not."""

from __future__ import annotations

import contextvars
import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Concatenate, ParamSpec, Protocol, Self, TypeVar, overload

from burstcache.core.errors import InvalidSettingError
from burstcache.results.backends import backend_urls, shared_cache
from burstcache.results.cache import Cache, Rules
from burstcache.results.codecs import JSON, Codec
from burstcache.results.function_results import MAX_BYTES, TTL_S, WAIT_S, FunctionResults, Options
from burstcache.results.steps import run, run_async

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class CachedFunction(Protocol[P, R_co]):
    """A function whose results are kept."""

    results: FunctionResults

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Return what the function returns, or returned."""
        ...

    @overload
    def __get__(self, instance: None, owner: type, /) -> Self: ...

    @overload
    def __get__(
        self: CachedFunction[Concatenate[Any, Q], R_co], instance: object, owner: type | None = None, /
    ) -> Callable[Q, R_co]: ...

    def __get__(self, instance: object, owner: type | None = None, /) -> Any:
        """Return the function itself, or the method of an instance."""
        ...


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
    """Keep what a function returns, and serve it to later calls with the same key.

    `@cached` alone has all defaults; `@cached(ttl_s=60)` has options.

    Whatever goes wrong in the cache, the function is called. Calls that miss the same key at the same time wait for one
    computation, in this process and, by a lease in the first Redis of the backend, over all environments.

    Args:
        function: The function, where the decorator has no options.
        key: A JMESPath expression into the first argument (of a method: behind `self`) that names what decides the
            result. A call in which it finds nothing is not cached. A result with a `statusCode` is an HTTP answer, kept
            only as its status and its `Cache-Control` allow.
        arguments: Names of the arguments that decide the result, `self.name` for an attribute of one; without `key`
            and `arguments` all do, `self` included.
        backend: Where results are kept: URLs in the order in which they are asked, or what `open_cache` returned; None
            for those of the environment variable BURSTCACHE_RESULTS, and without it for `memory://`.
        ttl_s: For how long a result is served [s], 0.001 or more.
        stale_s: For how long it is then still served while it is computed anew in the background [s]; None and
            exceptions are not.
        negative_ttl_s: For how long the result None is served [s]; 0: it is not kept.
        exceptions: Classes of exceptions that are kept and raised again, and for how long each [s].
        codec: How results become bytes: `json`, `bytes`, `pickle` (with `memory://` alone) or a `Codec`.
        version: Part of every key, for results that outlive a change of the code; None: the Lambda function's name and
            version, a hash of the source file, the place in it, and what the function closes over.
        max_bytes: The largest result to keep, encoded [bytes].
        compress_above_bytes: What is larger is stored compressed, but in memory [bytes]; None: nothing is.
        compression: `zlib`, or `zstd` where zstandard is installed.
        timeout_ms: How long one place may take to answer, unless its URL says so; None for 100, or 1,000 of S3 [ms].
        wait_s: How long to wait at most for what another caller or environment computes, before computing it, too [s].

    Raises:
        InvalidSettingError: An argument has a value that is not accepted.
        TypeError: There is no such argument.
        NoCanonicalFormError: Raised by a call: what decides its result has a part that cannot be in a key.
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
        wrap = _wrap_async if inspect.iscoroutinefunction(function) else _wrap
        wrapper: Any = functools.update_wrapper(wrap(function, results), function)
        wrapper.results = results
        return wrapper  # type: ignore[no-any-return]

    return decorate if function is None else decorate(function)


def _no_argument(name: str) -> str:
    """Return a sentence on an argument that there is not, with the one that may be meant."""
    from burstcache.results.near_misses import meant_by

    accepted = sorted(["backend", "timeout_ms", *Options._fields])
    return f"cached() has no argument {name!r}{meant_by(name, accepted)} (accepted: {', '.join(accepted)})"


def _rules_of(results: FunctionResults) -> Callable[[tuple[Any, ...], Mapping[str, Any]], Rules]:
    """Return a function from the arguments of a call to its rules."""
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
        found = cache.recall(key, rules)
        if found is None:
            found, key = run(cache.search(key, rules))
        compute = partial(function, *args, **kwargs)
        if found is None:
            return results.conclude(run(cache.compute(key, rules), compute))
        if found.is_stale:
            renew(cache, key, rules, compute)
        return results.answer(found)

    return call


def renew(cache: Cache, key: str, rules: Rules, compute: Callable[[], Any]) -> None:
    """Compute a stale result anew in the background, unless that is under way."""
    if not cache.is_computing(key):
        compute = partial(contextvars.copy_context().run, compute)
        cache.submit(lambda: run(cache.revalidate(key, rules), compute))


def _wrap_async(function: Callable[..., Any], results: FunctionResults) -> Callable[..., Any]:
    import asyncio

    cache, make_key, rules_of = results.cache, results.make_key, _rules_of(results)
    revalidations: set[asyncio.Task[None]] = set()  # the loop itself holds its tasks weakly

    async def call(*args: Any, **kwargs: Any) -> Any:
        if (made := make_key(args, kwargs)) is None:
            results.count("bypassed")
            return await function(*args, **kwargs)
        key = made
        rules = rules_of(args, kwargs)
        found = cache.recall(key, rules)
        compute = partial(function, *args, **kwargs)
        if found is None:
            found, key = await run_async(cache.search(key, rules), compute, cache.threads)
        if found is None:
            return results.conclude(await run_async(cache.compute(key, rules), compute, cache.threads))
        if found.is_stale and not cache.is_computing(key):
            task = asyncio.create_task(run_async(cache.revalidate(key, rules), compute, cache.threads))
            revalidations.add(task)
            task.add_done_callback(revalidations.discard)
        return results.answer(found)

    return call
