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
from burstcache.results.cache import Cache
from burstcache.results.codecs import Codec
from burstcache.results.function_results import MAX_BYTES, TTL_S, WAIT_S, FunctionResults, Options
from burstcache.results.steps import ask, run, run_async

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


def cached(
    *,
    key: str | None = None,
    arguments: Sequence[str] | None = None,
    backend: str | Sequence[str] | Cache | None = None,
    ttl_s: float = TTL_S,
    stale_s: float = 0.0,
    negative_ttl_s: float = 0.0,
    exceptions: Mapping[type[Exception], float] | None = None,
    codec: str | Codec = "json",
    version: str | None = None,
    max_bytes: int = MAX_BYTES,
    compress_above_bytes: int | None = None,
    compression: str = "zlib",
    timeout_ms: int | None = None,
    wait_s: float = WAIT_S,
) -> Callable[[Callable[P, R]], CachedFunction[P, R]]:
    """Return a decorator that keeps what a function returns and serves it to later calls with the same key.

    Whatever goes wrong in the cache, the function is called. Calls that miss the same key at the same time wait for one
    computation, in this process and, by a lease in the first Redis of the backend, over all environments.

    Args:
        key: A JMESPath expression into the first argument (of a method: behind `self`) that names what decides the
            result. A call in which it finds nothing is not cached.
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
        NoCanonicalFormError: Raised by a call: what decides its result has a part that cannot be in a key.
    """
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

    return decorate


def _wrap(function: Callable[..., Any], results: FunctionResults) -> Callable[..., Any]:
    cache, make_key, recall = results.cache, results.make_key, results.recall
    is_shared = bool(cache.layers.shared)

    def call(*args: Any, **kwargs: Any) -> Any:
        if (key := make_key(args, kwargs)) is None:
            results.count("bypassed")
            return function(*args, **kwargs)
        found = recall(key)
        if found is None and is_shared:
            found = cache.look(key, results)
        if found is None:
            return results.conclude(run(cache.compute(key, results), partial(function, *args, **kwargs)))
        if results.is_stale(found.entry) and not cache.is_computing(key):
            compute = partial(contextvars.copy_context().run, function, *args, **kwargs)
            cache.submit(lambda: run(cache.revalidate(key, results), compute))
        return results.answer(found)

    return call


def _wrap_async(function: Callable[..., Any], results: FunctionResults) -> Callable[..., Any]:
    import asyncio

    cache, make_key, recall = results.cache, results.make_key, results.recall
    is_shared = bool(cache.layers.shared)
    revalidations: set[asyncio.Task[None]] = set()  # the loop itself holds its tasks weakly

    async def call(*args: Any, **kwargs: Any) -> Any:
        if (key := make_key(args, kwargs)) is None:
            results.count("bypassed")
            return await function(*args, **kwargs)
        found = recall(key)
        compute = partial(function, *args, **kwargs)
        if found is None and is_shared:
            found = await ask(partial(cache.look, key, results), cache.threads)
        if found is None:
            return results.conclude(await run_async(cache.compute(key, results), compute, cache.threads))
        if results.is_stale(found.entry) and not cache.is_computing(key):
            task = asyncio.create_task(run_async(cache.revalidate(key, results), compute, cache.threads))
            revalidations.add(task)
            task.add_done_callback(revalidations.discard)
        return results.answer(found)

    return call
