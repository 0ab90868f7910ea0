"""fsspec's own tests of reading, for the file system of a module's fixture `reading`."""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from typing import Any

import boto3
import pytest
from fsspec.implementations.local import LocalFileSystem
from fsspec.tests.abstract import AbstractFixtures, AbstractGetTests

from burstcache.client.filesystem import BurstcacheFileSystem


class WritableFileSystem(BurstcacheFileSystem):
    """File system that also writes, by boto3, the files that fsspec's tests read. It caches no listings.

    A client passed in serves both.
    """

    cachable = False

    def __init__(self, s3: Any = None) -> None:
        super().__init__(use_listings_cache=False)
        self._shared_client, self.s3 = s3, s3 or boto3.client("s3")

    def _connect(self) -> Any:
        return self._shared_client or super()._connect()

    def touch(self, path: str, *_: Any, **__: Any) -> None:  # type: ignore[override]
        self.pipe(path, b"")

    def pipe(self, path: str, value: bytes) -> None:
        bucket, _, key = path.partition("/")
        self.s3.put_object(Bucket=bucket, Key=key, Body=value)

    def mkdir(self, *_: Any, **__: Any) -> None:
        """Do nothing: a directory exists once it contains a file."""

    makedirs = mkdir

    def rm(self, path: str, **_: Any) -> None:
        bucket = path.split("/")[0]
        keys = [{"Key": name.partition("/")[2]} for name in self.find(path)]
        self.s3.delete_objects(Bucket=bucket, Delete={"Objects": keys})


class ReadingTests(AbstractFixtures, AbstractGetTests):
    @pytest.fixture
    def fs(self, reading: BurstcacheFileSystem) -> BurstcacheFileSystem:
        return reading

    @pytest.fixture
    def fs_path(self, bucket_name: str) -> str:
        return bucket_name

    @pytest.fixture
    def fs_join(self) -> Callable[..., str]:
        return posixpath.join

    @pytest.fixture(scope="class")
    @classmethod
    def local_fs(cls) -> LocalFileSystem:
        """Return fsspec's own fixture, which older versions define as an instance method: pytest 9 warns of that."""
        return LocalFileSystem(auto_mkdir=True)

    @pytest.fixture
    def supports_empty_directories(self) -> bool:
        return False
