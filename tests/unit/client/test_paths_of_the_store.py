"""Paths in the file system depend on the store alone, neither on earlier calls nor on listings."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from functools import cache
from io import BytesIO
from typing import Any

import pytest
from botocore import UNSIGNED
from botocore.config import Config
from botocore.exceptions import ClientError
from fsspec.implementations.dirfs import DirFileSystem
from hypothesis import example, given
from hypothesis import strategies as st

from burstcache.client import Client
from burstcache.client.boto3_wrapper import CachedBucket
from burstcache.client.filesystem import BurstcacheFileSystem
from burstcache.client.storage_options import StorageOptions
from burstcache.core.errors import InvalidSettingError
from support.aws import REGION, session
from support.hostile_s3 import body_of, hostile_s3
from support.searches import search
from support.waiting import LIMIT_S

_WRITTEN = datetime(2026, 11, 26, tzinfo=UTC)
_NAMES = st.sampled_from(["a", "b", "a.txt", "a-b"])
_KEYS = st.lists(_NAMES, min_size=1, max_size=3).map("/".join)
_MARKERS = _KEYS.map(lambda key: key + "/")
_TREES = st.dictionaries(st.one_of(_KEYS, _KEYS, _MARKERS), st.integers(0, 9), max_size=8)
_CALLS = st.lists(
    st.tuples(
        st.sampled_from(["info", "exists", "isfile", "isdir", "size", "ls", "find", "glob", "walk", "du", "refresh"]),
        st.one_of(st.just(""), _KEYS),
    ),
    max_size=25,
)


class Bucket:
    """The calls of boto3's client that the file system makes, for one bucket in memory."""

    def __init__(self, tree: Mapping[str, int]) -> None:
        self._tree = tree
        # As a wrapped client has it: its cache knows no key, so each listing decides by itself.
        self._burstcache = {"bucket": CachedBucket(Client(bucket="bucket", s3=_s3_without_requests()), is_own=True)}

    def head_object(self, *, Bucket: str, Key: str) -> dict[str, Any]:
        if Key not in self._tree:
            raise ClientError({"Error": {"Code": "404"}, "ResponseMetadata": {"HTTPStatusCode": 404}}, "HeadObject")  # type: ignore[typeddict-item]
        return {"ContentLength": self._tree[Key], "ETag": f'"{Key}"', "LastModified": _WRITTEN}

    def get_object(self, *, Bucket: str, Key: str) -> dict[str, Any]:
        return self.head_object(Bucket=Bucket, Key=Key) | {"Body": BytesIO(bytes(self._tree[Key]))}

    def get_paginator(self, _: str) -> Bucket:
        return self

    def paginate(self, *, Bucket: str, Prefix: str, Delimiter: str) -> Iterator[dict[str, Any]]:
        yield self.list_objects_v2(Bucket=Bucket, Prefix=Prefix, Delimiter=Delimiter)

    def list_objects_v2(self, *, Bucket: str, Prefix: str, Delimiter: str = "", MaxKeys: int = 1000) -> dict[str, Any]:
        contents, common = [], set()
        for key in sorted(each for each in self._tree if each.startswith(Prefix)):
            head, slash, _ = key[len(Prefix) :].partition(Delimiter) if Delimiter else (key, "", "")
            if slash:
                common.add(Prefix + head + slash)
            else:
                contents.append({"Key": key, "Size": self._tree[key], "ETag": f'"{key}"', "LastModified": _WRITTEN})
        return {"Contents": contents[:MaxKeys], "CommonPrefixes": [{"Prefix": each} for each in sorted(common)]}


class FileSystem(BurstcacheFileSystem):
    """The file system over a bucket in memory, which remembers listings for as long as a test lasts."""

    cachable = False

    def __init__(self, tree: Mapping[str, int]) -> None:
        super().__init__(freshness="immutable", listings_expiry_time=10_000)
        self.bucket = Bucket(tree)

    def _s3(self, bucket: str = "") -> Any:
        return self.bucket


@cache
def _s3_without_requests() -> Any:
    return session().client("s3", region_name=REGION, config=Config(signature_version=UNSIGNED))


def kind_of(tree: Mapping[str, int], key: str) -> tuple[str, int] | None:
    """Return type and size of a path by the model: an object, else what other keys are below, else nothing."""
    if key in tree:
        return "file", tree[key]
    if not key or any(each.startswith(key + "/") for each in tree):
        return "directory", 0
    return None


def call(fs: FileSystem, name: str, path: str) -> object:
    """Make a call and return its result in comparable form."""
    try:
        match name:
            case "refresh":
                return sorted(map(str, fs.ls(path, detail=False, refresh=True)))
            case "info":
                return fs.info(path)
            case "ls":
                infos: Any = fs.ls(path, detail=True)
                return sorted((each["name"], each["type"], each["size"]) for each in infos)
            case "walk":
                return [(root, sorted(folders), sorted(files)) for root, folders, files in fs.walk(path)]
            case "glob":
                return sorted(fs.glob(path + "/*"))
            case _:
                return getattr(fs, name)(path)
    except FileNotFoundError:
        return FileNotFoundError


@search(200)
@given(tree=_TREES, calls=_CALLS)
@example(
    tree={"a": 0, "b/a/a": 0, "b/a.txt/a": 0}, calls=[("info", "b"), ("walk", "")]
)  # S3 lists b/a.txt/ before b/a/
def test_what_a_path_is_does_not_depend_on_earlier_calls(tree: dict[str, int], calls: list[tuple[str, str]]) -> None:
    fs = FileSystem(tree)
    for name, key in calls:
        path = f"bucket/{key}".rstrip("/")
        expected = kind_of(tree, key)

        found = call(fs, name, path)

        assert found == call(FileSystem(tree), name, path), (name, path)
        if name == "info" and expected is not None:
            assert (found["type"], found["size"]) == expected  # type: ignore[index]
        elif name in ("isfile", "isdir"):
            assert found == (expected is not None and expected[0] == {"isfile": "file", "isdir": "directory"}[name])
        elif name == "exists":
            assert found == (expected is not None)
        elif name == "size":
            assert found == (FileNotFoundError if expected is None else expected[1])
    fs.dircache.clear()


def test_an_object_and_a_directory_of_one_name_are_both_read() -> None:
    fs = FileSystem({"d.parquet": 7, "d.parquet/part": 3})

    for _ in range(2):
        assert (fs.isfile("bucket/d.parquet"), fs.size("bucket/d.parquet")) == (True, 7)
        assert fs.open("bucket/d.parquet").read() == bytes(7)
        assert fs.ls("bucket/d.parquet", detail=False) == ["bucket/d.parquet/part"]
        fs.ls("bucket")
    assert fs.find("bucket", maxdepth=1) == fs.find("bucket", maxdepth=2)[:1] == ["bucket/d.parquet"]
    assert fs.find("bucket", withdirs=True, detail=True)["bucket/d.parquet"]["type"] == "file"
    assert fs.find("bucket", withdirs=True, maxdepth=2, detail=True)["bucket/d.parquet"]["type"] == "file"
    assert DirFileSystem("bucket", fs).isfile("d.parquet")


_IN_A_CHILD: dict[str, Callable[[BurstcacheFileSystem], object]] = {
    "open": lambda fs: fs.open("bucket/good/a").read(),
    "exists": lambda fs: fs.exists("bucket/good/a"),
    "info": lambda fs: fs.info("bucket/good/a")["size"],
    "cat of one": lambda fs: fs.cat("bucket/good/a"),
    "cat of two": lambda fs: fs.cat(["bucket/good/a", "bucket/good/b"]),
    "cat_ranges": lambda fs: fs.cat_ranges(["bucket/good/a"] * 3, [0, 1, 2], [3, 4, 5]),
    "isdir": lambda fs: fs.isdir("bucket/good/a"),
    "sizes": lambda fs: fs.sizes(["bucket/good/a", "bucket/good/b"]),
}


def _in_child(fs: BurstcacheFileSystem, queue: Any) -> None:
    outcomes = {}
    for name, use in _IN_A_CHILD.items():
        try:
            outcomes[name] = use(fs)
        except Exception as error:
            outcomes[name] = repr(error)
    queue.put(outcomes)


@pytest.mark.slow
def test_a_file_system_that_was_used_before_a_fork_works_in_the_child() -> None:
    with hostile_s3() as store:
        fs = BurstcacheFileSystem(
            key="id", secret="secret", endpoint_url=store.url, client_kwargs={"region_name": "eu-west-1"}
        )
        here = {name: use(fs) for name, use in _IN_A_CHILD.items()}
        fork = multiprocessing.get_context("fork")
        queue = fork.Queue()
        child = fork.Process(target=_in_child, args=(fs, queue))
        child.start()
        there = queue.get(timeout=LIMIT_S)
        child.join(LIMIT_S)
        fs._client.close()  # type: ignore[union-attr]

    assert there == here
    assert here["open"] == body_of("good/a")


# s3fs's storage options


def test_s3fss_storage_options_say_how_to_reach_s3() -> None:
    s3: Any = StorageOptions.of(
        {
            "key": "id", "secret": "hidden", "token": "t", "endpoint_url": "http://localhost:9000",
            "client_kwargs": {"region_name": "eu-west-3"}, "config_kwargs": {"read_timeout": 7}, "use_ssl": False,
            "requester_pays": False, "version_aware": False, "cache_regions": True, "s3_additional_kwargs": {},
        }
    ).connect(max_pool_connections=3)  # fmt: skip

    credentials = s3._request_signer._credentials
    assert (credentials.access_key, credentials.secret_key, credentials.token) == ("id", "hidden", "t")
    assert (s3.meta.endpoint_url, s3.meta.region_name) == ("http://localhost:9000", "eu-west-3")
    assert (s3.meta.config.read_timeout, s3.meta.config.max_pool_connections) == (7, 3)


def test_anonymous_reads_are_not_signed() -> None:
    s3: Any = StorageOptions.of({"anon": True, "client_kwargs": {"region_name": "eu-west-3"}}).connect()

    assert s3.meta.config.signature_version is UNSIGNED


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"requester_pays": True}, InvalidSettingError, "requester_pays=True"),
        ({"version_aware": True}, InvalidSettingError, "version_aware=True"),
        ({"session": object()}, InvalidSettingError, "accepted: profile, or key"),
        ({"s3_additional_kwargs": {"ACL": "x"}}, InvalidSettingError, "s3_additional_kwargs"),
        ({"anon": True, "key": "id"}, InvalidSettingError, "contradicts credentials"),
        ({"key": "id", "username": "other"}, InvalidSettingError, "contradicts key"),
        ({"stak_name": "x"}, TypeError, "stak_name; accepted"),
        ({"default_block_size": 0}, InvalidSettingError, "default_block_size=0; accepted: above 0"),
    ],
)
def test_what_has_no_meaning_for_a_cache_is_refused_by_name(
    options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        BurstcacheFileSystem(**options, skip_instance_cache=True)
