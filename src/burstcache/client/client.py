"""The client for synchronous code. It is thread-safe."""

from __future__ import annotations

import difflib
import inspect
import os
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Self, TypeVar, Unpack, overload

from botocore.exceptions import BotoCoreError

from burstcache.adapters.clock import SystemClock
from burstcache.adapters.object_store import Written
from burstcache.adapters.single_flight import never
from burstcache.client.backend import Backend
from burstcache.client.bounds import MAX_STALE_MS, MEMORY_BYTES, BoundArguments, Bounds, Freshness, is_number
from burstcache.client.configuration import ClientConfiguration, configure, local_run, with_pool
from burstcache.client.objects import Object, object_in
from burstcache.client.pool import PoolOpener
from burstcache.client.requests import RequestBuilder, checked_body, checked_key, checked_write
from burstcache.client.streams import ObjectFile, open_object
from burstcache.core.errors import BurstcacheError, InvalidSettingError, WrongTypeError, in_one_line
from burstcache.forks import Lock
from burstcache.serve.large_objects import LargeObjects
from burstcache.serve.read_stats import PROCESS, ReadCounter, ReadStats
from burstcache.serve.reader import Reader
from burstcache.serve.shared_reads import flight_key
from burstcache.web.request import Request
from burstcache.web.response import Response

if TYPE_CHECKING:
    from types_boto3_s3.client import S3Client

Argument = TypeVar("Argument")
Answer = TypeVar("Answer")

HIT_VALUE_USD_PER_MILLION = 10.0


class Arguments(BoundArguments, total=False):
    """All arguments of `Client`."""

    stack_name: str
    bucket: str
    express_bucket: str
    hit_value_usd_per_million: float
    session: Any
    endpoint_urls: Mapping[str, str] | None
    s3: S3Client | None
    pool: PoolOpener | bool | None


class Client:
    """A client for the objects of one bucket.

    With a stack it reads the stack's tiers and S3. With only a bucket it caches S3 in memory. An unreachable cache
    never breaks a read: S3 serves it, and the logger `burstcache` warns once per cause.

    A client is thread-safe. After a fork, the child opens its own connections. Close the client or use it in a `with`
    statement, so that it sends its last reports of reads.
    """

    def __init__(
        self,
        *,
        stack_name: str = "",
        bucket: str = "",
        express_bucket: str = "",
        hit_value_usd_per_million: float = HIT_VALUE_USD_PER_MILLION,
        session: Any = None,
        endpoint_urls: Mapping[str, str] | None = None,
        s3: S3Client | None = None,
        pool: PoolOpener | bool | None = None,
        freshness: Freshness = "bounded",
        max_stale_ms: int = MAX_STALE_MS,
        memory_bytes: int = MEMORY_BYTES,
        disk: str | os.PathLike[str] | None = None,
        disk_bytes: int | None = None,
    ) -> None:
        """Create a client. Without `stack_name` and `bucket`, the variable BURSTCACHE_READER configures it.

        Args:
            stack_name: The stack whose tiers to read. Its outputs are read once (cloudformation:DescribeStacks).
            bucket: The bucket to read without a stack.
            express_bucket: Your S3 Express directory bucket for copies of the objects of `bucket`. The objects must
                never change: `freshness` has to be `immutable`. A stack has its own directory bucket.
            hit_value_usd_per_million: Value of a million saved waits for S3 [USD], >= 0. It decides which copies pay.
            session: A boto3 session. None: a new one from the environment.
            endpoint_urls: Endpoint URLs by service, or by the empty string for all services. Default: AWS's endpoints.
            s3: The boto3 S3 client to read with. None: a new one.
            pool: Whether to read objects above the stack's size limit through its pool. None: if it has one. Or pass a
                function that opens your own pool. Without a stack, the size limit is then 4 MiB.
            freshness: `bounded`: an object is stale for at most `max_stale_ms` after S3's event of a write or, with
                only a bucket, after S3 last confirmed it. `strong`: S3 confirms every read. `immutable`: objects never
                change under their keys, so copies are never revalidated.
            max_stale_ms: Maximum staleness [ms], above 0.
            memory_bytes: Maximum size of the cache in this process [bytes]. 0: no cache.
            disk: A directory for objects and slices, on a local disk. All processes of this machine and user may
                share it, and it outlives them. None: the variable BURSTCACHE_DISK, if it is set. Empty: no directory.
            disk_bytes: Maximum size of that directory [bytes]. None: the variable BURSTCACHE_DISK_BYTES, or 10 GiB.

        Raises:
            InvalidSettingError: An argument has an invalid value, or nothing names a stack or a bucket.
        """
        names = {"stack_name": stack_name, "bucket": bucket, "express_bucket": express_bucket}
        _check_types(names, session=session, endpoint_urls=endpoint_urls, s3=s3, pool=pool)
        if express_bucket and freshness != "immutable":
            raise InvalidSettingError(
                f"express_bucket={express_bucket!r} with freshness={freshness!r}; accepted: immutable. Without a stack"
                " nobody learns of writes"
            )
        if not (is_number(hit_value_usd_per_million) and hit_value_usd_per_million >= 0):
            raise InvalidSettingError(f"hit_value_usd_per_million={hit_value_usd_per_million!r}; accepted: 0 or more")
        bounds = Bounds.of(freshness, max_stale_ms, memory_bytes, disk, disk_bytes)
        with _settings_checked():
            configuration = configure(
                stack_name=stack_name,
                bucket=bucket,
                session=session,
                endpoint_urls=endpoint_urls,
                express_bucket=express_bucket,
                hit_value_usd_per_million=hit_value_usd_per_million,
            )
            if pool is not None:
                configuration = with_pool(configuration, pool)
            self._open(replace(configuration, s3=s3), bounds)

    @classmethod
    def local(cls, folder: str | os.PathLike[str] = ".burstcache", **bounds: Unpack[BoundArguments]) -> Self:
        """Return a client for the local run that `burstcache local up` started in this directory.

        Raises:
            InvalidSettingError: No local run is active there, or an argument has an invalid value.
        """
        client = cls.__new__(cls)
        client._open(local_run(Path(folder)), Bounds.of(**bounds))
        return client

    def _open(self, configuration: ClientConfiguration, bounds: Bounds) -> None:
        self.bucket_name = configuration.settings.bucket_name
        self.requests = RequestBuilder(SystemClock())
        self._counter = ReadCounter(PROCESS)
        self._make_backend = partial(Backend, configuration, bounds, self._counter)
        self._lock = Lock()
        self._backend = self._make_backend()
        self._finalizer = weakref.finalize(self, self._backend.close)

    def get(
        self,
        key: str,
        *,
        range: str | None = None,
        if_match: str | None = None,
        if_none_match: str | None = None,
        if_modified_since: datetime | None = None,
        if_unmodified_since: datetime | None = None,
        max_age_s: int | None = None,
    ) -> Object:
        """Return an object, or the requested range of it.

        Args:
            key: The object's key.
            range: The range, as in HTTP and boto3: `bytes=0-499`, `bytes=500-` or `bytes=-500`.
            if_match: Only if the object has this ETag.
            if_none_match: Only if the object has another ETag.
            if_modified_since: Only if the object was written after this time, which must have a time zone.
            if_unmodified_since: Only if the object was not written after this time, which must have a time zone.
            max_age_s: Maximum time since S3 sent or confirmed a copy [s]. 0: read from S3.

        Raises:
            ObjectNotFoundError: S3 has no such object.
            NotModifiedError: The object has the ETag `if_none_match`, or is not newer than `if_modified_since`.
            PreconditionFailedError: The object has another ETag than `if_match`, or is newer than
                `if_unmodified_since`.
            RangeNotSatisfiableError: No byte of the object is in the range.
            AccessDeniedError: S3 denies the read.
            OriginUnavailableError: S3 is unreachable or fails.
            RefusedRequestError: The key, the range or a condition is malformed.
        """
        request = self.requests.make(
            "GET",
            key,
            range=range,
            if_match=if_match,
            if_none_match=if_none_match,
            if_modified_since=if_modified_since,
            if_unmodified_since=if_unmodified_since,
            max_age_s=max_age_s,
        )
        return object_in(key, self.read(request))

    def open(self, key: str, *, range: str | None = None, if_match: str | None = None) -> ObjectFile:
        """Open an object, or a range of it, as a file that is read lazily.

        The file buffers a bounded part of a large object. All bytes that it returns belong to one version.

        Args:
            key: The object's key.
            range: As for `get`. The file begins and ends with the range.
            if_match: Only if the object has this ETag.

        Raises:
            BurstcacheError: As for `get`.
        """
        request = self.requests.make("GET", key, range=range, if_match=if_match)
        backend = self._current
        response, file = open_object(backend.reader, backend.large, request)
        file.head = object_in(key, replace(response, body=b""))
        file.client = self  # keeps the client open while the file is in use
        return file

    def head(
        self,
        key: str,
        *,
        if_match: str | None = None,
        if_none_match: str | None = None,
        if_modified_since: datetime | None = None,
        if_unmodified_since: datetime | None = None,
        max_age_s: int | None = None,
    ) -> Object:
        """Return an object without its body. See `get` for arguments and errors."""
        request = self.requests.make(
            "HEAD",
            key,
            if_match=if_match,
            if_none_match=if_none_match,
            if_modified_since=if_modified_since,
            if_unmodified_since=if_unmodified_since,
            max_age_s=max_age_s,
        )
        return object_in(key, self.read(request))

    @overload
    def get_many(self, keys: Iterable[str], *, return_errors: Literal[False] = False) -> dict[str, Object]: ...

    @overload
    def get_many(self, keys: Iterable[str], *, return_errors: bool) -> dict[str, Object | BurstcacheError]: ...

    def get_many(
        self, keys: Iterable[str], *, return_errors: bool = False
    ) -> dict[str, Object] | dict[str, Object | BurstcacheError]:
        """Return objects by key, in the order of `keys`. Objects that are not in memory are read in parallel.

        Args:
            keys: Keys. Duplicates are read once.
            return_errors: Whether to return an error in place of an object that cannot be read. If False, raise the
                error of the first such key once all reads have ended.

        Raises:
            BurstcacheError: As for `get`.
        """
        reads = {key: self._recall(key) or self.submit(self._get_or_error, key) for key in distinct(keys)}
        return outcomes(
            {key: each.result() if isinstance(each, Future) else each for key, each in reads.items()},
            return_errors=return_errors,
        )

    def put(
        self,
        key: str,
        data: bytes | bytearray | memoryview,
        *,
        content_type: str | None = None,
        if_match: str | None = None,
        if_none_match: str | None = None,
    ) -> Written:
        """Write an object to S3 and invalidate all its copies in the stack before returning.

        Reads that start afterwards see the new object in every tier. Copies in the memory of other processes may be
        stale for up to their `max_stale_ms`.

        Args:
            key: The object's key.
            data: The object's bytes.
            content_type: The media type. None: S3's default.
            if_match: Only overwrite if the object has this ETag.
            if_none_match: `*`: only write if there is no object.

        Raises:
            PreconditionFailedError: The condition is not met. Nothing is written.
            WriteConflictError: S3 is processing another write of the object. Nothing is written. Retry the write.
            AccessDeniedError: S3 denies the write.
            CopiesNotDroppedError: S3 has the new object, but an AWS service failed during the invalidation. Readers may
                see the old object until S3's event has arrived. Another write retries the invalidation.
            OriginUnavailableError: S3 does not respond. The outcome of the write is unknown.
            ObjectNotFoundError: `if_match` is given, but the object does not exist.
            RefusedRequestError: The key, the type or a condition is malformed.
            TypeError: `data` is not bytes-like.
        """
        headers = checked_write(key, content_type=content_type, if_match=if_match, if_none_match=if_none_match)
        return self._current.writer.put(key, checked_body(data), **headers)

    def delete(self, key: str, *, if_match: str | None = None) -> Written:
        """Delete an object, whether it exists or not. See `put` for the argument, guarantee and errors."""
        return self._current.writer.delete(key, if_match=checked_write(key, if_match=if_match).get("if_match", ""))

    def purge(self, key: str) -> None:
        """Invalidate every copy of an object, after a write that the stack does not know about.

        Raises:
            CopiesNotDroppedError: An AWS service failed during the invalidation.
            RefusedRequestError: The key is malformed.
        """
        self._current.writer.purge(checked_key(key))

    def stats(self) -> ReadStats:
        """Return where this client's reads were served, and what was not cached, and why."""
        return self._counter.stats()

    def close(self) -> None:
        """Send pending reports, and close all connections. A later read opens new ones."""
        self._finalizer()

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a Client is not pickled: it has connections and threads; accepted: a Client made in each process, or"
            " fsspec.filesystem('burstcache'), which pickles"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @property
    def reader(self) -> Reader:
        """The reader of this process, for adapters such as the boto3 wrapper."""
        return self._current.reader

    @property
    def large(self) -> LargeObjects:
        """The reader of objects of any size."""
        return self._current.large

    @property
    def s3(self) -> S3Client:
        """The S3 client of this process."""
        return self._current.s3

    @property
    def has_shared_copies(self) -> bool:
        """Whether a stack has copies that a write has to invalidate."""
        return self._current.writer.drop_copies is not None

    def read(self, request: Request) -> Response:
        """Return the response to a GET or HEAD."""
        return self._current.reader.read(request)

    async def read_in_thread(self, request: Request) -> Response:
        """Return the response to an asyncio task's GET or HEAD. Identical reads in flight share one thread."""
        backend = self._current
        reader = backend.reader
        since = reader.local_cache.ticket()
        is_plain = "cache-control" not in request.headers
        answer, shared = await backend.task_reads.run_in_thread(
            (flight_key(request), request.headers.get("cache-control")),
            partial(self.read, request),
            partial(self.submit, _called),
            may_follow=reader.local_cache.fresh_tickets(request.hash) if is_plain else never,
        )
        if shared is None:
            return answer
        if (usable := reader.shared.follow(request, answer, shared, since=since)) is not None:
            return usable
        import asyncio  # lazy import: only async programs need it

        return await asyncio.wrap_future(self.submit(self.read, request))

    def submit(self, call: Callable[[Argument], Answer], argument: Argument) -> Future[Answer]:
        """Run a call in one of the threads for parallel reads."""
        while True:
            backend = self._current
            try:
                return backend.threads.submit(call, argument)
            except RuntimeError:
                if backend.is_usable:  # the interpreter is exiting
                    raise

    @property
    def _current(self) -> Backend:
        backend = self._backend
        return backend if backend.is_usable else self._renew_backend()

    def _renew_backend(self) -> Backend:
        with self._lock:
            if not self._backend.is_usable:
                self._backend = self._make_backend()
                self._finalizer.detach()
                self._finalizer = weakref.finalize(self, self._backend.close)
            return self._backend

    def _recall(self, key: str) -> Object | BurstcacheError | None:
        try:
            request = self.requests.make("GET", key)
            if (response := self.reader.local_cache.recall(request)) is None:
                return None
            self.large.count(request, response)
            return object_in(key, response)
        except BurstcacheError as error:
            return error

    def _get_or_error(self, key: str) -> Object | BurstcacheError:
        try:
            return self.get(key)
        except BurstcacheError as error:
            return error


@contextmanager
def _settings_checked() -> Iterator[None]:
    """Raise InvalidSettingError if boto3 cannot create a client, for lack of a profile, region or endpoint."""
    try:
        yield
    except (BotoCoreError, ValueError) as error:
        raise InvalidSettingError(f"no client of AWS can be made: {in_one_line(error)}") from error


def _check_types(names: Mapping[str, object], **parts: Any) -> None:
    """Raise WrongTypeError now for an argument of `Client` that would fail later, with a less helpful error."""
    for name, text in names.items():
        if not isinstance(text, str):
            raise WrongTypeError.of(name, text, "str")
    urls, pool, session, s3 = (parts[name] for name in ("endpoint_urls", "pool", "session", "s3"))
    if urls is not None and not isinstance(urls, Mapping):
        raise WrongTypeError.of("endpoint_urls", urls, "dict of URLs by service")
    if pool is not None and not callable(pool) and not isinstance(pool, bool):
        raise WrongTypeError.of("pool", pool, "bool, or what opens a pool")
    if session is not None and not callable(getattr(session, "client", None)):
        raise WrongTypeError.of("session", session, "boto3.Session")
    is_asynchronous = inspect.iscoroutinefunction(getattr(s3, "_make_api_call", None))
    if s3 is not None and (is_asynchronous or not callable(getattr(s3, "get_object", None))):
        raise WrongTypeError.of("s3", s3, "boto3.client('s3')")


def distinct(keys: Iterable[str]) -> list[str]:
    """Return the keys in order, without duplicates.

    Raises:
        WrongTypeError: `keys` is a single string, or one of its items is not a string.
    """
    if isinstance(keys, str | bytes) or not isinstance(keys, Iterable):
        raise WrongTypeError.of("keys", keys, "an iterable of str")
    items = list(keys)
    for key in items:
        if not isinstance(key, str):
            raise WrongTypeError.of("one of keys", key, "str")
    return list(dict.fromkeys(items))


def check_arguments(call: str, arguments: Iterable[str]) -> None:
    """Raise TypeError for an argument that `Client` does not have.

    Args:
        call: The call to name in the message.
        arguments: Names of arguments.
    """
    accepted = Arguments.__annotations__ | BoundArguments.__annotations__
    for name in arguments:
        if name not in accepted:
            near = difflib.get_close_matches(name, accepted, 1)
            hint = f"did you mean {near[0]}?" if near else f"accepted: {', '.join(sorted(accepted))}"
            raise TypeError(f"{call} got an unexpected argument {name}; {hint}")


def outcomes(
    results: dict[str, Object | BurstcacheError], *, return_errors: bool
) -> dict[str, Object] | dict[str, Object | BurstcacheError]:
    """Return the results of reads by key. Raise the first error, unless `return_errors` is True."""
    if return_errors:
        return results
    objects = {}
    for key, outcome in results.items():
        if isinstance(outcome, BurstcacheError):
            raise outcome
        objects[key] = outcome
    return objects


def _called(call: Callable[[], object]) -> object:
    return call()
