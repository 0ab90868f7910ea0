"""Objects in S3 as files: names as a local folder has them, bytes as they are in S3, by as few requests as it takes."""

from __future__ import annotations

import errno
import pickle
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from io import BytesIO, UnsupportedOperation
from pathlib import Path
from typing import Any

import boto3
import fsspec
import pytest
from botocore.exceptions import ClientError, ResponseStreamingError
from botocore.response import StreamingBody
from botocore.stub import Stubber
from fsspec.implementations.local import LocalFileSystem

from burstcache.client import boto3_wrapper, files
from burstcache.client.files import LargeFile
from burstcache.client.filesystem import BurstcacheFileSystem
from burstcache.client.streams import ObjectFile
from burstcache.core.errors import InvalidSettingError, WrongTypeError
from burstcache.serve import local_cache
from support.aws import BUCKET, REGION, clients, make_stack, mocked_aws

TREE = {
    "data/2026/a.csv": b"x\n1\n",
    "data/2026/b.csv": b"x\n22\n",
    "data/2025/a.csv": b"",
    "data/ab.csv": b"x",
    "top.txt": b"top",
}
OTHER = "other"
BLOCK_BYTES = 1000
LARGE = bytes(range(256)) * 10


@pytest.fixture(scope="module", autouse=True)
def objects(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with mocked_aws():
        boto3.setup_default_session()
        make_stack()
        for key, body in TREE.items():
            put(key, body)
        clients().s3.create_bucket(Bucket=OTHER, CreateBucketConfiguration={"LocationConstraint": REGION})
        put("large", LARGE, bucket=OTHER)
        put("empty/", b"", bucket=OTHER)
        yield
        BurstcacheFileSystem.clear_instance_cache()
        boto3.DEFAULT_SESSION = None


@pytest.fixture
def fs(monkeypatch: pytest.MonkeyPatch) -> BurstcacheFileSystem:
    monkeypatch.setattr(BurstcacheFileSystem, "blocksize", BLOCK_BYTES)
    return BurstcacheFileSystem(memory_bytes=0, use_listings_cache=False)


@pytest.fixture
def requests(fs: BurstcacheFileSystem) -> Iterator[Counter[str]]:
    """Count the requests to S3 by operation since the test began."""
    with counted(fs) as counts:
        yield counts


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A local folder of the same files, called as the bucket is."""
    folder = tmp_path_factory.mktemp("local") / BUCKET
    for key, body in TREE.items():
        (folder / key).parent.mkdir(parents=True, exist_ok=True)
        (folder / key).write_bytes(body)
    return folder


def test_a_stream_that_breaks_off_makes_no_read_shorter(fs: BurstcacheFileSystem) -> None:
    stream = StreamingBody(BytesIO(b"01234"), 10)
    details: Any = {"name": "other/ten", "size": 10, "type": "file"}

    with LargeFile(fs, details, stream, lambda _: b"01234567", 1000, cache_type="none") as file:
        assert file.read(8) == b"01234567"


@contextmanager
def counted(fs: BurstcacheFileSystem) -> Iterator[Counter[str]]:
    """Count the requests to S3 by operation."""
    counts: Counter[str] = Counter()

    def count(operation_name: str, **_: object) -> None:
        counts[operation_name] += 1

    events = fs._s3(BUCKET).meta.events
    events.register("request-created.s3", count)
    yield counts
    events.unregister("request-created.s3", count)


def put(key: str, body: bytes, *, bucket: str = BUCKET) -> None:
    clients().s3.put_object(Bucket=bucket, Key=key, Body=body)


def url(key: str) -> str:
    return f"burstcache://{BUCKET}/{key}"


def test_fsspec_knows_the_protocol() -> None:
    assert isinstance(fsspec.filesystem("burstcache"), BurstcacheFileSystem)


def test_equal_options_share_an_instance_and_what_it_remembers() -> None:
    assert BurstcacheFileSystem(max_stale_ms=3) is BurstcacheFileSystem(max_stale_ms=3)
    assert BurstcacheFileSystem(max_stale_ms=3) is not BurstcacheFileSystem(max_stale_ms=4)


def test_a_stack_that_is_not_there_is_never_taken_for_none() -> None:
    fs = BurstcacheFileSystem(stack_name="no-such-stack")

    for _ in range(2):
        with pytest.raises(InvalidSettingError, match="no-such-stack"):
            fs.cat(url("top.txt"))


def test_an_unknown_option_is_refused_by_name() -> None:
    with pytest.raises(TypeError, match="stak_name"):
        fsspec.filesystem("burstcache", stak_name="burstcache")


@pytest.mark.parametrize("start", [None, 0, 1, 4, 9, -1, -9])
@pytest.mark.parametrize("end", [None, 0, 1, 4, 9, -1, -9])
def test_a_slice_is_that_of_the_bytes(fs: BurstcacheFileSystem, start: int | None, end: int | None) -> None:
    assert fs.cat_file(url("data/2026/a.csv"), start, end) == TREE["data/2026/a.csv"][start:end]


@pytest.mark.parametrize(
    "name",
    ["", "data", "data/", "data/2026", "data/2026/a.csv", "top.txt"],
)
@pytest.mark.parametrize(
    "ask",
    [
        lambda fs, path: sorted(fs.ls(path, detail=False)),
        lambda fs, path: fs.find(path),
        lambda fs, path: fs.find(path, withdirs=True),
        lambda fs, path: fs.find(path, maxdepth=1),
        lambda fs, path: fs.find(path, maxdepth=2, withdirs=True),
        lambda fs, path: sorted((root, sorted(folders), sorted(files)) for root, folders, files in fs.walk(path)),
        lambda fs, path: fs.du(path),
        lambda fs, path: fs.du(path, total=False),
        lambda fs, path: (fs.exists(path), fs.isfile(path), fs.isdir(path)),
        lambda fs, path: (fs.info(path)["name"], fs.info(path)["type"]),
    ],
)
def test_names_are_those_of_a_local_folder(
    fs: BurstcacheFileSystem, folder: Path, name: str, ask: Callable[[Any, str], Any]
) -> None:
    ours = ask(fs, f"{BUCKET}/{name}")
    theirs = ask(LocalFileSystem(), f"{folder}/{name}")

    assert str(ours) == str(theirs).replace(str(folder), BUCKET)


@pytest.mark.parametrize(
    "pattern",
    [
        "*",
        "**",
        "data/*",
        "data/**",
        "data/a*",
        "data/202?/*.csv",
        "**/a.csv",
        "data/2026/[ab].csv",
        "da*/20*/a.csv",
        "none*",
        "data/*/",
        "top.txt",
    ],
)
@pytest.mark.parametrize("options", [{}, {"maxdepth": 1}, {"maxdepth": 2}])
def test_a_pattern_matches_what_it_matches_in_a_local_folder(
    fs: BurstcacheFileSystem, folder: Path, pattern: str, options: dict[str, int]
) -> None:
    ours = fs.glob(f"{BUCKET}/{pattern}", **options)
    theirs = LocalFileSystem().glob(f"{folder}/{pattern}", **options)

    assert ours == [name.replace(str(folder), BUCKET) for name in theirs]


def test_an_object_of_one_block_is_opened_by_one_request(fs: BurstcacheFileSystem, requests: Counter[str]) -> None:
    with fs.open(url("data/2026/b.csv")) as file:
        file.seek(2)
        tail, size = file.read(), file.size
        file.seek(0)
        lines = list(file)

    assert (tail, size, lines) == (b"22\n", 5, [b"x\n", b"22\n"])
    assert requests == {"GetObject": 1}


def test_a_large_object_that_is_read_in_order_is_opened_by_one_request(
    fs: BurstcacheFileSystem, requests: Counter[str]
) -> None:
    with fs.open(f"{OTHER}/large") as file:
        pieces = list(iter(lambda: file.read(300), b""))

    assert b"".join(pieces) == LARGE
    assert requests == {"GetObject": 1}


def test_a_large_object_is_read_by_ranges_where_a_reader_seeks(
    fs: BurstcacheFileSystem, requests: Counter[str]
) -> None:
    with fs.open(f"{OTHER}/large", block_size=100) as file:
        file.seek(-8, 2)
        tail = file.read()
        file.seek(1500)
        middle = file.read(8)

    assert (tail, middle) == (LARGE[-8:], LARGE[1500:1508])
    assert requests == {"GetObject": 3}


def test_a_large_object_that_changes_while_it_is_open_is_no_mixture(fs: BurstcacheFileSystem) -> None:
    put("changes", LARGE, bucket=OTHER)
    with fs.open(f"{OTHER}/changes") as file:
        put("changes", LARGE[::-1], bucket=OTHER)
        file.seek(2000)

        with pytest.raises(OSError, match="PreconditionFailed.*other/changes") as failed:
            file.read(8)

    assert failed.value.errno == errno.ESTALE


def test_a_stale_file_fails_at_once_and_the_exit_waits_until_it_is_read_no_more(
    fs: BurstcacheFileSystem, requests: Counter[str]
) -> None:
    put("stale", LARGE, bucket=OTHER)
    began_s = time.monotonic()
    with fs.open(f"{OTHER}/stale") as file:
        put("stale", LARGE[::-1], bucket=OTHER)
        for start in (2000, 1000):
            file.seek(start)
            with pytest.raises(OSError, match="PreconditionFailed.*other/stale") as failed:
                file.read(8)
            assert failed.value.errno == errno.ESTALE
        read_s = time.monotonic()

    files._await_stale_reads()

    assert requests == {"GetObject": 2}, "the second read of the stale file asks S3 nothing"
    assert began_s < files._stale_read_s <= read_s
    assert time.monotonic() >= files._stale_read_s + files._QUIET_S


def test_a_stream_that_breaks_off_is_continued_by_ranges(fs: BurstcacheFileSystem) -> None:
    with fs.open(f"{OTHER}/large", block_size=100) as file, pytest.MonkeyPatch.context() as patch:

        def break_off(*_: object, **__: object) -> bytes:
            patch.undo()
            raise ResponseStreamingError(error="connection reset")

        first = file.read(8)
        patch.setattr(StreamingBody, "read", break_off)

        assert first + file.read() == LARGE


def test_an_object_that_was_read_is_opened_from_memory() -> None:
    fs = BurstcacheFileSystem(freshness="immutable")
    with fs.open(url("data/2026/b.csv")) as file:
        first = file.read()
    seen = Counter[str]()
    fs._s3(BUCKET).meta.events.register("request-created.s3", lambda operation_name, **_: seen.update([operation_name]))

    with fs.open(url("data/2026/b.csv")) as file:
        again = file.read()
    part = fs.cat_file(url("data/2026/b.csv"), 1, 3)

    assert (first, again, part) == (b"x\n22\n", b"x\n22\n", b"\n2")
    assert fs.info(url("data/2026/b.csv"))["size"] == 5
    assert not seen


def test_under_strong_freshness_a_change_is_read_at_once() -> None:
    fs = BurstcacheFileSystem(freshness="strong")
    put("now", b"1", bucket=OTHER)
    before = fs.cat(f"{OTHER}/now"), fs.ls(OTHER)
    put("now", b"22", bucket=OTHER)
    put("now too", b"", bucket=OTHER)

    assert before[0] == b"1"
    assert fs.cat(f"{OTHER}/now") == b"22"
    assert len(fs.ls(OTHER)) == len(before[1]) + 1


@pytest.mark.parametrize(
    ("prefix", "depth", "names"), [("a", 1, ["ab.csv"]), ("2", 1, []), ("2026/b", None, ["2026/b.csv"])]
)
def test_names_are_found_by_what_they_start_with(
    fs: BurstcacheFileSystem, prefix: str, depth: int | None, names: list[str]
) -> None:
    found = fs.find(url("data"), maxdepth=depth, prefix=prefix)

    assert found == [f"{BUCKET}/data/{name}" for name in names]


def test_a_depth_of_0_is_refused(fs: BurstcacheFileSystem) -> None:
    with pytest.raises(ValueError, match="maxdepth must be at least 1"):
        fs.find(BUCKET, maxdepth=0)


def test_finding_all_objects_lists_the_bucket_once(fs: BurstcacheFileSystem, requests: Counter[str]) -> None:
    found = fs.find(BUCKET)
    total_bytes = fs.du(BUCKET)

    assert (len(found), total_bytes) == (len(TREE), sum(map(len, TREE.values())))
    assert requests == {"ListObjectsV2": 2}


def test_a_pattern_is_narrowed_by_what_its_names_start_with(fs: BurstcacheFileSystem) -> None:
    prefixes: list[str] = []

    def note(params: dict[str, str], **_: object) -> None:
        prefixes.append(params["Prefix"])

    events = fs._s3(BUCKET).meta.events
    events.register("provide-client-params.s3.ListObjectsV2", note)
    fs.glob(f"{BUCKET}/data/a*.csv")
    events.unregister("provide-client-params.s3.ListObjectsV2", note)

    assert prefixes == ["data/a"]


def test_a_listing_is_remembered_until_it_expires_or_is_to_be_refreshed(fs: BurstcacheFileSystem) -> None:
    remembering = BurstcacheFileSystem(listings_expiry_time=3600)
    put("listed/1", b"")
    first = remembering.ls(url("listed"), detail=False)
    put("listed/2", b"")

    assert remembering.ls(url("listed"), detail=False) == first == [f"{BUCKET}/listed/1"]
    assert len(fs.ls(url("listed"))) == len(remembering.ls(url("listed"), refresh=True)) == 2
    fs._s3(BUCKET).delete_objects(Bucket=BUCKET, Delete={"Objects": [{"Key": "listed/1"}, {"Key": "listed/2"}]})


@pytest.fixture
def caching(monkeypatch: pytest.MonkeyPatch) -> BurstcacheFileSystem:
    """A file system whose absences live for a minute, however slow the machine is."""
    for module in (boto3_wrapper, local_cache):
        monkeypatch.setattr(module, "MAX_STALE_S", 60.0)
    return BurstcacheFileSystem(max_stale_ms=60_000, skip_instance_cache=True)


def opened(fs: BurstcacheFileSystem, path: str) -> bytes:
    with fs.open(path) as file:
        return bytes(file.read())


def copied(fs: BurstcacheFileSystem, path: str) -> bytes:
    into = BytesIO()
    fs.get_file(path, into)
    return into.getvalue()


@pytest.mark.parametrize("freshness", ["bounded", "immutable"])
def test_a_hit_equals_the_first_read_and_counts_once_without_a_call_of_boto3(freshness: Any) -> None:
    fs = BurstcacheFileSystem(freshness=freshness, max_stale_ms=60_000, skip_instance_cache=True)
    path, whole = f"{BUCKET}/data/2026/b.csv", TREE["data/2026/b.csv"]
    first = fs.open(path).info()
    calls = list[str]()
    fs._s3(BUCKET).meta.events.register("provide-client-params.s3", lambda model, **_: calls.append(model.name))

    reads: dict[Callable[[BurstcacheFileSystem, str], bytes], bytes] = {
        opened: whole,
        copied: whole,
        BurstcacheFileSystem.cat_file: whole,
        lambda fs, path: fs.cat_file(path, 1, 3): whole[1:3],
        lambda fs, path: fs.cat_file(path, -3): whole[-3:],
    }
    for read, wanted in reads.items():
        before = fs.stats().tiers["memory"].reads if "memory" in fs.stats().tiers else 0
        assert read(fs, path) == wanted
        assert fs.stats().tiers["memory"].reads == before + 1
    assert fs.open(path).info() == fs.info(path) == first
    assert not calls

    assert fs.cat_file(path, 10) == b""
    assert calls == ["GetObject"]


def test_a_hit_stays_behind_a_write_of_the_same_process(caching: BurstcacheFileSystem) -> None:
    put("rewritten", b"first")
    assert caching.cat_file(f"{BUCKET}/rewritten") == b"first"

    caching._s3(BUCKET).put_object(Bucket=BUCKET, Key="rewritten", Body=b"second")
    put("rewritten", b"third")  # by another process

    assert caching.cat_file(f"{BUCKET}/rewritten") == b"third"


def listed(fs: BurstcacheFileSystem) -> None:
    fs.ls(f"{BUCKET}/data/2026")


def looked_up(fs: BurstcacheFileSystem) -> None:
    assert not fs.exists(f"{BUCKET}/data/2026/absent.aux")


@pytest.mark.parametrize("before", [listed, looked_up])
def test_an_absence_is_known_without_a_request_within_the_bound(
    caching: BurstcacheFileSystem, before: Callable[[BurstcacheFileSystem], None]
) -> None:
    absent = f"{BUCKET}/data/2026/absent.aux"
    before(caching)

    with counted(caching) as requests:
        assert not caching.exists(absent)
        assert not caching.isfile(absent)
        assert not caching.isdir(absent)
        for read in (caching.open, caching.cat, caching.info, caching.ukey):
            with pytest.raises(FileNotFoundError) as failed:
                read(absent)
            assert failed.value.filename == absent
    assert not requests


def test_a_directory_is_looked_up_and_listed_once_within_the_bound(caching: BurstcacheFileSystem) -> None:
    with counted(caching) as requests:
        for _ in range(2):
            assert caching.isdir(url("data/2026"))
            assert caching.info(url("data/2026"))["type"] == "directory"
            assert len(caching.find(url("data/2026"))) == len(caching.ls(url("data/2026"))) == 2
    assert requests == {"HeadObject": 1, "ListObjectsV2": 1}

    with counted(caching) as requests:
        found = caching.find(url("data"))
        assert caching.find(url("data")) == found == sorted(f"{BUCKET}/{key}" for key in TREE if key != "top.txt")
    assert requests == {"ListObjectsV2": 1}

    caching.invalidate_cache(url("data"))
    with counted(caching) as requests:
        assert caching.find(url("data")) == found
    assert requests == {"ListObjectsV2": 1}


def test_a_directory_of_more_keys_than_a_page_is_listed_completely(
    caching: BurstcacheFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    first_key_alone = partial(caching._s3(BUCKET).list_objects_v2, MaxKeys=1)
    monkeypatch.setattr(caching._s3(BUCKET), "list_objects_v2", first_key_alone)

    assert caching.isdir(url("data/2026"))
    with counted(caching) as requests:
        assert caching.isdir(url("data/2026"))
    assert not requests
    assert caching.exists(url("data/2026/b.csv"))
    assert len(caching.ls(url("data/2026"))) == 2


@pytest.mark.parametrize("options", [{"freshness": "strong"}, {"memory_bytes": 0}])
def test_an_absence_is_confirmed_each_time_without_memory_and_by_strong_reads(options: Any) -> None:
    fs = BurstcacheFileSystem(**options)
    fs.ls(BUCKET)
    assert not fs.exists(url("later"))
    put("later", b"here")

    assert fs.exists(url("later"))
    assert fs.cat(url("later")) == b"here"
    clients().s3.delete_object(Bucket=BUCKET, Key="later")


def test_an_object_written_by_the_file_system_s_client_is_there_at_once(caching: BurstcacheFileSystem) -> None:
    caching.ls(BUCKET)
    assert not caching.exists(url("later"))
    caching._s3(BUCKET).put_object(Bucket=BUCKET, Key="later", Body=b"here")

    assert caching.exists(url("later"))
    assert caching.cat(url("later")) == b"here"
    clients().s3.delete_object(Bucket=BUCKET, Key="later")


def test_an_object_written_after_its_directory_was_listed_is_there_after_the_bound(fs: BurstcacheFileSystem) -> None:
    remembering = BurstcacheFileSystem(listings_expiry_time=3600, max_stale_ms=1)  # any request takes longer
    remembering.ls(BUCKET)
    assert not remembering.exists(url("later"))
    put("later", b"here")

    assert remembering.exists(url("later"))
    assert remembering.cat(url("later")) == b"here"
    fs._s3(BUCKET).delete_object(Bucket=BUCKET, Key="later")


def test_an_object_is_known_alike_by_itself_and_in_a_listing(fs: BurstcacheFileSystem) -> None:
    listed, _ = fs.ls(url("data/2026"))

    assert fs.info(url("data/2026/a.csv")) == listed
    assert fs.modified(url("data/2026/a.csv")) == fs.info(url("data/2026/a.csv"))["LastModified"]


def test_a_changed_object_has_another_key_and_checksum(fs: BurstcacheFileSystem) -> None:
    put("changing", b"1", bucket=OTHER)
    before = fs.ukey(f"{OTHER}/changing"), fs.checksum(f"{OTHER}/changing")
    same = fs.ukey(f"{OTHER}/changing"), fs.checksum(f"{OTHER}/changing")
    put("changing", b"2", bucket=OTHER)

    assert before == same
    assert not set(before) & {fs.ukey(f"{OTHER}/changing"), fs.checksum(f"{OTHER}/changing")}


def test_a_key_that_ends_with_a_slash_is_an_empty_directory(fs: BurstcacheFileSystem, tmp_path: Path) -> None:
    fs.get(f"{OTHER}/empty", str(tmp_path / "copy"), recursive=True)

    assert fs.isdir(f"{OTHER}/empty")
    assert fs.ls(f"{OTHER}/empty") == fs.find(f"{OTHER}/empty") == []
    assert {"name": f"{OTHER}/empty", "size": 0, "type": "directory"} in fs.ls(OTHER)
    assert (tmp_path / "copy").is_dir()


def test_ranges_of_many_objects_come_in_order_and_failures_in_their_places(fs: BurstcacheFileSystem) -> None:
    paths = [url("top.txt"), url("absent"), url("top.txt")]

    first, failed, last = fs.cat_ranges(paths, [0, 0, 1], [2, 2, 3])

    assert (first, type(failed), last) == (b"to", FileNotFoundError, b"op")


def test_a_large_object_is_copied_as_a_stream(fs: BurstcacheFileSystem, requests: Counter[str], tmp_path: Path) -> None:
    into = BytesIO()

    fs.get_file(f"{OTHER}/large", str(tmp_path / "copy"))
    fs.get_file(f"{OTHER}/large", into)

    assert (tmp_path / "copy").read_bytes() == into.getvalue() == LARGE
    assert requests == {"GetObject": 2}


def test_blocks_and_text_are_read_as_from_any_file(fs: BurstcacheFileSystem) -> None:
    assert fs.read_block(url("data/2026/b.csv"), 1, 3, delimiter=b"\n") == b"22\n"
    assert fs.read_text(url("data/2026/b.csv")) == "x\n22\n"


@pytest.mark.parametrize("path", ["data/2026/b.csv", "large"])
def test_file_systems_and_files_are_pickled_by_name(fs: BurstcacheFileSystem, path: str) -> None:
    bucket = OTHER if path == "large" else BUCKET
    with fs.open(f"{bucket}/{path}") as file:
        file.seek(2)
        pickled = pickle.dumps((fs, file))
        rest = file.read()

    copy, opened = pickle.loads(pickled)

    assert copy == fs
    assert len(pickled) < 1000
    with opened:
        assert opened.read() == rest


def test_a_large_file_keeps_its_cache_of_blocks_when_it_is_pickled(fs: BurstcacheFileSystem) -> None:
    with fs.open(f"{OTHER}/large", block_size=5, cache_type="bytes") as file:
        pickled = pickle.dumps(file)

    with pickle.loads(pickled) as opened:
        assert (opened.blocksize, opened.cache.name) == (5, "bytes")


@pytest.mark.parametrize(
    "write",
    [
        lambda fs, path: fs.open(path, "wb"),
        lambda fs, path: fs.open(path, "a"),
        lambda fs, path: fs.pipe(path, b""),
        lambda fs, path: fs.put(__file__, path),
        lambda fs, path: fs.touch(path),
        lambda fs, path: fs.rm(path),
        lambda fs, path: fs.mv(f"{BUCKET}/data/ab.csv", path),
        lambda fs, path: fs.copy(f"{BUCKET}/data/ab.csv", path),
        lambda fs, path: fs.mkdir(path),
        lambda fs, path: fs.makedirs(path),
        lambda fs, path: fs.rmdir(path),
    ],
)
def test_writing_is_refused(fs: BurstcacheFileSystem, write: Callable[[Any, str], Any]) -> None:
    with pytest.raises(OSError, match=f"burstcache:// is read-only.*{BUCKET}/top.txt") as refused:
        write(fs, f"{BUCKET}/top.txt")

    assert refused.value.errno == errno.EROFS


def test_threads_may_read_one_large_file_at_once_as_duckdb_does(fs: BurstcacheFileSystem) -> None:
    size_bytes, sought = 32 << 20, 20 << 20
    waits, late, at_once = threading.Event(), Future[str](), Future[str]()
    at_once.set_result("s3")

    def begin(start: int, into: memoryview) -> Future[str]:
        into[:] = b"x" * len(into)
        waits.set()
        return at_once if start else late

    details = fs.info(f"{OTHER}/large")
    details["size"] = size_bytes
    body = ObjectFile(begin, 0, size_bytes)
    with (
        ThreadPoolExecutor() as threads,
        LargeFile(fs, details, body, lambda _: b"range", 5, cache_type="none") as file,
    ):
        first = threads.submit(file.read, 5)
        waits.wait()
        file.seek(sought)
        second = file.read(5)
        late.set_result("s3")

        assert (first.result(), second) == (b"xxxxx", b"range")


def test_an_open_file_refuses_to_be_written(fs: BurstcacheFileSystem) -> None:
    with fs.open(url("top.txt")) as file:
        assert not file.writable()
        with pytest.raises(UnsupportedOperation, match=f"{BUCKET}/top.txt is open for reading"):
            file.write(b"")


@pytest.mark.parametrize("ask", ["info", "cat", "open", "ls", "size", "modified", "ukey"])
@pytest.mark.parametrize(
    "path", [f"{BUCKET}/absent", f"{BUCKET}/top.txt/below", "no-such-bucket", "no-such-bucket/key"]
)
def test_what_is_absent_is_not_found(fs: BurstcacheFileSystem, ask: str, path: str) -> None:
    with pytest.raises((FileNotFoundError, IsADirectoryError)) as failed:
        getattr(fs, ask)(path)

    assert failed.value.filename.startswith(path)


@pytest.mark.parametrize(("status", "error"), [(403, PermissionError), (503, OSError), (500, OSError)])
def test_what_s3_refuses_is_an_error_of_the_file(status: int, error: type[OSError]) -> None:
    fs = fsspec.filesystem("burstcache", skip_instance_cache=True)
    with Stubber(fs._s3(BUCKET)) as s3:
        for operation in ("get_object", "list_objects_v2"):
            s3.add_client_error(operation, http_status_code=status, service_error_code="Refused")

        with pytest.raises(error, match=f"Refused.*{BUCKET}/top.txt"):
            fs.cat(url("top.txt"))
        with pytest.raises(error, match=f"Refused.*{BUCKET}/data/"):
            fs.find(url("data"))


# What s3fs's programs do


def test_a_listing_that_names_an_object_is_forgotten_with_its_path() -> None:
    fs = BurstcacheFileSystem(listings_expiry_time=100, skip_instance_cache=True)
    folder = f"{BUCKET}/data/2026"
    before = fs.ls(folder)
    for path in (folder, f"{folder}/b.csv", f"{BUCKET}/data"):
        fs.dircache[folder] = fs.dircache[f"{BUCKET}/data"] = before
        fs.invalidate_cache(f"burstcache://{path}")
        assert f"{BUCKET}/data" not in fs.dircache
        assert (folder in fs.dircache) == (path == f"{BUCKET}/data")


def test_info_passes_over_a_listing_on_request() -> None:
    fs = BurstcacheFileSystem(listings_expiry_time=100, skip_instance_cache=True)
    path = f"{BUCKET}/data/2026/b.csv"
    fs.dircache[f"{BUCKET}/data/2026"] = [{"name": path, "size": 99, "type": "file"}]

    assert fs.info(path)["size"] == 99
    assert fs.info(path, refresh=True)["size"] != 99


@pytest.mark.parametrize(
    "read",
    [
        lambda fs, path: fs.open(path, version_id="v1"),
        lambda fs, path: fs.open(path, "r", version_id="v1"),
        lambda fs, path: fs.cat_file(path, version_id="v1"),
        lambda fs, path: fs.cat(path, version_id="v1"),
        lambda fs, path: fs.info(path, version_id="v1"),
        lambda fs, path: fs.get_file(path, "never", version_id="v1"),
    ],
)
def test_a_version_is_refused_and_not_read_as_the_current_one(
    fs: BurstcacheFileSystem, read: Callable[[Any, str], Any]
) -> None:
    with pytest.raises(InvalidSettingError, match="version_id='v1'; accepted: none"):
        read(fs, f"{BUCKET}/data/ab.csv")
    assert fs.open(f"{BUCKET}/data/ab.csv", version_id=None).read() == fs.cat_file(f"{BUCKET}/data/ab.csv")


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")  # fsspec's
@pytest.mark.parametrize("protocol", ["simplecache", "filecache", "blockcache"])
def test_fsspecs_caches_on_disk_read_through_it(fs: BurstcacheFileSystem, protocol: str, tmp_path: Path) -> None:
    for path in (f"{BUCKET}/data/ab.csv", f"{OTHER}/large"):
        cache = fsspec.filesystem(protocol, fs=fs, cache_storage=str(tmp_path), skip_instance_cache=True)
        for _ in range(2):
            with cache.open(path) as file:
                assert file.read() == fs.cat_file(path)


@pytest.mark.parametrize("ask", ["isfile", "isdir", "exists"])
def test_a_store_that_fails_does_not_say_that_nothing_is_there(fs: BurstcacheFileSystem, ask: str) -> None:
    def fail(**_: Any) -> None:
        raise ClientError({"Error": {"Code": "SlowDown"}, "ResponseMetadata": {"HTTPStatusCode": 503}}, "HeadObject")  # type: ignore[typeddict-item]

    events = fs._s3(BUCKET).meta.events
    events.register("before-call.s3.HeadObject", fail)
    try:
        with pytest.raises(OSError, match="SlowDown"):
            getattr(fs, ask)(f"{BUCKET}/data/ab.csv")
    finally:
        events.unregister("before-call.s3.HeadObject", fail)


@pytest.mark.parametrize(
    "options",
    [
        {"max_stale_ms": "2000"},
        {"memory_bytes": -1},
        {"freshness": "storng"},
        {"listings_expiry_time": "1 s"},
        {"default_block_size": "5MB"},
        {"key": 5},
        {"endpoint_url": 5},
        {"client_kwargs": "x"},
    ],
    ids=str,
)
def test_an_option_of_a_wrong_kind_is_refused_before_anything_is_read(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidSettingError, match=f"{next(iter(options))}.*; accepted: "):
        BurstcacheFileSystem(**options, skip_instance_cache=True)


@pytest.mark.parametrize("path", [5, None, b"bucket/key"])
@pytest.mark.parametrize("call", ["info", "open", "cat_file", "ls", "exists", "isfile"])
def test_a_path_that_is_no_text_is_refused_by_its_type(fs: BurstcacheFileSystem, call: str, path: Any) -> None:
    with pytest.raises(WrongTypeError, match=f"path is of type {type(path).__name__}; accepted: str"):
        getattr(fs, call)(path)
