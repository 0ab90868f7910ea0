"""The filesystem `burstcache://BUCKET/KEY`: pandas, pyarrow, dask and other users of fsspec read through the cache.

Only the protocol of a path differs from s3fs, so you change one word of your program. The file system is read-only.
Listings come from S3, and bodies through the cache. An object of up to one block is read with one request. A larger
object is streamed to a sequential reader. After a seek, a reader sends range requests, each on the condition that the
object is still the version that was opened.
"""

from __future__ import annotations

import errno
import io
import os
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from datetime import datetime
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NoReturn, TypedDict, TypeVar

from botocore.exceptions import BotoCoreError, ClientError
from fsspec.asyn import AsyncFileSystem, get_loop, get_running_loop
from fsspec.callbacks import DEFAULT_CALLBACK, Callback
from fsspec.utils import isfilelike, merge_offset_ranges, stringify_path

from burstcache.client.boto3_wrapper import cached_bucket, object_file, wrap
from burstcache.client.bounds import MAX_STALE_MS, MEMORY_BYTES, BoundArguments, Bounds, Freshness, is_number
from burstcache.client.client import Client
from burstcache.client.configuration import VARIABLE
from burstcache.client.files import LargeFile, WholeFile
from burstcache.client.listings import Listings, with_directories
from burstcache.client.paths import (
    Info,
    as_os_errors,
    directory_info,
    file_info,
    http_status,
    is_file,
    parent,
    split_path,
)
from burstcache.client.storage_options import REFUSED, StorageOptions
from burstcache.core.errors import InvalidSettingError, WrongTypeError
from burstcache.forks import Lock
from burstcache.serve.read_stats import ReadStats, total
from burstcache.web.ranges import ByteRange, is_part_sent, parse_range

if TYPE_CHECKING:
    from types_boto3_s3.client import S3Client
    from types_boto3_s3.type_defs import GetObjectOutputTypeDef


T = TypeVar("T")

_REQUESTS = 32  # parallel requests of one call
_CHUNK_BYTES = 1 << 20
_MERGED_GAP_BYTES = 256 << 10  # S3 sends as many in 3 ms, and a request of their own takes 25 ms
_OK, _PARTIAL, _RANGE_NOT_SATISFIABLE = 200, 206, 416
_HEAD_REFUSED = (403, 405, 501)  # by stores and policies that nevertheless allow a GET


class _Conditions(TypedDict, total=False):
    """The range and the condition of a GET."""

    Range: str
    IfMatch: str


class BurstcacheFileSystem(AsyncFileSystem):
    """S3 objects as files, read through the cache.

    Synchronous calls run in the caller's thread. fsspec's asynchronous methods, which read many files in parallel, run
    in a thread pool.
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
        disk: str | os.PathLike[str] | None = None,
        disk_bytes: int | None = None,
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
        """Create a file system. The first read connects to AWS.

        Args:
            stack_name: The stack to read through. Empty: the stack of the variable BURSTCACHE_READER, if it is set.
                Buckets other than the stack's are cached in memory only.
            freshness: As for `Client`. With `strong`, listings are not cached.
            max_stale_ms: As for `Client` [ms].
            memory_bytes: As for `Client`, per bucket [bytes].
            disk, disk_bytes: As for `Client`. All buckets share the directory.
            pool: Whether to read large objects through the stack's pool, if it has one.
            use_listings_cache: Whether to cache listings, and which paths are absent or directories.
            listings_expiry_time: Lifetime of a cached listing [s]. None: `max_stale_ms`.
            max_paths: Maximum number of cached listings. None: unlimited.
            asynchronous, loop, batch_size: As in fsspec.
            default_block_size: Block size of lazily read files [bytes], as in s3fs.
            default_cache_type, default_fill_cache: As in s3fs.
            storage_options: How to reach S3, as in s3fs: `key`, `secret`, `token`, `profile`, `anon`, `endpoint_url`,
                `use_ssl`, `client_kwargs`, `config_kwargs`.

        Raises:
            InvalidSettingError: An option makes no sense for a cache.
            TypeError: An option is unknown.
        """
        self._pid = os.getpid()
        self._options = StorageOptions.of(storage_options)
        Bounds.of(freshness, max_stale_ms, memory_bytes, disk, disk_bytes)
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
        self._bounds = BoundArguments(
            freshness=freshness,
            max_stale_ms=max_stale_ms,
            memory_bytes=memory_bytes,
            disk=disk,
            disk_bytes=disk_bytes,
        )
        self._block_size = default_block_size
        self._file_options = {"cache_type": default_cache_type, "fill_cache": default_fill_cache}
        self._lock = Lock()
        self._client: S3Client | None = None
        self._cached_buckets: set[str] = set()
        self._listings = Listings(self.dircache, self._s3)

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if not isinstance(stringify_path(path), str | list):
            raise WrongTypeError.of("path", path, "str")
        return super()._strip_protocol(path)

    def info(self, path: str, refresh: bool = False, **options: Any) -> Info:
        """Return the details of an object, or of a directory: a common prefix of keys up to a slash.

        Args:
            path: The path.
            refresh: Whether to ignore cached listings. The bound `freshness` still applies to objects in memory.
            options: As in s3fs. A version is rejected.

        Raises:
            FileNotFoundError: There is neither an object nor a directory.
        """
        _check_version(options)
        path = self._strip_protocol(path)
        if refresh:
            self.invalidate_cache(path)
        listed = [each for each in self._listings.find(parent(path)) if each["name"] == path]
        if listed:  # an object, and perhaps a directory of the same name
            return next(filter(is_file, listed), listed[0])
        if (kind := self._listings.known_kind(path)) == "absent":
            raise _not_found(path)
        return directory_info(path) if kind else self._info_in_s3(path)

    def isfile(self, path: str) -> bool:
        """Return True if a path is an object. False if S3 denies access. Raises OSError if S3 fails."""
        return self._is_of_type("file", path)

    def isdir(self, path: str) -> bool:
        """Return True if a path is a directory. False if S3 denies access. Raises OSError if S3 fails."""
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
                self._listings.check_bucket(bucket)
            return directory_info(path)
        try:
            with as_os_errors(path):
                return file_info(path, self._described(bucket, key))
        except FileNotFoundError:
            if self._listings.look_below(path) == "absent":
                raise
            return directory_info(path)

    def _described(self, bucket: str, key: str) -> Mapping[str, Any]:
        """Return the attributes of an object, by a GET if the store rejects HEAD."""
        s3 = self._s3(bucket)
        try:
            return cached_bucket(s3, bucket).recall("HEAD", key, {}) or s3.head_object(Bucket=bucket, Key=key)
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
        """Return the contents of a directory, or the object at the path. `refresh` ignores cached listings."""
        if refresh:
            self.invalidate_cache(path)
        infos = self._entries(self._strip_protocol(path))
        return infos if detail else [info["name"] for info in infos]

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **options: Any) -> bytes:
        """Return an object's bytes, or a slice of them with Python's semantics."""
        _check_version(options)
        path = self._strip_protocol(path)
        start = start or 0
        if end is None:
            if start == 0:
                return self._read(path)
            return self._read(path, ByteRange(None, -start) if start < 0 else ByteRange(start, None))
        if start < 0 or end < 0:
            size_bytes = self.info(path)["size"]
            if size_bytes is None:  # unknown until the store has sent the object
                return self._read(path)[start:end]
            start, end, _step = slice(start, end).indices(size_bytes)
        return self._read(path, ByteRange(start, end - 1)) if start < end else b""

    def get_file(self, rpath: str, lpath: Any, callback: Callback = DEFAULT_CALLBACK, **options: Any) -> None:
        """Copy an object to a local path or into a file open for writing. For a directory, create a local one."""
        _check_version(options)
        rpath = self._strip_protocol(rpath)
        is_open = isfilelike(lpath)
        if not is_open and os.path.isdir(lpath):
            return
        try:
            with as_os_errors(rpath):
                answer = self._get_object(rpath)
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
            if not is_open and os.path.isfile(lpath):  # a partial file could be mistaken for the object
                os.remove(lpath)
            raise

    def stats(self) -> ReadStats:
        """Return where reads of files were served, and what was not cached, and why."""
        s3: Any = self._s3()
        return s3.stats() if self._cached_buckets else total(())

    def modified(self, path: str) -> datetime:
        """Return the time of an object's last write."""
        info = self.info(path)
        if info["type"] == "directory":
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        if "LastModified" not in info:
            raise OSError(errno.ENODATA, "the store does not report when it was written", path)
        return info["LastModified"]

    def invalidate_cache(self, path: str | None = None) -> None:
        """Invalidate all cached listings, or those of a path and the directories above it."""
        if path is None:
            self.dircache.clear()
        else:
            path = self._strip_protocol(path)
            self._listings.forget(path)
        super().invalidate_cache(path)

    def _open(self, path: str, mode: str = "rb", block_size: int | None = None, **options: Any) -> io.IOBase:
        if mode != "rb":
            self._refuse(path)
        _check_version(options)
        options.pop("version_id", None)
        with as_os_errors(path):
            answer = self._get_object(path)
            details = file_info(path, answer)
            size_bytes, etag = details["size"], details.get("ETag", "")
            is_identified = bool(etag) and not etag.startswith("W/")
            # fsspec's `blockcache::` reads with cache_type "none", because it caches the blocks itself.
            is_small = size_bytes is not None and size_bytes <= self.blocksize and options.get("cache_type") != "none"
            if size_bytes is None or not is_identified or is_small:
                try:
                    body = answer["Body"].read()
                except (BotoCoreError, OSError):  # the body was truncated
                    answer, body = self._read_object(path)
                    details = file_info(path, answer)
                details["size"] = len(body)
                return WholeFile(self, details, body)

        def read_range(range_: str) -> bytes:
            return self._read_part(path, range_, etag)

        block_size = block_size or self._block_size or self.blocksize
        options = {name: value for name, value in self._file_options.items() if value is not None} | options
        if (file := object_file(answer["Body"])) is not None:
            options = {"cache_type": "none"} | options  # the file reads ahead, and the client caches its slices
        return LargeFile(self, details, file or answer["Body"], read_range, block_size, **options)

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

    async def _cat_ranges(
        self,
        paths: list[str],
        starts: int | Sequence[int | None] | None,
        ends: int | Sequence[int | None] | None,
        max_gap: int | None = None,
        batch_size: int | None = None,
        on_error: str = "return",
        **options: Any,
    ) -> list[Any]:
        """Read ranges of files. Requests merge ranges of a file that are at most `max_gap` apart [bytes]."""
        firsts, lasts = ([each] * len(paths) if isinstance(each, int | None) else list(each) for each in (starts, ends))
        read = partial(super()._cat_ranges, batch_size=batch_size, **options)
        if len(paths) > 1 and all(position is None or position >= 0 for position in (*firsts, *lasts)):
            gap_bytes = _MERGED_GAP_BYTES if max_gap is None else max_gap
            blocks = merge_offset_ranges(paths, firsts, lasts, gap_bytes, self.blocksize)
            bodies = await read(*blocks)
            if not any(isinstance(body, Exception) for body in bodies):
                block_starts = list(zip(*blocks[:2], strict=True))
                return [
                    _part_of_blocks(path, first or 0, last, block_starts, bodies)
                    for path, first, last in zip(paths, firsts, lasts, strict=True)
                ]
        plain: list[Any] = await read(paths, firsts, lasts, on_error=on_error)
        return plain

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
        # One listing of the prefix, or of all levels. fsspec would list each directory.
        infos: Sequence[Info]
        if prefix:
            stem = (key and key + "/") + prefix
            infos = await self._in_thread(self._listings.below, bucket, stem, delimiter="" if maxdepth is None else "/")
        elif maxdepth is None:
            infos = await self._in_thread(self._listings.read_tree, path)
        else:
            infos = []
        if not infos and not prefix:
            with suppress(FileNotFoundError):
                infos = await self._in_thread(self._entries, path)
        return with_directories(path, infos) if withdirs else {each["name"]: each for each in infos if is_file(each)}

    async def _walked(self, path: str, maxdepth: int | None, withdirs: bool, **options: Any) -> dict[str, Info]:
        """Return the results of fsspec's walk. If an object and a directory share a name, the object wins."""
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
        """Return the boto3 client, with a cache in front of this and all previously read buckets."""
        self._reset_after_fork()
        with self._lock:
            if self._client is None:
                self._client = self._connect()
            if bucket and bucket not in self._cached_buckets:
                self._client = wrap(self._client, bucket=bucket, **self._bounds)
                self._cached_buckets.add(bucket)
            return self._client

    def _connect(self) -> S3Client:
        s3 = self._options.connect(max_pool_connections=_REQUESTS)
        if not self._stack_name and VARIABLE not in os.environ:
            return s3
        stack_client = Client(
            stack_name=self._stack_name,
            s3=s3,
            pool=self._pool,
            session=self._options.make_session(),
            endpoint_urls=self._options.endpoint_urls,
            **self._bounds,
        )
        self._cached_buckets.add(stack_client.bucket_name)
        return wrap(s3, client=stack_client)

    def _get_object(self, path: str, part: ByteRange | None = None, if_match: str = "") -> GetObjectOutputTypeDef:
        """Send the GET of an object or a part of it. Raise OSError if the store sends a different part."""
        bucket, key = split_path(path)
        if not key:
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        headers, conditions = dict[str, str](), _Conditions()
        if part is not None:
            headers["range"] = conditions["Range"] = str(part)
        if if_match:
            headers["if-match"] = conditions["IfMatch"] = if_match
        if not if_match and self._listings.known_kind(path) == "absent":
            raise _not_found(path)
        s3 = self._s3(bucket)
        recalled = cached_bucket(s3, bucket).recall("GET", key, headers)
        answer = recalled or s3.get_object(Bucket=bucket, Key=key, **conditions)
        sent = answer.get("ContentRange", "")
        if sent and not is_part_sent(part, sent):
            answer["Body"].close()
            raise OSError(errno.EIO, f"the store sends {sent} for {part or 'the whole object'}", path)
        return answer

    def _read_object(self, path: str, part: ByteRange | None = None) -> tuple[GetObjectOutputTypeDef, bytes]:
        """Return a response and its body. Retry once if the body is truncated."""
        answer = self._get_object(path, part)
        try:
            return answer, answer["Body"].read()
        except (BotoCoreError, OSError):
            answer = self._get_object(path, part)
            return answer, answer["Body"].read()

    def _read(self, path: str, part: ByteRange | None = None) -> bytes:
        with as_os_errors(path):
            try:
                answer, body = self._read_object(path, part)
                if part is None or answer["ResponseMetadata"]["HTTPStatusCode"] != _OK:
                    return body
                return body[slice(*(part.within(len(body)) or (0, 0)))]  # the store ignores Range
            except ClientError as error:
                if http_status(error) != _RANGE_NOT_SATISFIABLE:
                    raise
                return b""  # like a slice beyond the end

    def _read_part(self, path: str, range_: str, etag: str) -> bytes:
        """Return a range of one version. Raise OSError if the store ignores the condition or the range."""
        with as_os_errors(path):
            answer = self._get_object(path, parse_range(range_), etag)
            if answer.get("ETag", etag) != etag:
                raise OSError(errno.ESTALE, os.strerror(errno.ESTALE), path)
            if answer["ResponseMetadata"]["HTTPStatusCode"] != _PARTIAL:
                raise OSError(errno.EIO, f"the store sends the whole object for {range_}", path)
            return answer["Body"].read()

    def _entries(self, path: str) -> list[Info]:
        infos = self._listings.read(path)
        if not infos and split_path(path)[1]:
            return [self.info(path)]
        return [info for info in infos if info["name"] != path or is_file(info)]

    @property
    def loop(self) -> Any:
        """The event loop of fsspec's thread, or a new one in a forked child."""
        self._reset_after_fork()
        return self._loop

    def _reset_after_fork(self) -> None:
        """Drop the parent's threads, loop and connections in a forked child."""
        if self._pid == os.getpid():
            return
        with self._lock:
            if self._pid != os.getpid():
                self._client = None
                self._cached_buckets = set()
                self.__dict__.pop("_threads", None)
                self._loop = None if self.asynchronous else get_loop()
                self._pid = os.getpid()

    async def _in_thread(self, call: Callable[..., T], *arguments: Any, **options: Any) -> T:
        self._reset_after_fork()
        answer: T = await get_running_loop().run_in_executor(self._threads, partial(call, *arguments, **options))
        return answer

    @cached_property
    def _threads(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(_REQUESTS, thread_name_prefix="burstcache-fsspec")


def _part_of_blocks(
    path: str, start: int, end: int | None, block_starts: Sequence[tuple[str, int]], bodies: Sequence[bytes]
) -> bytes:
    """Return a range of a file from the sorted block that contains it."""
    number = bisect_right(block_starts, (path, start)) - 1
    offset = block_starts[number][1]
    return bodies[number][start - offset : None if end is None else max(end - offset, 0)]


def _not_found(path: str) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)


def _check_version(options: Mapping[str, Any]) -> None:
    """Raise InvalidSettingError if a version is requested: the cache only has current versions."""
    if options.get("version_id") is not None:
        raise InvalidSettingError(f"version_id={options['version_id']!r}; accepted: none, {REFUSED['version_aware']}")
