"""The client for synchronous code; any number of threads may share one."""

from __future__ import annotations

import asyncio
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
from burstcache.client.configuration import Configuration, configure, local_run, with_pool
from burstcache.client.keeping import MAX_STALE_MS, MEMORY_BYTES, Bounds, Freshness, Keeping, is_number
from burstcache.client.large import LargeObjects
from burstcache.client.objects import Object, object_in
from burstcache.client.parts import Parts
from burstcache.client.pool import PoolOpener
from burstcache.client.requests import Requests, checked_body, checked_key, checked_write
from burstcache.client.streams import ObjectFile
from burstcache.core.errors import BurstcacheError, InvalidSettingError, WrongTypeError, in_one_line
from burstcache.forks import Lock
from burstcache.serve.reader import Reader, question
from burstcache.web.request import Request
from burstcache.web.response import Response

if TYPE_CHECKING:
    from types_boto3_s3.client import S3Client

Argument = TypeVar("Argument")
Answer = TypeVar("Answer")

HIT_VALUE_USD_PER_MILLION = 10.0


class Arguments(Keeping, total=False):
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
    """Reads and writes the objects of one bucket.

    With a stack it asks the stack's tiers and S3; with a bucket alone it is a memory over S3. A cache that is out of
    reach never breaks a read: S3 serves, and one warning per cause on the logger `burstcache` names what is missing.

    Threads may share a client, and after a fork the child makes connections of its own. Close it, or use it in a
    `with`: that sends the last reports of what was read.
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
    ) -> None:
        """Make a client; without `stack_name` and `bucket` from the environment (variable BURSTCACHE_READER).

        Args:
            stack_name: The stack whose tiers to read; its outputs are read once (cloudformation:DescribeStacks).
            bucket: The bucket to read without any stack.
            express_bucket: A directory bucket of S3 Express for copies of objects of `bucket`, which must then never
                change: `freshness` has to be `immutable`. A stack has its own.
            hit_value_usd_per_million: What a million saved waits for S3 are worth, >= 0: it weighs copies [USD].
            session: A boto3 session; None for a new one from the environment.
            endpoint_urls: By service, or by the empty text for all; without an entry AWS's own.
            s3: boto3's client of S3 to read with; None for a new one.
            pool: Whether objects above the stack's limit are read through its pool; None: if it has one. Or what opens
                a pool of the caller's own, without a stack for objects above 4 MiB.
            freshness: `bounded`: nothing served is older than `max_stale_ms` after S3's event of the change (with a
                bucket alone: after S3 confirmed it). `strong`: S3 confirms every read. `immutable`: objects never
                change under their keys, so nothing is asked again.
            max_stale_ms: The bound [ms], above 0.
            memory_bytes: What objects kept in this process take at most [bytes]; 0 keeps none.

        Raises:
            InvalidSettingError: An argument or the environment does not say what to read.
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
        bounds = Bounds.of(freshness, max_stale_ms, memory_bytes)
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
    def local(cls, folder: str | os.PathLike[str] = ".burstcache", **keeping: Unpack[Keeping]) -> Self:
        """Return a client of the local run that `burstcache local up` started in this directory.

        Raises:
            InvalidSettingError: Nothing runs there, or an argument has a value that is not accepted.
        """
        client = cls.__new__(cls)
        client._open(local_run(Path(folder)), Bounds.of(**keeping))
        return client

    def _open(self, configuration: Configuration, bounds: Bounds) -> None:
        self.bucket_name = configuration.settings.bucket_name
        self.requests = Requests(SystemClock())
        self._make_parts = partial(Parts, configuration, bounds)
        self._lock = Lock()
        self._parts = self._make_parts()
        self._finalizer = weakref.finalize(self, self._parts.close)

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
        """Return an object, or with a range a part of it.

        Args:
            key: The object's key.
            range: As HTTP and boto3 write it: `bytes=0-499`, `bytes=500-` or `bytes=-500`.
            if_match: Only if the object has this ETag.
            if_none_match: Only if the object has another ETag.
            if_modified_since: Only if it was written later; with a time zone.
            if_unmodified_since: Only if it was not written later; with a time zone.
            max_age_s: Only a copy that S3 gave or confirmed within this time [s]; 0: what S3 gives now.

        Raises:
            ObjectNotFoundError: S3 has no such object.
            NotModifiedError: It is the one of `if_none_match`, or not newer than `if_modified_since`.
            PreconditionFailedError: It is not the one of `if_match`, or newer than `if_unmodified_since`.
            RangeNotSatisfiableError: It has no byte of the range.
            AccessDeniedError: S3 refuses the read.
            OriginUnavailableError: S3 cannot be reached or fails.
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
        """Return an object, or a part of it, as a file that is read as it is used.

        What it holds of a large object is bounded, whatever the size; all that is read is of one version.

        Args:
            key: The object's key.
            range: As for `get`; the file begins and ends with it.
            if_match: Only if the object has this ETag.

        Raises:
            BurstcacheError: As `get` does.
        """
        request = self.requests.make("GET", key, range=range, if_match=if_match)
        response, file = self.large.open(request)
        file.head = object_in(key, replace(response, body=b""))
        file.client = self  # which must not be closed while the file is read, even if nobody else has it
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
        """Return an object without its body; arguments and errors are those of `get`."""
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
        """Return objects by key, in the order of `keys`; those that are not in memory are read in parallel.

        Args:
            keys: Keys; one that is named twice is read once.
            return_errors: Give the error of a key that cannot be read in the place of its object. Otherwise the error
                of the first such key is raised, when all reads have ended.

        Raises:
            BurstcacheError: As `get` does.
        """
        found = {key: self._recalled(key) or self.submit(self._get_or_error, key) for key in distinct(keys)}
        return outcomes(
            {key: each.result() if isinstance(each, Future) else each for key, each in found.items()},
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
        """Write an object; when this returns, no reader of the stack gets the former one from a tier.

        What another process keeps in its memory may be older by its `max_stale_ms`.

        Args:
            key: The object's key.
            data: Its bytes.
            content_type: Its media type; None: S3's own.
            if_match: Only over the object with this ETag.
            if_none_match: `*`: only if there is no object.

        Raises:
            PreconditionFailedError: The condition does not hold: nothing is written.
            WriteConflictError: S3 has another write of the object under way: nothing is written. Write again.
            AccessDeniedError: S3 refuses the write.
            CopiesNotDroppedError: S3 has the new object, but a service of AWS failed while copies were let go: some
                readers may see the former one until S3's event has come through. To write again asks again.
            OriginUnavailableError: S3 does not answer: it may have the new object or not.
            ObjectNotFoundError: There is no object for `if_match` to match.
            RefusedRequestError: The key, the type or a condition is malformed.
            TypeError: `data` is no bytes.
        """
        headers = checked_write(key, content_type=content_type, if_match=if_match, if_none_match=if_none_match)
        return self._current.writer.put(key, checked_body(data), **headers)

    def delete(self, key: str, *, if_match: str | None = None) -> Written:
        """Delete an object, whether or not there is one; argument, promise and errors are those of `put`."""
        return self._current.writer.delete(key, if_match=checked_write(key, if_match=if_match).get("if_match", ""))

    def purge(self, key: str) -> None:
        """Let every copy of an object go, for a write of which the stack was not told.

        Raises:
            CopiesNotDroppedError: A service of AWS failed while copies were let go.
            RefusedRequestError: The key is malformed.
        """
        self._current.writer.purge(checked_key(key))

    def close(self) -> None:
        """Send what is waiting to be reported, and close the connections. A later read opens new ones."""
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
        """What reads: this process's own, for code that wraps another interface around it."""
        return self._current.reader

    @property
    def large(self) -> LargeObjects:
        """What reads objects of any size."""
        return self._current.large

    def read(self, request: Request) -> Response:
        """Return the answer to a GET or HEAD."""
        return self._current.read(request)

    async def read_in_thread(self, request: Request) -> Response:
        """Return the answer to a GET or HEAD of a task: equal reads share one, and only that one holds a thread."""
        parts = self._current
        reader = parts.reader
        since = reader.own.ticket()
        is_plain = "cache-control" not in request.headers
        answer, shared = await parts.task_reads.run_in_thread(
            (question(request), request.headers.get("cache-control")),
            partial(self.read, request),
            partial(self.submit, _called),
            may_follow=reader.own.fresh_tickets(request.hash) if is_plain else never,
        )
        if shared is None:
            return answer
        if (given := reader.shared(request, answer, shared, since=since)) is not None:
            return given
        return await asyncio.wrap_future(self.submit(self.read, request))

    def submit(self, call: Callable[[Argument], Answer], argument: Argument) -> Future[Answer]:
        """Begin a call in one of this process's threads for reads in parallel."""
        while True:
            parts = self._current
            try:
                return parts.threads.submit(call, argument)
            except RuntimeError:
                if parts.is_usable:  # this process ends
                    raise

    @property
    def _current(self) -> Parts:
        parts = self._parts
        return parts if parts.is_usable else self._renewed()

    def _renewed(self) -> Parts:
        with self._lock:
            if not self._parts.is_usable:
                self._parts = self._make_parts()
                self._finalizer.detach()
                self._finalizer = weakref.finalize(self, self._parts.close)
            return self._parts

    def _recalled(self, key: str) -> Object | BurstcacheError | None:
        try:
            response = self.reader.own.recall(self.requests.make("GET", key))
            return None if response is None else object_in(key, response)
        except BurstcacheError as error:
            return error

    def _get_or_error(self, key: str) -> Object | BurstcacheError:
        try:
            return self.get(key)
        except BurstcacheError as error:
            return error


@contextmanager
def _settings_checked() -> Iterator[None]:
    """Raise InvalidSettingError where boto3 cannot make a client: no such profile, no region, no endpoint."""
    try:
        yield
    except (BotoCoreError, ValueError) as error:
        raise InvalidSettingError(f"no client of AWS can be made: {in_one_line(error)}") from error


def _check_types(names: Mapping[str, object], **parts: Any) -> None:
    """Raise WrongTypeError for an argument of `Client` that would fail later, where nobody knows it any more."""
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
    """Return keys once each, in their order.

    Raises:
        WrongTypeError: It is one text, or has what is no text.
    """
    if isinstance(keys, str | bytes) or not isinstance(keys, Iterable):
        raise WrongTypeError.of("keys", keys, "an iterable of str")
    wanted = list(keys)
    for key in wanted:
        if not isinstance(key, str):
            raise WrongTypeError.of("one of keys", key, "str")
    return list(dict.fromkeys(wanted))


def check_arguments(call: str, arguments: Iterable[str]) -> None:
    """Raise TypeError in the name of a call for an argument that `Client` does not have."""
    known = Arguments.__annotations__ | Keeping.__annotations__
    for name in arguments:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]}?" if near else f"accepted: {', '.join(sorted(known))}"
            raise TypeError(f"{call} got an unexpected argument {name}; {hint}")


def outcomes(
    found: dict[str, Object | BurstcacheError], *, return_errors: bool
) -> dict[str, Object] | dict[str, Object | BurstcacheError]:
    """Return what was read by key; raise the first error unless errors are to be returned."""
    if return_errors:
        return found
    objects = {}
    for key, outcome in found.items():
        if isinstance(outcome, BurstcacheError):
            raise outcome
        objects[key] = outcome
    return objects


def _called(call: Callable[[], object]) -> object:
    return call()
