"""Any range of any version: a machine of writes, reads by every interface, restarts, damage and clocks that step.

Each answer must be of one version, within the reader's bound of staleness, not older than the reader's answers before
it, with the headers that S3 sends for that version.
"""

from __future__ import annotations

import asyncio
import math
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import pytest
from botocore.exceptions import BotoCoreError, ClientError
from botocore.response import StreamingBody
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

import burstcache
from burstcache.adapters.clock import SystemClock
from burstcache.client import AsyncClient, Client
from burstcache.client.async_client import AsyncObjectFile
from burstcache.client.filesystem import BurstcacheFileSystem
from burstcache.client.pool import PoolThread
from burstcache.client.streams import ObjectFile
from burstcache.core.errors import (
    BurstcacheError,
    NotModifiedError,
    ObjectNotFoundError,
    PreconditionFailedError,
    RangeNotSatisfiableError,
)
from burstcache.core.pool.slices import CodedSlice, Redundancy
from burstcache.core.slices import Version
from burstcache.pool.open_pool import OpenPool
from support.memory_s3 import Failure, MemoryS3, Stored, first_allowed, part_of, superseded_s
from support.waiting import LIMIT_S

T = TypeVar("T")

BUCKET = "ranges"
SLICE = 1 << 10  # a thousandth of the product's sizes
_WHOLE, _POOL_SLICE, _MOST_BODY = 8 * SLICE, 8 * SLICE, 16 * SLICE
_POOL_LIMIT = 4 * SLICE  # larger objects are read through a pool
_LEAST_MEMORY = 8 * SLICE
_DISK_BYTES = 128 << 10  # some thirty slices, since a file takes whole blocks of the disk
_MAX_STALE_S = 2.0
_EPSILON_S = 1e-6
_ANY_FAILURE = (BurstcacheError, ClientError, BotoCoreError, OSError)

_KEYS = ("a", "b")
KEYS = st.sampled_from(_KEYS)
SIZES = st.one_of(
    st.sampled_from([0, 1, 17, _LEAST_MEMORY // 8, _WHOLE - 1, _WHOLE, _WHOLE + 1, _MOST_BODY, _MOST_BODY + 1]),
    st.builds(lambda slices, more: slices * SLICE + more, st.integers(9, 22), st.sampled_from([-1, 0, 1, 300])),
)
OFFSETS = st.one_of(
    st.builds(lambda slices, more: max(0, slices * SLICE + more), st.integers(0, 22), st.sampled_from([-1, 0, 1, 500])),
    st.integers(0, 40),
)
LENGTHS = st.one_of(st.integers(1, 40), st.sampled_from([SLICE - 1, SLICE, SLICE + 1, 3 * SLICE, 30 * SLICE]))
RANGES = st.one_of(
    st.none(),
    st.builds(lambda start, length: f"bytes={start}-{start + length - 1}", OFFSETS, LENGTHS),
    OFFSETS.map(lambda start: f"bytes={start}-"),
    LENGTHS.map(lambda length: f"bytes=-{length}"),
)
PASSES_S = st.sampled_from([0.0, 0.0, 0.3, _MAX_STALE_S - 0.1, _MAX_STALE_S + 0.1, 90.0])


class SteppingClock(SystemClock):
    """A clock beside true time. Wall time may step; the monotonic clock may stand still while the machine sleeps."""

    def __init__(self) -> None:
        self.true_s = 1_000_000.0
        self.wall_ahead_s = self.slept_s = 0.0

    def now_us(self) -> int:
        return round((self.true_s + self.wall_ahead_s) * 1_000_000)

    def monotonic_s(self) -> float:
        return self.true_s - self.slept_s

    def sleep(self, duration_s: float) -> None:
        self.true_s += duration_s

    def wait_for(self, future: Future[T], timeout_s: float | None = None) -> T:
        return future.result(LIMIT_S)


class AtOnce:
    """An executor that runs each call before `submit` returns, so that the order of all calls is the test's."""

    def __init__(self, *_: Any, **__: Any) -> None:
        """Ignore the number of threads."""

    def submit(self, call: Callable[..., T], /, *arguments: Any, **named: Any) -> Future[T]:
        done: Future[T] = Future()
        try:
            done.set_result(call(*arguments, **named))
        except Exception as error:
            done.set_exception(error)
        return done

    def shutdown(self, **_: Any) -> None:
        """Nothing runs."""


class Members:
    """The members of a pool, which all processes share: whole slices by name, without erasure codes."""

    members = ("member",)
    limit_s = float(LIMIT_S)

    def __init__(self) -> None:
        self.bodies: dict[bytes, bytes] = {}

    async def read_slice(self, slice_: CodedSlice, into: memoryview) -> bool:
        return await self.read_part(slice_, 0, into)

    async def read_part(self, slice_: CodedSlice, start: int, into: memoryview) -> bool:
        if (body := self.bodies.get(slice_.name)) is None:
            return False
        into[:] = body[start : start + len(into)]
        return True

    async def write_slice(self, slice_: CodedSlice, body: memoryview) -> bool:
        self.bodies[slice_.name] = bytes(body)
        return True

    async def settle(self) -> None:
        """Nothing is under way."""

    @asynccontextmanager
    async def open(self) -> AsyncIterator[OpenPool]:
        reader: Any = self
        yield OpenPool(reader, lambda: [Redundancy(4, 2)])


class _PoolAtOnce(PoolThread):
    """The pool's thread, for which each read waits, and for what it writes to the members."""

    def read(self, version: Version, start: int, into: memoryview, fetch: Any, threads: Executor) -> Future[bool]:
        done = super().read(version, start, into, fetch, threads)
        done.exception(LIMIT_S)
        if self._running is not None and self._running.opened.done() and not self._running.opened.exception():
            settled = self._running.opened.result().settle()
            asyncio.run_coroutine_threadsafe(settled, self._running.loop).result(LIMIT_S)
        return done


@dataclass(frozen=True)
class Settings:
    """The settings of a reader."""

    freshness: Any
    memory_bytes: int
    has_disk: bool
    has_pool: bool = False

    @property
    def bound_s(self) -> float:
        return {"bounded": _MAX_STALE_S, "strong": 0.0, "immutable": math.inf}[self.freshness]


SETTINGS = st.builds(
    Settings,
    freshness=st.sampled_from(["bounded", "bounded", "strong", "immutable"]),
    memory_bytes=st.sampled_from([0, _LEAST_MEMORY // 2, 3 * _LEAST_MEMORY, 1 << 20]),
    has_disk=st.booleans(),
    has_pool=st.sampled_from([False, False, True]),
)


@dataclass(eq=False)
class Process:
    """A process: a client, boto3's client wrapped with it, and a file system with a client of its own."""

    settings: Settings
    client: Client
    wrapped: Any
    files: BurstcacheFileSystem
    seen: Counter[tuple[str, str]] = field(default_factory=Counter)  # place of the newest state seen, by reader and key


@dataclass(eq=False)
class OpenFile:
    """A file that is open, and the state of its object."""

    process: Process
    key: str
    stored: Stored
    file: Any
    start: int
    end: int
    may_break_off: bool  # S3's own stream

    @property
    def body(self) -> bytes:
        return self.stored.body[self.start : self.end]


class _FileOfTasks:
    """An AsyncClient's file, each of whose reads runs the event loop until it is done."""

    def __init__(self, file: AsyncObjectFile, loop: asyncio.AbstractEventLoop) -> None:
        self._file = file
        self._loop = loop

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int) -> int:
        return self._file.seek(offset)

    def tell(self) -> int:
        return self._file.seek(0, os.SEEK_CUR)

    def read(self, size: int | None) -> bytes:
        return self._loop.run_until_complete(self._file.read(-1 if size is None else size))

    def readinto(self, into: bytearray) -> int:
        found = self.read(len(into))
        into[: len(found)] = found
        return len(found)

    def close(self) -> None:
        self._file.close()


class _FilesOfS3(BurstcacheFileSystem):
    """A file system of the bucket in memory."""

    cachable = False
    blocksize = 8 * SLICE

    def __init__(self, s3: Any, **bounds: Any) -> None:
        super().__init__(use_listings_cache=False, **bounds)
        self._of_memory = s3

    def _connect(self) -> Any:
        return self._of_memory

    _threads: Any = AtOnce()


@contextmanager
def small_slices(clock: SystemClock) -> Iterator[None]:
    """Make all sizes of large objects a thousand times smaller, and run background work at once."""
    sizes: dict[str, Any] = {
        "core.slices.SLICE_BYTES": SLICE,
        "serve.slices._PART_BYTES": _POOL_SLICE,
        "serve.slices.LARGE_BYTES": _POOL_SLICE,
        "core.pool.slices.SLICE_BYTES": _POOL_SLICE,
        "client.streams.SLICE_BYTES": _POOL_SLICE,
        "client.streams.SOUGHT_BYTES": SLICE // 4,
        "client.configuration._WHOLE_BYTES": _WHOLE,
        "client.configuration._LIMIT_BYTES": _POOL_LIMIT,
        "client.backend._MOST_BODY_BYTES": _MOST_BODY,
        "client.backend.LEAST_MEMORY_BYTES": _LEAST_MEMORY,
        "client.boto3_wrapper._SHARED_BYTES": _POOL_SLICE,
        "client.filesystem._MERGED_GAP_BYTES": SLICE // 4,
        "client.filesystem._CHUNK_BYTES": SLICE,
        "serve.factory._HEADS_BYTES": 2600,  # two heads, so that they are evicted, too
        "adapters.slice_files._LEAST_SHARE_BYTES": _DISK_BYTES,
        "serve.buffers.in_large_pages": lambda _: None,
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in sizes.items():
            patch.setattr(f"burstcache.{name}", value)
        for module in ("client.backend", "serve.slices", "serve.part_source"):
            patch.setattr(f"burstcache.{module}.ThreadPoolExecutor", AtOnce)
        for module in ("backend", "client", "boto3_wrapper", "listings"):
            patch.setattr(f"burstcache.client.{module}.SystemClock", lambda: clock)
        patch.setattr("burstcache.client.backend.PoolThread", _PoolAtOnce)
        patch.setattr(os, "fsync", lambda _: None)
        yield


class AnyRange(RuleBasedStateMachine):
    """Processes that share a bucket, a directory of slices and a pool.

    Attributes:
        counts: Steps and answers of all runs, by rule, interface and tier.
    """

    counts: ClassVar[Counter[str]] = Counter()

    def __init__(self) -> None:
        super().__init__()
        self.clock = SteppingClock()
        self.s3 = MemoryS3(lambda: self.clock.true_s)
        self.boto3 = _client(self.s3)
        self.pool = Members()
        self.loop = asyncio.new_event_loop()
        self._patches = small_slices(self.clock)
        self._patches.__enter__()
        self.folder = Path(tempfile.mkdtemp(prefix="ranges-", dir=_memory_folder()))
        self.processes: list[Process] = []
        self.files: list[OpenFile] = []
        self.numbers = 0
        self.sleeps = False

    def teardown(self) -> None:
        try:
            while self.processes:
                self._end(self.processes[0])
        finally:
            self._patches.__exit__(None, None, None)
            self.loop.close()
            shutil.rmtree(self.folder)

    # The world

    @initialize(first=SETTINGS, second=SETTINGS, sleeps=st.booleans(), sizes=st.tuples(SIZES, SIZES))
    def begin(self, first: Settings, second: Settings, sleeps: bool, sizes: tuple[int, int]) -> None:
        self.sleeps = sleeps  # a machine that also had its wall time set back could not know how old a copy is
        for settings in (first, second):
            self._start(settings)
        for key, size_bytes in zip(_KEYS, sizes, strict=True):
            self._write(key, size_bytes)

    def _start(self, settings: Settings) -> None:
        bounds: dict[str, Any] = {
            "freshness": settings.freshness,
            "memory_bytes": settings.memory_bytes,
            "disk": self.folder / "slices" if settings.has_disk else "",
            "disk_bytes": _DISK_BYTES,
        }
        client = Client(bucket=BUCKET, s3=self.boto3, pool=self.pool.open if settings.has_pool else None, **bounds)
        wrapped = burstcache.wrap(self.boto3, client=client)
        self.processes.append(Process(settings, client, wrapped, _FilesOfS3(self.boto3, **bounds)))

    def _end(self, process: Process) -> None:
        self.processes.remove(process)
        for each in [each for each in self.files if each.process is process]:
            each.file.close()
            self.files.remove(each)
        process.client.close()
        if process.files._client is not None:
            wrapped: Any = process.files._client
            for bucket in wrapped._burstcache.values():
                bucket.close()

    @rule(which=st.integers(0, 1), settings=SETTINGS)
    def restart(self, which: int, settings: Settings) -> None:
        self._step("restart")
        self._end(self.processes[which])
        self._start(settings)

    @rule(key=KEYS, size_bytes=SIZES, kind=st.sampled_from(["new", "new", "same size", "same size", "older", "delete"]))
    def write(self, key: str, size_bytes: int, kind: str) -> None:
        self._step(f"write: {kind}")
        older = [each for each in self.s3.states[key] if each.number is not None]
        if kind == "delete":
            self.s3.write(key, None, 0)
        elif kind == "older" and len(older) > 1:
            self.s3.write(key, older[-2].number, older[-2].size_bytes)
        else:
            self._write(key, older[-1].size_bytes if kind == "same size" and older else size_bytes)

    def _write(self, key: str, size_bytes: int) -> None:
        self.numbers += 1
        self.s3.write(key, self.numbers, size_bytes)

    @rule(which=st.integers(0, 1), key=KEYS, size_bytes=SIZES, by_wrap=st.booleans(), deletes=st.integers(0, 4))
    def write_by_the_reader(self, which: int, key: str, size_bytes: int, by_wrap: bool, deletes: int) -> None:
        process = self._step("write by a reader", which)
        self._after_reads()
        self._write_by(process, key, size_bytes, by_wrap, deletes)

    @rule(
        which=st.integers(0, 1),
        key=KEYS,
        size_bytes=SIZES,
        by_wrap=st.booleans(),
        deletes=st.integers(0, 4),
        after=st.integers(0, 2),
    )
    def the_reader_will_write_while_an_answer_is_under_way(
        self, which: int, key: str, size_bytes: int, by_wrap: bool, deletes: int, after: int
    ) -> None:
        process = self._step("write by a reader while an answer is under way", which)
        self._after_reads()

        def write() -> None:
            if process in self.processes:
                self.clock.true_s += 0.001
                self._write_by(process, key, size_bytes, by_wrap, deletes)

        self.s3.under_way = [*[lambda: None] * after, write]

    def _write_by(self, process: Process, key: str, size_bytes: int, by_wrap: bool, deletes: int) -> None:
        if deletes == 0 and by_wrap:
            process.wrapped.delete_object(Bucket=BUCKET, Key=key)
        elif deletes == 0:
            process.client.delete(key)
        else:
            self.numbers += 1
            stored = Stored(self.numbers, size_bytes, 0)
            if by_wrap:
                process.wrapped.put_object(Bucket=BUCKET, Key=key, Body=stored.body, ContentType=stored.content_type)
            else:
                process.client.put(key, stored.body, content_type=stored.content_type)
        if process.settings.freshness != "immutable":
            process.seen["client", key] = len(self.s3.states[key]) - 1

    @rule(passes_s=PASSES_S, steps_s=st.sampled_from([0.0, 0.0, -100.0, -1.0, 1.0, 100.0]))
    def time_passes(self, passes_s: float, steps_s: float) -> None:
        self._step("time passes")
        self.clock.true_s += passes_s
        if self.sleeps:
            self.clock.slept_s += passes_s
        else:
            self.clock.wall_ahead_s += steps_s

    @rule(
        writes=st.lists(st.integers(1, 3), max_size=5),
        key=KEYS,
        size_bytes=SIZES,
        failures=st.lists(
            st.builds(
                Failure, st.sampled_from(["connection", "refused", "broken", "broken"]), st.integers(0, 3 * SLICE)
            ),
            max_size=3,
        ),
    )
    def something_will_happen_between_requests(
        self, writes: list[int], key: str, size_bytes: int, failures: list[Failure]
    ) -> None:
        self._step("events between requests")
        at = self.s3.requests
        for requests in writes:
            at += requests
            self.s3.between.append((at, lambda: self._write(key, size_bytes)))
        self.s3.failures += failures

    @rule(
        which=st.integers(0, 99), kind=st.sampled_from(["flip", "cut", "remove", "exchange"]), at=st.integers(0, 2000)
    )
    def damage_a_file_on_disk(self, which: int, kind: str, at: int) -> None:
        self._step(f"damage: {kind}")
        slices = [each for each in sorted(self.folder.glob("slices/??/*.slice")) if each.stat().st_size]
        if not slices:
            return
        file = slices[which % len(slices)]
        content = bytearray(file.read_bytes())
        if kind == "flip":
            content[at % len(content)] ^= 1
            file.write_bytes(content)
        elif kind == "cut":
            file.write_bytes(content[: at % len(content)])
        elif kind == "remove":
            file.unlink()
        else:
            file.write_bytes(slices[(which + 1) % len(slices)].read_bytes())

    @rule(keeps=st.integers(0, 3))
    def the_pool_loses_slices(self, keeps: int) -> None:
        self._step("the pool loses slices")
        for name in list(self.pool.bodies)[keeps:]:
            del self.pool.bodies[name]

    # Reads

    @rule(
        which=st.integers(0, 1),
        key=KEYS,
        range_=RANGES,
        max_age_s=st.sampled_from([None, None, None, 0, 1]),
        times=st.integers(1, 3),
    )
    def get(self, which: int, key: str, range_: str | None, max_age_s: int | None, times: int) -> None:
        for _ in range(times):
            process = self._step("get", which)
            with self._answering(process, key, max_age_s=max_age_s, range_=range_) as answer:
                found = process.client.get(key, range=range_, max_age_s=max_age_s)
                answer.check(found.headers, found.body)

    @rule(which=st.integers(0, 1), key=KEYS, range_=RANGES, is_match=st.booleans(), age=st.integers(0, 2))
    def get_if(self, which: int, key: str, range_: str | None, is_match: bool, age: int) -> None:
        process = self._step("get with a condition", which)
        states = self.s3.states[key]
        if not (etag := states[max(0, len(states) - 1 - age)].etag):
            return
        with self._answering(process, key, range_=range_, condition=(is_match, etag)) as answer:
            condition: dict[str, Any] = {"if_match" if is_match else "if_none_match": etag}
            found = process.client.get(key, range=range_, **condition)
            answer.check(found.headers, found.body)

    @rule(which=st.integers(0, 1), key=KEYS)
    def head(self, which: int, key: str) -> None:
        process = self._step("head", which)
        with self._answering(process, key) as answer:
            answer.check(process.client.head(key).headers, None)

    @rule(which=st.integers(0, 1))
    def get_many(self, which: int) -> None:
        process = self._step("get many", which)
        answers = {key: _Answer(self, process, key) for key in _KEYS}
        for key, found in process.client.get_many(answers, return_errors=True).items():
            if isinstance(found, BurstcacheError):
                answers[key].failed(found)
            else:
                answers[key].check(found.headers, found.body)
        self._after_reads()

    @rule(
        which=st.integers(0, 1),
        parts=st.lists(st.tuples(KEYS, RANGES), min_size=1, max_size=3),
        max_age_s=st.sampled_from([None, None, 0, 1]),
    )
    def get_by_tasks(self, which: int, parts: list[tuple[str, str | None]], max_age_s: int | None) -> None:
        process = self._step("get by tasks", which)
        answers = [_Answer(self, process, key, range_=range_, max_age_s=max_age_s) for key, range_ in parts]
        tasks = _tasks_of(process)

        async def read() -> list[Any]:
            reads = [tasks.get(key, range=range_, max_age_s=max_age_s) for key, range_ in parts]
            return await asyncio.gather(*reads, return_exceptions=True)

        for answer, found in zip(answers, self.loop.run_until_complete(read()), strict=True):
            if isinstance(found, _ANY_FAILURE):
                answer.failed(found)
            else:
                answer.check(found.headers, found.body)
        self._after_reads()

    @rule(which=st.integers(0, 1), key=KEYS)
    def head_by_a_task(self, which: int, key: str) -> None:
        process = self._step("head by a task", which)
        with self._answering(process, key) as answer:
            answer.check(self.loop.run_until_complete(_tasks_of(process).head(key)).headers, None)

    @rule(which=st.integers(0, 1), key=KEYS, range_=RANGES)
    def open_by_a_task(self, which: int, key: str, range_: str | None) -> None:
        process = self._step("open by a task", which)
        with self._answering(process, key, range_=range_) as answer:
            file = self.loop.run_until_complete(_tasks_of(process).open(key, range=range_))
            stored = answer.check(file.head.headers, None)
            self._opened(process, key, answer, stored, range_, _FileOfTasks(file, self.loop))

    @rule(which=st.integers(0, 1), key=KEYS, range_=RANGES)
    def open(self, which: int, key: str, range_: str | None) -> None:
        process = self._step("open", which)
        with self._answering(process, key, range_=range_) as answer:
            file = process.client.open(key, range=range_)
            self._opened(process, key, answer, answer.check(file.head.headers, None), range_, file)

    @rule(which=st.integers(0, 1), key=KEYS, range_=RANGES, reads=st.booleans())
    def get_object(self, which: int, key: str, range_: str | None, reads: bool) -> None:
        process = self._step("get_object", which)
        with self._answering(process, key, range_=range_) as answer:
            found = process.wrapped.get_object(Bucket=BUCKET, Key=key, **({"Range": range_} if range_ else {}))
            headers = found["ResponseMetadata"]["HTTPHeaders"]
            stored = answer.check(headers, None)
            assert int(headers["content-length"]) == found["ContentLength"]
            if not reads:
                self._opened(process, key, answer, stored, range_, found["Body"])
                return
            answer.check(headers, _read_all(answer, stored, found["Body"]))

    @rule(which=st.integers(0, 1), key=KEYS)
    def head_object(self, which: int, key: str) -> None:
        process = self._step("head_object", which)
        with self._answering(process, key) as answer:
            found = process.wrapped.head_object(Bucket=BUCKET, Key=key)
            answer.check(found["ResponseMetadata"]["HTTPHeaders"], None)

    @rule(which=st.integers(0, 1), key=KEYS, start=OFFSETS, length=st.none() | LENGTHS, is_tail=st.booleans())
    def cat_file(self, which: int, key: str, start: int, length: int | None, is_tail: bool) -> None:
        process = self._step("cat_file", which)
        first, end = (-start, None) if is_tail else (start, None if length is None else start + length)
        with self._answering(process, key, reader="files") as answer:
            answer.check_part(process.files.cat_file(f"{BUCKET}/{key}", first, end), slice(first or None, end))

    @rule(which=st.integers(0, 1), parts=st.lists(st.tuples(KEYS, OFFSETS, LENGTHS), min_size=1, max_size=4))
    def cat_ranges(self, which: int, parts: list[tuple[str, int, int]]) -> None:
        process = self._step("cat_ranges", which)
        answers = [_Answer(self, process, key, reader="files") for key, _, _ in parts]
        paths, starts = [f"{BUCKET}/{key}" for key, _, _ in parts], [start for _, start, _ in parts]
        ends = [start + length for _, start, length in parts]
        bodies = process.files.cat_ranges(paths, starts, ends, on_error="return")
        for answer, start, end, found in zip(answers, starts, ends, bodies, strict=True):
            if isinstance(found, Exception):
                answer.failed(found)
            else:
                answer.check_part(found, slice(start, end), is_first=False)
        self._after_reads()

    @rule(which=st.integers(0, 1), key=KEYS)
    def open_by_fsspec(self, which: int, key: str) -> None:
        process = self._step("fsspec's open", which)
        with self._answering(process, key, reader="files") as answer:
            file: Any = process.files.open(f"{BUCKET}/{key}")
            stored = answer.check_etag(file.details["ETag"], file.size)
            self._opened(process, key, answer, stored, None, file)

    def _opened(
        self, process: Process, key: str, answer: _Answer, stored: Stored, range_: str | None, file: Any
    ) -> None:
        part = part_of(range_, stored.size_bytes) if range_ else None
        start, end = (0, stored.size_bytes) if part is None else (part.start, part.stop)
        self.files.append(OpenFile(process, key, stored, file, start, end, answer.may_fail))
        if len(self.files) > 3:
            self.files.pop(0).file.close()

    @precondition(lambda self: self.files)
    @rule(
        which=st.integers(0, 2),
        reads=st.lists(
            st.tuples(st.none() | OFFSETS, LENGTHS | st.just(-1), st.sampled_from(["read", "read1", "readinto"])),
            min_size=1,
            max_size=4,
        ),
    )
    def read_on(self, which: int, reads: list[tuple[int | None, int, str]]) -> None:
        open_file = self.files[which % len(self.files)]
        for seeks, size, way in reads:
            self._step(f"read on: {type(open_file.file).__name__}")
            if not self._read_on(open_file, seeks, size, way):
                self.files.remove(open_file)
                open_file.file.close()
                break
        self._after_reads()

    def _read_on(self, open_file: OpenFile, seeks: int | None, size: int, way: str) -> bool:
        """Read some bytes of an open file; return False if it fails."""
        file, body = open_file.file, open_file.body
        answer = _Answer(self, open_file.process, open_file.key)
        if seeks is not None and file.seekable():
            file.seek(min(seeks, len(body)))
        at = file.tell()
        try:
            if way == "readinto":
                into = bytearray(max(size, 0))
                found = bytes(into[: file.readinto(into)])
            else:
                read = file.read1 if way == "read1" and hasattr(file, "read1") else file.read
                found = read(size if size >= 0 or hasattr(file, "read1") else None)
        except _ANY_FAILURE as error:
            answer.may_fail = answer.may_fail or open_file.may_break_off
            answer.failed(error, pinned=open_file.stored)
            if isinstance(file, ObjectFile | _FileOfTasks):
                assert file.tell() == at
            return False
        assert found == body[at : at + len(found)], (open_file.stored, at, found[:40])
        wanted = len(body) - at if size < 0 and way != "readinto" else min(max(size, 0), len(body) - at)
        may_be_short = open_file.may_break_off and isinstance(file, StreamingBody)  # as boto3's own
        assert len(found) == wanted or (way != "read" and found) or may_be_short, (open_file.stored, at, wanted, found)
        return True

    # Checks

    def _step(self, name: str, which: int = 0) -> Process:
        self.counts[f"step: {name}"] += 1
        self.clock.true_s += 0.001  # no two events happen at the same time
        return self.processes[which]

    def _after_reads(self) -> None:
        self.s3.between.clear()
        self.s3.under_way.clear()
        self.s3.failures.clear()

    @contextmanager
    def _answering(self, process: Process, key: str, *, reader: str = "client", **more: Any) -> Iterator[_Answer]:
        answer = _Answer(self, process, key, reader=reader, **more)
        try:
            yield answer
        except _ANY_FAILURE as error:
            answer.failed(error)
        self._after_reads()


class _Answer:
    """The answer to one read, and what it may be."""

    def __init__(
        self,
        machine: AnyRange,
        process: Process,
        key: str,
        *,
        reader: str = "client",
        range_: str | None = None,
        max_age_s: float | None = None,
        condition: tuple[bool, str] | None = None,
    ) -> None:
        self._machine, self._process, self._key, self._reader = machine, process, key, reader
        self._range, self._condition = range_, condition
        self._start_s = machine.clock.true_s
        self._states = machine.s3.states[key]
        self._bound_s = process.settings.bound_s
        if max_age_s is not None:
            # Age counts whole seconds.
            self._bound_s = min(self._bound_s, max_age_s + 1 if max_age_s else 0)
        self.may_fail = bool(machine.s3.failures)
        self._overwrites = len(machine.s3.between)
        # The oldest state that the reader may return, and what it has seen before.
        self._oldest = first_allowed(self._states, self._start_s - self._bound_s - _EPSILON_S)
        if process.settings.freshness != "immutable":
            self._oldest = max(self._oldest, process.seen[reader, key])

    def _allowed(self) -> list[int]:
        """Return the places of the states that an answer may show by now."""
        return list(range(self._oldest, len(self._states)))

    def _note(self, places: list[int]) -> None:
        assert places
        if self._process.settings.freshness != "immutable":
            self._process.seen[self._reader, self._key] = max(self._process.seen[self._reader, self._key], min(places))

    def check(self, headers: Any, body: bytes | None) -> Stored:
        """Check an answer by its headers, and its body unless it is a HEAD's; return the state that it shows."""
        etag, tier = headers["etag"], headers.get("x-cache-tier", "")
        places = [place for place in self._allowed() if self._states[place].etag == etag]
        context = (self._key, etag, tier, self._oldest, self._states, self._process.settings)
        assert places, context
        stored = self._states[places[-1]]
        part = part_of(self._range, stored.size_bytes) if self._range else None
        assert self._range is None or part is not None, context
        if self._condition is not None:
            is_match, condition = self._condition
            assert (etag == condition) == is_match, context
        wanted = stored.body if part is None else stored.body[part]
        assert headers["content-length"] == str(len(wanted)), (headers, context)
        total = f"bytes {part.start}-{part.stop - 1}/{stored.size_bytes}" if part and stored.size_bytes else None
        assert headers.get("content-range") == total, (headers, context)
        assert headers["content-type"] == stored.content_type
        assert headers["last-modified"] in {self._states[place].last_modified for place in places}
        if body is not None:
            assert body == wanted, (body[:40], wanted[:40], context)
        if "x-cache-bound" in headers and self._process.settings.freshness != "immutable":
            bound_s = self._start_s - (int(headers["x-cache-bound"]) + 1) / 1000
            assert superseded_s(self._states, places[-1]) >= bound_s, (headers, context)
        if "age" in headers and self._machine.sleeps:  # else the age is of a wall time that has stepped
            assert superseded_s(self._states, places[-1]) >= self._start_s - int(headers["age"]) - 2, (headers, context)
        self._note(places)
        self._machine.counts[f"answer: {tier or 's3 (no header)'}"] += 1
        return stored

    def check_part(self, body: bytes, part: slice, *, is_first: bool = True) -> None:
        """Check an answer that has no headers: it is of the newest state that has these bytes."""
        places = [place for place in self._allowed() if self._states[place].body[part] == body]
        assert places, (self._key, body[:40], part, self._oldest, self._states, self._process.settings)
        if is_first:
            self._note([place for place in places if self._states[place].number is not None] or places)
        self._machine.counts["answer: fsspec"] += 1

    def check_etag(self, etag: str, size_bytes: int) -> Stored:
        """Check a file's details."""
        places = [place for place in self._allowed() if self._states[place].etag == etag]
        assert places, (self._key, etag, self._oldest, self._states, self._process.settings)
        assert self._states[places[-1]].size_bytes == size_bytes
        self._note(places)
        return self._states[places[-1]]

    def failed(self, error: Exception, *, pinned: Stored | None = None) -> None:
        """Check an error: S3 fails, or some state that the answer may show is without what was asked for."""
        self._machine.counts[f"error: {type(error).__name__}"] += 1
        states = [self._states[place] for place in self._allowed()]
        context = (error, self._key, self._oldest, self._states, self._process.settings, self._condition, self._range)
        if self.may_fail:
            return
        if pinned is not None:  # the version that was opened has gone
            assert any(each.etag != pinned.etag for each in self._states[self._states.index(pinned) :]), context
            return
        status = _status(error)
        if status == 404:
            assert self._note_if([each for each in self._allowed() if self._states[each].number is None]), context
        elif status == 304:
            assert self._condition is not None, context
            is_match, etag = self._condition
            assert not is_match, context
            assert any(each.etag == etag for each in states), context
        elif status == 412:
            is_match, condition = self._condition or (True, "")
            assert is_match, context
            assert any(each.etag != condition for each in states), context
        elif status == 416:
            sizes = {
                each.size_bytes for each in states if self._range and part_of(self._range, each.size_bytes) is None
            }
            assert sizes, context
            if isinstance(error, RangeNotSatisfiableError) and error.size_bytes is not None:
                assert error.size_bytes in sizes, context
        else:  # overwritten again and again
            assert self._overwrites > 1 or len(states) > 1, context

    def _note_if(self, places: list[int]) -> bool:
        if places:
            self._note(places)
        return bool(places)


def _tasks_of(process: Process) -> AsyncClient:
    """Return a client for tasks that shares the process's caches with its client for threads."""
    tasks = AsyncClient.__new__(AsyncClient)
    tasks._client = process.client
    return tasks


def _status(error: Exception) -> int:
    for kind, status in (
        (ObjectNotFoundError, 404),
        (NotModifiedError, 304),
        (PreconditionFailedError, 412),
        (RangeNotSatisfiableError, 416),
        (FileNotFoundError, 404),
    ):
        if isinstance(error, kind):
            return status
    if isinstance(error, ClientError):
        return int(error.response["ResponseMetadata"]["HTTPStatusCode"])
    return 0


def _read_all(answer: _Answer, stored: Stored, body: Any) -> bytes:
    """Return a body, in pieces of any size."""
    pieces = []
    for size in (7, SLICE, None):
        piece = body.read(size)
        pieces.append(piece)
    return b"".join(pieces)


@cache
def _memory_folder() -> str | None:
    """Return a folder in memory if there is one: a file there costs a tenth."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


@cache
def _parts_of_client() -> Any:
    return MemoryS3(lambda: 0.0).client(BUCKET)


def _client(s3: MemoryS3) -> Any:
    """Return boto3's client of a bucket in memory. All tests share its description of S3, which is slow to load."""
    shared = _parts_of_client()
    client = object.__new__(type(shared))
    client.__dict__.update(shared.__dict__)
    client._endpoint = s3
    return client
