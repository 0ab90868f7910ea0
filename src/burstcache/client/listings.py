"""Listings of directories, cached by the file system, and what they prove about paths without an object."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, MutableMapping
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from burstcache.adapters.clock import Instant, SystemClock, instant
from burstcache.adapters.single_flight import PATIENT_NEXT_AFTER_S, SingleFlight
from burstcache.client.boto3_wrapper import cached_bucket
from burstcache.client.paths import Info, as_os_errors, directory_info, file_info, is_file, parent, split_path

if TYPE_CHECKING:
    from types_boto3_s3.client import S3Client
    from types_boto3_s3.type_defs import ListObjectsV2OutputTypeDef

    from burstcache.client.boto3_wrapper import CachedBucket
    from burstcache.serve.memory_tier import Ticket

_MOST_CACHED_IN_TREE = 10_000  # objects of one listing of all levels

Kind = Literal["", "directory", "absent"]


class Listing(list[Info]):
    """The contents of a directory by name, as cached. S3 sorts a directory's key with its final slash.

    Attributes:
        ticket: Taken before the request to S3. None: unknown, so the listing proves nothing about other names.
        kind: If S3 has no object at the directory's own path: `directory` if keys are below it, else `absent`. Empty:
            an object may be there. The contents of a `directory` without entries are unknown.
    """

    def __init__(self, infos: Iterable[Info], ticket: Ticket | None, kind: Kind = "") -> None:
        super().__init__(sorted(infos, key=lambda info: info["name"]))
        self.ticket, self.kind = ticket, kind

    @property
    def is_complete(self) -> bool:
        """True if no other name is in the directory."""
        return bool(self) or self.kind == "absent"


_UNKNOWN = Listing((), None)


class Listings:
    """A thread-safe reader of listings. Identical concurrent requests to S3 are sent once (single flight)."""

    def __init__(self, cache: MutableMapping[Hashable, Any], s3: Callable[[str], S3Client]) -> None:
        """Create a reader.

        Args:
            cache: Listings by path, which fsspec bounds in number and age.
            s3: Returns the client of a bucket, with its cache.
        """
        self._cache = cache
        self._s3 = s3
        self._flights: SingleFlight[Any, Instant] = SingleFlight(
            SystemClock(), partial(instant, SystemClock()), next_after_s=PATIENT_NEXT_AFTER_S
        )

    def find(self, path: Hashable) -> Listing:
        """Return the cached listing of a directory, or an empty list."""
        listing = self._cache.get(path, _UNKNOWN)
        return listing if isinstance(listing, Listing) else Listing(listing, None)

    def read(self, path: str) -> Listing:
        """Return the listing of a directory, or of all buckets. An empty one of a directory is not cached."""
        if listing := self.find(path):
            return listing
        bucket, key = split_path(path)
        listing = self.below(bucket, key and key + "/", delimiter="/") if bucket else self._buckets()
        if listing or not key:
            self._cache[path] = listing
        return listing

    def read_tree(self, path: str) -> Listing:
        """Return all levels below a path, and cache them unless they are many."""
        directory = self.find(path)
        if directory and all(map(is_file, directory)):
            return directory
        tree = (path, "all levels")
        listing = self.find(tree)
        if not listing:
            bucket, key = split_path(path)
            listing = self.below(bucket, key and key + "/")
            if len(listing) <= _MOST_CACHED_IN_TREE:
                self._cache[tree] = listing
        return listing

    def below(self, bucket: str, prefix: str, *, delimiter: str = "") -> Listing:
        """List the keys with a prefix. With a delimiter, those of one level."""

        def list_all() -> Listing:
            ticket = self._bucket(bucket).ticket()
            pages = self._s3(bucket).get_paginator("list_objects_v2")
            with as_os_errors(f"{bucket}/{prefix}"):
                infos = [
                    info
                    for page in pages.paginate(Bucket=bucket, Prefix=prefix, Delimiter=delimiter)
                    for info in _infos(bucket, page)
                ]
            return Listing(infos, ticket)

        listing: Listing = self._flights.run((bucket, prefix, delimiter), list_all)[0]
        return listing

    def known_kind(self, path: str) -> Kind:
        """Return `absent` or `directory` if S3 has reported so within the staleness bound, else an empty string."""
        bucket, key = split_path(path)
        if not key:
            return ""
        beside, below = self.find(parent(path)), self.find(path)
        is_listed = not beside.is_complete or any(each["name"] == path for each in beside)
        if not is_listed and beside.ticket is not None and self._bucket(bucket).is_absent(key, beside.ticket):
            return "absent"
        return below.kind if below.kind and self._bucket(bucket).is_absent(key) else ""

    def look_below(self, path: str) -> Kind:
        """List the first keys below a path that is no object, and cache its kind, and its contents if they are few."""
        bucket, key = split_path(path)

        def list_first() -> Listing:
            ticket = self._bucket(bucket).ticket()
            with as_os_errors(path):
                page = self._s3(bucket).list_objects_v2(Bucket=bucket, Prefix=key + "/", Delimiter="/")
            infos = _infos(bucket, page)
            return Listing([] if page.get("IsTruncated") else infos, ticket, "directory" if infos else "absent")

        listing: Listing = self._flights.run(("below", bucket, key), list_first)[0]
        self._cache[path] = listing
        return listing.kind

    def check_bucket(self, bucket: str) -> None:
        """Raise OSError if a bucket does not exist, or may not be listed."""

        def list_one() -> None:
            with as_os_errors(f"{bucket}/"):
                self._s3(bucket).list_objects_v2(Bucket=bucket, Prefix="", MaxKeys=1)

        self._flights.run(bucket, list_one)

    def forget(self, path: str) -> None:
        """Drop the listings of a path and of the directories above it."""
        while path:
            self._cache.pop(path, None)
            self._cache.pop((path, "all levels"), None)
            path = parent(path)
        self._cache.pop("", None)  # the list of buckets

    def _buckets(self) -> Listing:
        with as_os_errors(""):
            buckets = self._s3("").list_buckets()["Buckets"]
        return Listing((directory_info(bucket["Name"]) for bucket in buckets), None)

    def _bucket(self, name: str) -> CachedBucket:
        return cached_bucket(self._s3(name), name)


def with_directories(path: str, infos: Iterable[Info]) -> dict[str, Info]:
    """Return objects below a path with all directories between them and the path, including the path."""
    found: dict[str, Info] = {}
    for info in infos:
        directory = parent(info["name"])
        while len(directory) >= len(path) and directory not in found:
            found[directory] = directory_info(directory)
            directory = parent(directory)
        found[info["name"]] = info
    return found


def _infos(bucket: str, page: ListObjectsV2OutputTypeDef) -> list[Info]:
    """Return the directories and objects of a page of a listing."""
    infos = [directory_info(f"{bucket}/{common['Prefix'][:-1]}") for common in page.get("CommonPrefixes", ())]
    for item in page.get("Contents", ()):
        name = f"{bucket}/{item['Key']}"
        # An empty directory, as created by S3's console, ends with a slash.
        infos.append(directory_info(name[:-1]) if name.endswith("/") else file_info(name, item))
    return infos
