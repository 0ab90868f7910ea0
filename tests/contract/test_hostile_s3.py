"""Stores that are not quite S3: every reader reads them as boto3 does, keeps nothing of them, or says what failed."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

import burstcache
from burstcache.adapters.object_store import ObjectStore
from burstcache.client import AsyncClient, Client
from burstcache.client.filesystem import BurstcacheFileSystem
from burstcache.core import errors
from burstcache.web.headers import is_identified
from support.hostile_s3 import FAILING, READABLE, HostileS3, body_of, etag_of, hostile_s3

Read = Callable[[str], bytes]
_OPEN: list[Any] = []  # clients of the test under way


@pytest.fixture(scope="module")
def server() -> Iterator[HostileS3]:
    with hostile_s3() as store:
        yield store


@pytest.fixture
def store(server: HostileS3, monkeypatch: pytest.MonkeyPatch) -> Iterator[HostileS3]:
    monkeypatch.setattr("botocore.endpoint.time.sleep", lambda _: None)
    server.requests.clear()
    server.fails_first = server.cuts_first = 0
    yield server
    while _OPEN:
        _OPEN.pop().close()


def connect(store: HostileS3, **config: Any) -> Any:
    retries = Config(retries={"mode": "standard"}, s3={"addressing_style": "path"}, **config)
    session = boto3.Session("id", "secret", region_name="us-east-1")
    _OPEN.append(session.client("s3", endpoint_url=store.url, config=retries))
    return _OPEN[-1]


def client(store: HostileS3, kind: type[Any] = Client) -> Any:
    return kind(bucket="bucket", s3=connect(store))


class _FileSystem(BurstcacheFileSystem):
    cachable = False

    def _connect(self) -> Any:
        return connect(self.store)


def file_system(store: HostileS3) -> BurstcacheFileSystem:
    fs = _FileSystem()
    fs.store = store
    return fs


def _async(store: HostileS3) -> Read:
    async def read(key: str) -> bytes:
        async with client(store, AsyncClient) as reader:
            await reader.get(key)
            body: bytes = (await reader.get(key)).body
            return body

    return lambda key: asyncio.run(read(key))


def _async_open(store: HostileS3) -> Read:
    async def read(key: str) -> bytes:
        async with client(store, AsyncClient) as reader, await reader.open(key) as file:
            body: bytes = await file.read()
            return body

    return lambda key: asyncio.run(read(key))


def _wrapped(store: HostileS3) -> Read:
    s3 = burstcache.wrap(connect(store), bucket="bucket")
    return lambda key: s3.get_object(Bucket="bucket", Key=key)["Body"].read()


# Each reads the key as its own users would; those that keep objects are asked twice below.
READERS: dict[str, Callable[[HostileS3], Read]] = {
    "get": lambda store: (lambda reader: lambda key: reader.get(key).body)(client(store)),
    "get_many": lambda store: (lambda reader: lambda key: reader.get_many([key])[key].body)(client(store)),
    "open": lambda store: (lambda reader: lambda key: reader.open(key).read())(client(store)),
    "wrap": _wrapped,
    "async get": _async,
    "async open": _async_open,
    "cat": lambda store: file_system(store).cat_file,
    "fs.open": lambda store: (lambda fs: lambda key: fs.open(f"bucket/{key}").read())(file_system(store)),
}


def outcome(read: Read, key: str) -> object:
    """Return the bytes, or the error."""
    try:
        return read(key)
    except Exception as error:
        return error


def _mostly_slow(kinds: Iterable[str], *quick: str) -> list[Any]:
    """Return kinds as parameters; a quick run has some of them."""
    wanted = [kind for kind in kinds if kind != "bad-last-modified"]
    return [pytest.param(kind, marks=() if kind in quick else pytest.mark.slow) for kind in wanted]


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("kind", _mostly_slow(READABLE, "chunked", "nothing"))
def test_a_store_that_is_not_quite_s3_is_read_as_boto3_reads_it(store: HostileS3, kind: str, name: str) -> None:
    key, path = f"{kind}/{name}", "bucket/" if name == "cat" else ""
    right = connect(store).get_object(Bucket="bucket", Key=key)["Body"].read()
    read = READERS[name](store)

    read_twice = [read(path + key) for _ in range(2)]

    assert read_twice == [right] * 2
    assert kind != "good" or right == body_of(key)


@pytest.mark.slow
def test_only_what_a_store_identifies_is_kept(store: HostileS3) -> None:
    kept = set()
    for kind in READABLE:
        key = f"{kind}/kept"
        headers = connect(store).get_object(Bucket="bucket", Key=key)["ResponseMetadata"]["HTTPHeaders"]
        reader = client(store)
        tiers = {reader.get(key).tier, reader.get(key).tier}
        assert ("memory" in tiers) == is_identified(headers), kind
        kept |= {kind} if "memory" in tiers else set()

    unidentified = {
        "chunked",
        "closed",
        "no-etag",
        "no-last-modified",
        "nothing",
        "gzip-chunked",
        "empty-etag",
        "weak-etag",
    }
    assert set(READABLE) - kept == unidentified | {"error-as-200"}


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("kind", _mostly_slow(FAILING, "400", "hung-up"))
def test_a_failure_of_s3_is_an_error_of_the_readers_own_kind(store: HostileS3, kind: str, name: str) -> None:
    _, expected, status, code = FAILING[kind]
    key, path = f"{kind}/{name}", "bucket/" if name == "cat" else ""
    bare = outcome(lambda key: connect(store).get_object(Bucket="bucket", Key=key)["Body"].read(), key)

    failure: Any = outcome(READERS[name](store), path + key)

    if name in ("cat", "fs.open"):
        assert isinstance(failure, OSError)
        return
    if name == "wrap":
        assert (type(failure).__name__, isinstance(failure, (ClientError, BotoCoreError, ValueError))) == (
            type(bare).__name__,
            True,
        )
        return
    assert type(failure) is getattr(errors, expected), failure
    assert (failure.status, failure.code) == (status, code)
    assert "proxy" not in str(failure)
    assert kind == "no-bucket" or key in str(failure)


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("fails_first", [1, 2])
def test_a_store_that_says_slow_down_at_first_is_asked_again(store: HostileS3, fails_first: int, name: str) -> None:
    store.fails_first = fails_first
    key = f"good/{name}-{fails_first}"

    assert READERS[name](store)(f"bucket/{key}" if name == "cat" else key) == body_of(key)


@pytest.mark.parametrize("fails_first", [1, 2])
def test_heads_and_listless_calls_are_asked_again_too(store: HostileS3, fails_first: int) -> None:
    store.fails_first = fails_first

    assert client(store).head(f"good/head-{fails_first}").size_bytes == len(body_of(f"good/head-{fails_first}"))
    fs = file_system(store)
    assert fs.info(f"bucket/good/info-{fails_first}")["size"] == len(body_of(f"good/info-{fails_first}"))


@pytest.mark.parametrize("kind", ["chunked", "nothing", "no-etag", "no-head", "forbidden-head", "no-last-modified"])
def test_metadata_is_what_the_store_says(store: HostileS3, kind: str) -> None:
    key = f"{kind}/metadata"
    fs, reader = file_system(store), client(store)

    assert fs.isfile(f"bucket/{key}")
    assert fs.exists(f"bucket/{key}")
    assert fs.size(f"bucket/{key}") in (len(body_of(key)), None)
    assert reader.head(key).size_bytes in (len(body_of(key)), 0)
    assert fs.cat_file(f"bucket/{key}", -5, -1) == body_of(key)[-5:-1]


@pytest.mark.parametrize("name", ["get", "wrap", "async get", "cat"])
@pytest.mark.parametrize("kind", ["good", "chunked", "no-etag", "no-range"])
def test_a_range_is_cut_out_where_a_store_ignores_it_and_wrap_gives_what_boto3_gives(
    store: HostileS3, kind: str, name: str
) -> None:
    key, asked = f"{kind}/range-{name}", "bytes=3-9"
    right = body_of(key)[3:10]
    if name == "wrap":
        right = connect(store).get_object(Bucket="bucket", Key=key, Range=asked)["Body"].read()
    readers: dict[str, Callable[[], bytes]] = {
        "get": lambda: client(store).get(key, range=asked).body,
        "wrap": lambda: (
            burstcache.wrap(connect(store), bucket="bucket")
            .get_object(Bucket="bucket", Key=key, Range=asked)["Body"]
            .read()
        ),
        "async get": lambda: asyncio.run(client(store, AsyncClient).get(key, range=asked)).body,
        "cat": lambda: file_system(store).cat_file(f"bucket/{key}", 3, 10),
    }

    assert readers[name]() == right


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # boto3 leaves the connection of an answer that it cannot parse
def test_a_date_that_is_none_is_an_error_of_the_readers_own_kind(store: HostileS3) -> None:
    for name, make in READERS.items():
        failure = outcome(make(store), ("bucket/" if name == "cat" else "") + "bad-last-modified/a")
        kind = OSError if name in ("cat", "fs.open") else ValueError if name == "wrap" else errors.OriginError
        assert isinstance(failure, kind), name
        assert "yesterday" in str(failure), name
        del failure
        gc.collect()


def test_a_checksum_that_is_wrong_is_never_kept(store: HostileS3) -> None:
    reader = client(store)
    for _ in range(2):
        with pytest.raises(errors.OriginUnavailableError, match="did not arrive as it was sent"):
            reader.get("bad-crc32/a")
    assert store.requests["GET", "bad-crc32/a"] == 4  # each read once more, since the next try may come through


@pytest.mark.parametrize("name", ["get", "async get", "open", "cat", "slice", "fs.open"])
@pytest.mark.parametrize("kind", ["part-of-whole", "other-part", "no-such-part"])
def test_a_part_that_was_not_asked_for_is_an_error(store: HostileS3, kind: str, name: str) -> None:
    key = f"{kind}/{name}"
    fs, reader = file_system(store), client(store)
    readers: dict[str, Callable[[], object]] = {
        "get": lambda: reader.get(key, range="bytes=3-9"),
        "async get": lambda: asyncio.run(client(store, AsyncClient).get(key, range="bytes=3-9")),
        "open": lambda: reader.open(key, range="bytes=3-9").read(),
        "cat": lambda: fs.cat_file(f"bucket/{key}"),
        "slice": lambda: fs.cat_file(f"bucket/{key}", 3, 10),
        "fs.open": lambda: fs.open(f"bucket/{key}").read(),
    }

    with pytest.raises((errors.OriginError, OSError), match="the store sends bytes "):
        readers[name]()


@pytest.mark.parametrize("size", ["*", "1000"])
def test_a_size_that_a_part_does_not_say_is_unknown(store: HostileS3, size: str) -> None:
    key = f"part-of-{'any' if size == '*' else 'thousand'}/a"
    part = client(store).get(key, range="bytes=3-9")

    assert part.body == body_of(key)[3:10]
    assert part.size_bytes == (0 if size == "*" else 1000)


@pytest.mark.parametrize("kind", ["no-head", "forbidden-head"])
def test_conditions_of_a_head_hold_where_a_store_answers_gets_alone(store: HostileS3, kind: str) -> None:
    key = f"{kind}/conditions"
    reader = client(store)
    etag = etag_of(body_of(key))

    assert reader.head(key, if_match=etag).etag == etag
    with pytest.raises(errors.NotModifiedError):
        reader.head(key, if_none_match=etag)
    with pytest.raises(errors.PreconditionFailedError):
        reader.head(key, if_match='"other"')


def test_parts_of_a_large_object_are_not_told_from_one_another_by_a_weak_etag(store: HostileS3) -> None:
    key = "weak-etag/large"
    store.objects[key] = body = bytes(range(256)) * 36_000  # above 8 MiB
    with file_system(store).open(f"bucket/{key}") as file:
        file.seek(8_500_000)
        assert file.read(10) == body[8_500_000:8_500_010]

    with client(store).open(key) as file:
        file.seek(8_500_000)
        assert file.read(10) == body[8_500_000:8_500_010]


def test_a_file_keeps_the_client_that_it_reads_by(store: HostileS3) -> None:
    key = "good/kept-client"
    store.objects[key] = body = bytes(range(256)) * 36_000  # above 8 MiB
    file = client(store).open(key)
    gc.collect()

    assert file.read() == body


@pytest.mark.parametrize("kind", ["code-in-lines", "code-without-end"])
def test_an_error_that_a_store_words_is_one_line(store: HostileS3, kind: str) -> None:
    with pytest.raises(errors.OriginError) as raised:
        client(store).get(f"{kind}/a")
    with pytest.raises(OSError, match="Errno 5") as of_file:
        file_system(store).cat_file(f"bucket/{kind}/a")

    for message in (str(raised.value), str(of_file.value)):
        assert "\n" not in message
        assert len(message) < 3000


@pytest.mark.parametrize("name", ["get", "open", "async get", "cat", "fs.open"])
def test_a_body_that_breaks_off_is_asked_for_again(store: HostileS3, name: str) -> None:
    store.cuts_first = 1
    key = f"good/cut-{name}"

    assert READERS[name](store)(f"bucket/{key}" if name == "cat" else key) == body_of(key)
    assert store.requests["GET", key] == 2


def test_a_copy_that_breaks_off_leaves_no_part_of_it_behind(store: HostileS3, tmp_path: Path) -> None:
    with pytest.raises(OSError, match="Errno 5"):
        file_system(store).get_file("bucket/cut/a", str(tmp_path / "a"))

    assert list(tmp_path.iterdir()) == []


def test_a_part_is_never_kept_as_the_whole_object(store: HostileS3) -> None:
    objects = ObjectStore("bucket", connect(store))
    known = objects.fetch("good/a", max_bytes=10_000)

    with pytest.raises(errors.OriginError, match="where the whole object was asked for"):
        objects.fetch("part-of-whole/a", max_bytes=10_000)
    with pytest.raises(errors.OriginError, match="where the whole object was asked for"):
        objects.fetch_if_newer("part-of-whole/b", known, max_bytes=10_000)
