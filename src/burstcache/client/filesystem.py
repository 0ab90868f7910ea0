"""The file system `burstcache://BUCKET/KEY`, by which users of fsspec read through the cache: pandas, pyarrow, dask.

Paths are those of s3fs with another protocol, so a program changes by one word. It reads only. Listings come from S3,
bodies from wherever the cache has them. An object of up to one block is read whole by one request. Of a larger one a
sequential reader gets one stream, and one that seeks gets ranges, each on the condition that the object is still the
one that was opened.
"""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from datetime import datetime
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NoReturn, TypedDict, TypeVar

from botocore.exceptions import BotoCoreError, ClientError
from fsspec.asyn import AsyncFileSystem, get_loop, get_running_loop
from fsspec.callbacks import DEFAULT_CALLBACK, Callback
from fsspec.utils import isfilelike, stringify_path

from burstcache.adapters.clock import Instant, SystemClock, instant
from burstcache.adapters.single_flight import PATIENT_NEXT_AFTER_S, SingleFlight
from burstcache.client.boto3_wrapper import wrap
from burstcache.client.client import Client
from burstcache.client.configuration import VARIABLE
from burstcache.client.files import LargeFile, WholeFile
from burstcache.client.keeping import MAX_STALE_MS, MEMORY_BYTES, Bounds, Freshness, is_number
from burstcache.client.paths import (
    Info,
    as_os_errors,
    directory_info,
    file_info,
    http_status,
    is_file,
    split_path,
)
from burstcache.client.storage_options import REFUSED, StorageOptions
from burstcache.core.errors import InvalidSettingError, WrongTypeError
from burstcache.forks import Lock
from burstcache.web.ranges import ByteRange, is_part_sent, parse_range

if TYPE_CHECKING:
    from types_boto3_s3.client import S3Client
    from types_boto3_s3.type_defs import GetObjectOutputTypeDef

T = TypeVar("T")

_REQUESTS = 32  # of one call that are under way at a time
_CHUNK_BYTES = 1 << 20
_OK, _PARTIAL, _RANGE_NOT_SATISFIABLE = 200, 206, 416
_HEAD_REFUSED = (403, 405, 501)  # by stores and policies that do let objects be read


class _Keeping(TypedDict):
    """What is kept of a bucket: arguments of `Client`."""

    freshness: Freshness
    max_stale_ms: int
    memory_bytes: int


class _Conditions(TypedDict, total=False):
    """What of an object is read, and on which condition."""

    Range: str
    IfMatch: str


class BurstcacheFileSystem(AsyncFileSystem):
    """Objects in S3 as files, read through the cache.

    A program's own calls run in its thread. fsspec's asynchronous methods, by which it reads many files at a time, run
    them in threads of a pool.
    """

    protocol = "burstcache"
    blocksize = 8 << 20  # [bytes]

    def __init__(
        self,
        *,
        stack_name: str = "",
        freshness: Freshness = "bounded",
        max_stale_ms: int = MAX_STALE_MS,
        memory_bytes: int = MEMORY_BYTES,
        pool: bool = True,
        use_listings_cache: bool = True,
        listings_expiry_time: float | None = None,
        max_paths: int | None = None,
        asynchronous: bool = False,
        loop: Any = None,
        batch_size: int | None = None,
        default_block_size: int | None = None,
        default_cache_type: str | None = None,
        default_fill_cache: bool = True,
        **storage_options: Any,
    ) -> None:
        """Make a file system; AWS is asked when something is read.

        Args:
            stack_name: The stack through whose tiers its bucket is read; empty for that of the environment (variable
                BURSTCACHE_READER), if it has one. Every other bucket is read through memory over S3.
            freshness: As for `Client`. Under `strong` no listing is remembered.
            max_stale_ms: As for `Client` [ms].
            memory_bytes: As for `Client`, of each bucket [bytes].
            pool: Whether large objects are read through the stack's pool, if it has one.
            use_listings_cache: Whether listings are remembered.
            listings_expiry_time: For how long [s]; None for as long as `max_stale_ms`.
            max_paths: How many of them; None for all.
            asynchronous, loop, batch_size: fsspec's own.
            default_block_size: How much of a larger file is read at a time [bytes]; as s3fs has it.
            default_cache_type, default_fill_cache: As s3fs has them.
            storage_options: How to reach S3, as s3fs has it: `key`, `secret`, `token`, `profile`, `anon`,
                `endpoint_url`, `use_ssl`, `client_kwargs`, `config_kwargs`.

        Raises:
            InvalidSettingError: An option has no meaning for a cache.
            TypeError: There is no such option.
        """
        self._pid = os.getpid()
        self._options = StorageOptions.of(storage_options)
        Bounds.of(freshness, max_stale_ms, memory_bytes)
        if default_block_size is not None and not (is_number(default_block_size) and default_block_size > 0):
            raise InvalidSettingError(f"default_block_size={default_block_size!r}; accepted: above 0 (bytes)")
        if listings_expiry_time is not None and not is_number(listings_expiry_time):
            raise InvalidSettingError(f"listings_expiry_time={listings_expiry_time!r}; accepted: a number (seconds)")
        super().__init__(
            asynchronous=asynchronous,
            loop=loop,
            batch_size=batch_size,
            use_listings_cache=use_listings_cache and freshness != "strong",
            listings_expiry_time=max_stale_ms / 1000 if listings_expiry_time is None else listings_expiry_time,
            max_paths=max_paths,
        )
        self._stack_name = stack_name
        self._pool = None if pool else False
        self._keeping = _Keeping(freshness=freshness, max_stale_ms=max_stale_ms, memory_bytes=memory_bytes)
        self._block_size = default_block_size
        self._file_options = {"cache_type": default_cache_type, "fill_cache": default_fill_cache}
        self._lock = Lock()
        self._client: S3Client | None = None
        self._cached: set[str] = set()  # buckets
        self._listings: SingleFlight[Any, Instant] = SingleFlight(
            SystemClock(), partial(instant, SystemClock()), next_after_s=PATIENT_NEXT_AFTER_S
        )

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        given = stringify_path(path)
        if not isinstance(given, str | list):
            raise WrongTypeError.of("path", path, "str")
        return super()._strip_protocol(path)

    def info(self, path: str, refresh: bool = False, **options: Any) -> Info:
        """Return what is known of an object, or of a directory: what keys have in common up to a slash.

        Args:
            path: Its path.
            refresh: Whether remembered listings are passed over; a copy in memory is as fresh as `freshness` says.
            options: s3fs's own; a version is refused.

        Raises:
            FileNotFoundError: There is neither.
        """
        _check_version(options)
        path = self._strip_protocol(path)
        if refresh:
            self.invalidate_cache(path)
        listed = [each for each in self._listing(self._parent(path)) if each["name"] == path]
        if listed:  # an object, and perhaps a directory of the same name
            return next(filter(is_file, listed), listed[0])
        return self._info_in_s3(path)

    def isfile(self, path: str) -> bool:
        """Whether a path is an object's; False if S3 refuses to say so. Raises OSError if S3 fails."""
        return self._is_of_type("file", path)

    def isdir(self, path: str) -> bool:
        """Whether a path is a directory's; False if S3 refuses to say so. Raises OSError if S3 fails."""
        return self._is_of_type("directory", path)

    def _is_of_type(self, type_: str, path: str) -> bool:
        try:
            return self.info(path)["type"] == type_
        except (FileNotFoundError, PermissionError):
            return False

    def _info_in_s3(self, path: str) -> Info:
        bucket, key = split_path(path)
        if not key:
            if bucket:
                self._has_keys(bucket, "")  # raises if there is no such bucket
            return directory_info(path)
        try:
            with as_os_errors(path):
                return file_info(path, self._described(bucket, key))
        except FileNotFoundError:
            if not self._has_keys(bucket, key + "/"):
                raise
            return directory_info(path)

    def _described(self, bucket: str, key: str) -> Mapping[str, Any]:
        """Return what the store says of an object."""
        s3 = self._s3(bucket)
        try:
            return s3.head_object(Bucket=bucket, Key=key)
        except ClientError as refusal:
            if http_status(refusal) not in _HEAD_REFUSED:
                raise
            try:
                answer = s3.get_object(Bucket=bucket, Key=key)
            except ClientError:
                raise refusal from None
            answer["Body"].close()
            return answer

    def ls(self, path: str, detail: bool = True, refresh: bool = False, **_: Any) -> list[Info] | list[str]:
        """Return what lies in a directory, or the object of that path; `refresh` asks S3 in any case."""
        if refresh:
            self.invalidate_cache(path)
        infos = self._entries(self._strip_protocol(path))
        return infos if detail else [info["name"] for info in infos]

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **options: Any) -> bytes:
        """Return an object's bytes, or a slice of them by Python's rules."""
        _check_version(options)
        path = self._strip_protocol(path)
        start = start or 0
        if end is None:
            if start == 0:
                return self._read(path)
            return self._read(path, ByteRange(None, -start) if start < 0 else ByteRange(start, None))
        if start < 0 or end < 0:
            size_bytes = self.info(path)["size"]
            if size_bytes is None:  # the store says it when it has sent the object
                return self._read(path)[start:end]
            start, end, _step = slice(start, end).indices(size_bytes)
        return self._read(path, ByteRange(start, end - 1)) if start < end else b""

    def get_file(self, rpath: str, lpath: Any, callback: Callback = DEFAULT_CALLBACK, **options: Any) -> None:
        """Copy an object to a local path or into a file open for writing; for a directory, make one."""
        _check_version(options)
        rpath = self._strip_protocol(rpath)
        is_open = isfilelike(lpath)
        if not is_open and os.path.isdir(lpath):
            return
        try:
            with as_os_errors(rpath):
                answer = self._ask(rpath)
        except FileNotFoundError:
            if is_open or self.info(rpath)["type"] != "directory":
                raise
            os.makedirs(lpath)
            return
        callback.set_size(answer.get("ContentLength"))
        try:
            with as_os_errors(rpath), nullcontext(lpath) if is_open else open(lpath, "wb") as file:
                for chunk in answer["Body"].iter_chunks(_CHUNK_BYTES):
                    file.write(chunk)
                    callback.relative_update(len(chunk))
        except BaseException:
            if not is_open and os.path.isfile(lpath):  # nobody may take a part for the object
                os.remove(lpath)
            raise

    def modified(self, path: str) -> datetime:
        """Return when an object was written."""
        info = self.info(path)
        if info["type"] == "directory":
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        if "LastModified" not in info:
            raise OSError(errno.ENODATA, "the store does not say when it was written", path)
        return info["LastModified"]

    def invalidate_cache(self, path: str | None = None) -> None:
        """Forget all listings, or those that a path is in: its own, and those of the directories above it."""
        if path is None:
            self.dircache.clear()
        else:
            path = listed = self._strip_protocol(path)
            while listed:
                self.dircache.pop(listed, None)
                listed = self._parent(listed)
            self.dircache.pop("", None)  # of all buckets
        super().invalidate_cache(path)

    def _open(self, path: str, mode: str = "rb", block_size: int | None = None, **options: Any) -> io.IOBase:
        if mode != "rb":
            self._refuse(path)
        _check_version(options)
        options.pop("version_id", None)
        with as_os_errors(path):
            answer = self._ask(path)
            details = file_info(path, answer)
            size_bytes, etag = details["size"], details.get("ETag", "")
            is_identified = bool(etag) and not etag.startswith("W/")
            # fsspec's `blockcache::` reads with cache_type "none": it keeps the blocks itself.
            is_small = size_bytes is not None and size_bytes <= self.blocksize and options.get("cache_type") != "none"
            if size_bytes is None or not is_identified or is_small:
                try:
                    body = answer["Body"].read()
                except (BotoCoreError, OSError):  # it broke off
                    answer, body = self._ask_whole(path)
                    details = file_info(path, answer)
                details["size"] = len(body)
                return WholeFile(self, details, body)

        def read_range(range_: str) -> bytes:
            return self._read_part(path, range_, etag)

        block_size = block_size or self._block_size or self.blocksize
        options = {name: value for name, value in self._file_options.items() if value is not None} | options
        return LargeFile(self, details, answer["Body"], read_range, block_size, **options)

    async def _info(self, path: str, **options: Any) -> Info:
        return await self._in_thread(self.info, path, **options)

    async def _isfile(self, path: str) -> bool:
        return await self._in_thread(self.isfile, path)

    async def _isdir(self, path: str) -> bool:
        return await self._in_thread(self.isdir, path)

    async def _ls(self, path: str, detail: bool = True, **options: Any) -> list[Info] | list[str]:
        return await self._in_thread(self.ls, path, detail, **options)

    async def _cat_file(self, path: str, start: int | None = None, end: int | None = None, **options: Any) -> bytes:
        return await self._in_thread(self.cat_file, path, start, end, **options)

    async def _get_file(self, rpath: str, lpath: Any, callback: Callback = DEFAULT_CALLBACK, **options: Any) -> None:
        await self._in_thread(self.get_file, rpath, lpath, callback, **options)

    async def _find(self, path: str, *arguments: Any, detail: bool = False, **options: Any) -> Any:
        found = dict(sorted((await self._found(path, *arguments, **options)).items()))
        return found if detail else list(found)

    async def _du(self, path: str, total: bool = True, **options: Any) -> Any:
        sizes = {name: info["size"] for name, info in (await self._found(path, **options)).items()}
        return sum(sizes.values()) if total else sizes

    async def _found(
        self, path: str, maxdepth: int | None = None, withdirs: bool = False, prefix: str = "", **options: Any
    ) -> dict[str, Info]:
        path = self._strip_protocol(path)
        bucket, key = split_path(path)
        if not bucket or maxdepth not in (None, 1):
            found = await self._walked(path, maxdepth, withdirs, **options)
            return {name: info for name, info in found.items() if name.startswith(f"{path}/{prefix}") or not prefix}
        if prefix or maxdepth is None:
            # One listing of what starts so, or of all levels, where fsspec would list directory after directory.
            stem = (key and key + "/") + prefix
            infos = await self._in_thread(self._list, bucket, stem, delimiter="" if maxdepth is None else "/")
        else:
            infos = []
        if not infos and not prefix:
            with suppress(FileNotFoundError):
                infos = await self._in_thread(self._entries, path)
        return self._tree(path, infos) if withdirs else {each["name"]: each for each in infos if is_file(each)}

    async def _walked(self, path: str, maxdepth: int | None, withdirs: bool, **options: Any) -> dict[str, Info]:
        """Return what fsspec's walk finds; of an object and a directory of the same name the object."""
        found: dict[str, Info] = {}
        if withdirs and path and await self._isdir(path):
            found[path] = await self._info(path)
        async for _, directories, files in self._walk(path, maxdepth, detail=True, **options):
            for info in (*directories.values(), *files.values()) if withdirs else files.values():
                found[info["name"]] = info
        if not found and await self._isfile(path):
            found[path] = await self._info(path)
        return found

    def _refuse(self, *arguments: Any, **_: Any) -> NoReturn:
        paths = [argument for argument in arguments if isinstance(argument, str)]
        message = f"{self.protocol}:// is read-only; accepted: writes by boto3 or s3fs"
        raise OSError(errno.EROFS, message, *paths[-1:])

    async def _refuse_later(self, *arguments: Any, **_: Any) -> None:
        self._refuse(*arguments)

    _cp_file = _makedirs = _mkdir = _pipe_file = _put_file = _rm = _rm_file = _refuse_later
    rmdir = touch = _refuse

    def _s3(self, bucket: str = "") -> S3Client:
        """Return boto3's client with the cache in front of this bucket, and of all that were read before."""
        self._follow_fork()
        with self._lock:
            if self._client is None:
                self._client = self._connect()
            if bucket and bucket not in self._cached:
                self._client = wrap(self._client, bucket=bucket, **self._keeping)
                self._cached.add(bucket)
            return self._client

    def _connect(self) -> S3Client:
        s3 = self._options.connect(max_pool_connections=_REQUESTS)
        if not self._stack_name and VARIABLE not in os.environ:
            return s3
        of_stack = Client(
            stack_name=self._stack_name,
            s3=s3,
            pool=self._pool,
            session=self._options.make_session(),
            endpoint_urls=self._options.endpoint_urls,
            **self._keeping,
        )
        self._cached.add(of_stack.bucket_name)
        return wrap(s3, client=of_stack)

    def _ask(self, path: str, part: ByteRange | None = None, if_match: str = "") -> GetObjectOutputTypeDef:
        """Begin to read an object or a part of it; a store that sends another part is found out."""
        bucket, key = split_path(path)
        if not key:
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        conditions = _Conditions()
        if part is not None:
            conditions["Range"] = str(part)
        if if_match:
            conditions["IfMatch"] = if_match
        answer = self._s3(bucket).get_object(Bucket=bucket, Key=key, **conditions)
        sent = answer.get("ContentRange", "")
        if sent and not is_part_sent(part, sent):
            answer["Body"].close()
            raise OSError(errno.EIO, f"the store sends {sent} for {part or 'the whole object'}", path)
        return answer

    def _ask_whole(self, path: str, part: ByteRange | None = None) -> tuple[GetObjectOutputTypeDef, bytes]:
        """Return an answer and its body, and ask once more if that breaks off."""
        answer = self._ask(path, part)
        try:
            return answer, answer["Body"].read()
        except (BotoCoreError, OSError):
            answer = self._ask(path, part)
            return answer, answer["Body"].read()

    def _read(self, path: str, part: ByteRange | None = None) -> bytes:
        with as_os_errors(path):
            try:
                answer, body = self._ask_whole(path, part)
                if part is None or answer["ResponseMetadata"]["HTTPStatusCode"] != _OK:
                    return body
                return body[slice(*(part.within(len(body)) or (0, 0)))]  # the store does not know Range
            except ClientError as error:
                if http_status(error) != _RANGE_NOT_SATISFIABLE:
                    raise
                return b""  # as a slice behind the end is

    def _read_part(self, path: str, range_: str, etag: str) -> bytes:
        """Return a range of one version; a store that ignores conditions or ranges is found out."""
        with as_os_errors(path):
            answer = self._ask(path, parse_range(range_), etag)
            if answer.get("ETag", etag) != etag:
                raise OSError(errno.ESTALE, os.strerror(errno.ESTALE), path)
            if answer["ResponseMetadata"]["HTTPStatusCode"] != _PARTIAL:
                raise OSError(errno.EIO, f"the store sends the whole object for {range_}", path)
            return answer["Body"].read()

    def _entries(self, path: str) -> list[Info]:
        bucket, key = split_path(path)
        infos = self._listing(path)
        if not infos:
            infos = self._list(bucket, key and key + "/", delimiter="/") if bucket else self._buckets()
            if key and not infos:
                infos = [self._info_in_s3(path)]
            else:
                self.dircache[path] = infos
        return [info for info in infos if info["name"] != path or is_file(info)]

    def _listing(self, path: str) -> list[Info]:
        """Return the listing of a directory if it is remembered, else nothing."""
        listing: list[Info] = self.dircache.get(path, [])
        return listing

    def _list(self, bucket: str, prefix: str, delimiter: str = "") -> list[Info]:
        """Return a listing, which equal calls that wait for it share."""
        listing = partial(self._list_in_s3, bucket, prefix, delimiter)
        infos, _ = self._listings.run((bucket, prefix, delimiter), listing)
        return list(infos)

    def _list_in_s3(self, bucket: str, prefix: str, delimiter: str) -> list[Info]:
        pages = self._s3(bucket).get_paginator("list_objects_v2")
        infos = []
        with as_os_errors(f"{bucket}/{prefix}"):
            for page in pages.paginate(Bucket=bucket, Prefix=prefix, Delimiter=delimiter):
                for common in page.get("CommonPrefixes", ()):
                    infos.append(directory_info(f"{bucket}/{common['Prefix'][:-1]}"))
                for item in page.get("Contents", ()):
                    name = f"{bucket}/{item['Key']}"
                    if name.endswith("/"):  # so consoles make an empty directory
                        infos.append(directory_info(name[:-1]))
                    else:
                        infos.append(file_info(name, item))
        return sorted(infos, key=lambda info: info["name"])

    def _buckets(self) -> list[Info]:
        with as_os_errors(""):
            return [directory_info(bucket["Name"]) for bucket in self._s3().list_buckets()["Buckets"]]

    def _has_keys(self, bucket: str, prefix: str) -> bool:
        def ask() -> bool:
            with as_os_errors(f"{bucket}/{prefix}"):
                answer = self._s3(bucket).list_objects_v2(Bucket=bucket, Prefix=prefix, MaxKeys=1)
            return bool(answer.get("Contents"))

        has_keys, _ = self._listings.run((bucket, prefix), ask)
        return bool(has_keys)

    def _tree(self, path: str, infos: list[Info]) -> dict[str, Info]:
        """Return objects with the directories between them and `path`, itself included."""
        found: dict[str, Info] = {}
        for info in infos:
            parent = self._parent(info["name"])
            while len(parent) >= len(path) and parent not in found:
                found[parent] = directory_info(parent)
                parent = self._parent(parent)
            found[info["name"]] = info
        return found

    @property
    def loop(self) -> Any:
        """The event loop of fsspec's thread, in a forked child a new one."""
        self._follow_fork()
        return self._loop

    def _follow_fork(self) -> None:
        """Begin anew in the child of a fork: the parent's threads, loop and connections are not its own."""
        if self._pid == os.getpid():
            return
        with self._lock:
            if self._pid != os.getpid():
                self._client = None
                self._cached = set()
                self.__dict__.pop("_threads", None)
                self._loop = None if self.asynchronous else get_loop()
                self._pid = os.getpid()

    async def _in_thread(self, call: Callable[..., T], *arguments: Any, **options: Any) -> T:
        self._follow_fork()
        answer: T = await get_running_loop().run_in_executor(self._threads, partial(call, *arguments, **options))
        return answer

    @cached_property
    def _threads(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(_REQUESTS, thread_name_prefix="burstcache-fsspec")


def _check_version(options: Mapping[str, Any]) -> None:
    """Raise InvalidSettingError where s3fs would read an older version: the cache has current ones alone."""
    if options.get("version_id") is not None:
        raise InvalidSettingError(f"version_id={options['version_id']!r}; accepted: none, {REFUSED['version_aware']}")
