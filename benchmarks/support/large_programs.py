"""Large programs: each reads large files as a user's program would, by one of several ways to reach S3.

    python -m benchmarks.support.large_programs PROGRAM SYSTEM URL FOLDER

runs a program twice in this process and prints, as JSON, the requests and seconds of each run.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import random
import sys
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.support.delayed_s3 import read_counts
from benchmarks.support.large_data import DAYS_PER_FILE, IMAGE, LAKE, LARGE, TABLE, TILE

BUCKET = "bucket"
MEMORY_BYTES = 512 << 20  # of our readers: s3fs's caches in memory have no bound
DISK_BYTES = 4 << 30
_COLUMNS = ["c1", "c4", "c7"]
_DAYS = (DAYS_PER_FILE + 4, 2 * DAYS_PER_FILE + 4)  # the second half of a file and the first half of the next
_TILES, _RANGES, _RANGE_BYTES = 64, 200, 64 * 1024
_STEP_BYTES = 8 << 20
_CREDENTIALS = {"key": "id", "secret": "secret"}

Program = Callable[[], object]  # its result tells whether it read the right bytes
System = Callable[[str, str, Path], Program | None]  # by program, URL and a folder for a cache. None: it cannot read so


@dataclass(frozen=True, slots=True)
class Place:
    """Files as a program reaches them.

    Attributes:
        root: Path of the folder: a bucket, or a local directory.
        fs: fsspec's file system. None: the machine's own.
        protocol: Prefix of a path for DuckDB.
    """

    root: str
    fs: Any = None
    protocol: str = ""

    def open(self, name: str) -> Any:
        """Open a file for reading, without a buffer of Python's own."""
        path = f"{self.root}/{name}"
        return open(path, "rb", buffering=0) if self.fs is None else self.fs.open(path, "rb")


def read_columns(place: Place) -> object:
    """Read three of ten columns with pandas."""
    import pandas

    frame = pandas.read_parquet(f"{place.root}/{TABLE}", columns=_COLUMNS, filesystem=place.fs)
    return [round(each, 3) for each in frame.sum()]


def read_dataset(place: Place) -> object:
    """Read two columns of the days that a filter selects from a dataset of four files with pyarrow."""
    from pyarrow import compute, dataset

    files = dataset.dataset(f"{place.root}/{LAKE}", filesystem=place.fs, format="parquet")
    day = compute.field("day")
    table = files.to_table(columns=["c2", "c5"], filter=(day >= _DAYS[0]) & (day < _DAYS[1]))
    return [table.num_rows, *(round(compute.sum(table[name]).as_py(), 3) for name in ("c2", "c5"))]


def query_lake(place: Place) -> object:
    """Query the same columns and days with DuckDB."""
    import duckdb

    connection = duckdb.connect()
    if place.fs is not None:
        connection.register_filesystem(place.fs)
    query = f"""select count(*), sum(c2), sum(c5) from read_parquet('{place.protocol}{place.root}/{LAKE}/*.parquet')
        where day >= {_DAYS[0]} and day < {_DAYS[1]}"""
    count, *sums = connection.sql(query).fetchall()[0]
    return [count, *(round(each, 3) for each in sums)]


def read_tiles(place: Place) -> object:
    """Read 64 tiles of an image at random with rasterio."""
    import rasterio

    opener = {} if place.fs is None else {"opener": place.fs}
    with rasterio.open(f"{place.root}/{IMAGE}", **opener) as image:
        return zlib.crc32(b"".join(image.read(1, window=window).tobytes() for window in _windows(image.width)))


def _windows(side: int) -> Iterator[Any]:
    from rasterio.windows import Window

    chance = random.Random(3)
    for _ in range(_TILES):
        row, column = chance.randrange(side // TILE), chance.randrange(side // TILE)
        yield Window(column * TILE, row * TILE, TILE, TILE)


def read_ranges(place: Place) -> object:
    """Read 200 ranges of 64 KiB at random, one after another."""
    with place.open(LARGE) as file:
        size_bytes = file.seek(0, os.SEEK_END)

        def read(start: int, end: int) -> bytes:
            file.seek(start)
            data: bytes = file.read(end - start)
            return data

        return _checksum(read(*each) for each in ranges(size_bytes))


def ranges(size_bytes: int) -> Iterator[tuple[int, int]]:
    """Yield start and end of the ranges of `read_ranges`."""
    chance = random.Random(4)
    for _ in range(_RANGES):
        start = chance.randrange(size_bytes - _RANGE_BYTES)
        yield start, start + _RANGE_BYTES


def read_all(place: Place) -> object:
    """Read a whole file in order, in steps of 8 MiB."""
    with place.open(LARGE) as file:
        return _checksum(iter(lambda: file.read(_STEP_BYTES), b""))


def _checksum(parts: Iterator[bytes]) -> int:
    """Return a checksum of parts in order."""
    checksum = 0
    for part in parts:
        checksum = zlib.crc32(part, checksum)
    return checksum


# Not measured: a program imports them once.
_IMPORTED = {"pandas": ["pandas", "pyarrow.parquet"], "pyarrow": ["pyarrow.dataset"], "duckdb": ["duckdb"]}
_IMPORTED |= {"rasterio": ["rasterio"]}
_LIBRARIES = ["boto3", "fsspec", "burstcache.client.filesystem", "s3fs"]

PROGRAMS: Mapping[str, Callable[[Place], object]] = {
    "pandas": read_columns,
    "pyarrow": read_dataset,
    "duckdb": query_lake,
    "rasterio": read_tiles,
    "ranges": read_ranges,
    "sequential": read_all,
}


def has(program: str) -> bool:
    """Return True if a program's library is installed."""
    return program in ("ranges", "sequential") or importlib.util.find_spec(program) is not None


def _bare(program: str, url: str, _: Path) -> Program | None:
    """Return a program that reads by what its library brings for S3, else by boto3."""
    if program in ("pandas", "pyarrow"):
        from pyarrow.fs import S3FileSystem

        keys = {"access_key": _CREDENTIALS["key"], "secret_key": _CREDENTIALS["secret"]}
        place = Place(BUCKET, S3FileSystem(endpoint_override=url, region="us-east-1", **keys))
        return lambda: PROGRAMS[program](place)
    if program == "rasterio":
        os.environ |= {"AWS_ACCESS_KEY_ID": _CREDENTIALS["key"], "AWS_SECRET_ACCESS_KEY": _CREDENTIALS["secret"]}
        os.environ |= {"AWS_S3_ENDPOINT": url.removeprefix("http://"), "AWS_HTTPS": "NO"}
        os.environ |= {"AWS_VIRTUAL_HOSTING": "FALSE", "GDAL_DISABLE_READDIR_ON_OPEN": "EMPTY_DIR"}
        return lambda: read_tiles(Place(f"/vsis3/{BUCKET}"))
    if program == "duckdb":  # its own extension has to be fetched from its makers
        return None
    s3 = _boto3(url)

    def read(start: int, end: int) -> bytes:
        answer = s3.get_object(Bucket=BUCKET, Key=LARGE, Range=f"bytes={start}-{end - 1}")
        data: bytes = answer["Body"].read()
        return data

    if program == "ranges":
        return lambda: _checksum(
            read(*each) for each in ranges(s3.head_object(Bucket=BUCKET, Key=LARGE)["ContentLength"])
        )
    return lambda: _checksum(s3.get_object(Bucket=BUCKET, Key=LARGE)["Body"].iter_chunks(_STEP_BYTES))


def _client(program: str, url: str, folder: Path, **options: Any) -> Program | None:
    """Return a program that reads by our client, without fsspec."""
    from burstcache.client import Client

    if program not in ("ranges", "sequential"):
        return None
    client = Client(bucket=BUCKET, s3=_boto3(url), memory_bytes=MEMORY_BYTES, **options)

    def read_whole() -> object:
        with client.open(LARGE) as file:
            return _checksum(iter(lambda: file.read(_STEP_BYTES), b""))

    def read_parts() -> object:
        size_bytes = client.head(LARGE).size_bytes
        return _checksum(client.get(LARGE, range=f"bytes={start}-{end - 1}").body for start, end in ranges(size_bytes))

    return read_parts if program == "ranges" else read_whole


def _boto3(url: str) -> Any:
    import boto3
    from botocore.config import Config

    return boto3.client(
        "s3",
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id=_CREDENTIALS["key"],
        aws_secret_access_key=_CREDENTIALS["secret"],
        config=Config(s3={"addressing_style": "path"}),
    )


def _by_fs(protocol: str, options: Callable[[str, Path], Mapping[str, Any]]) -> System:
    """Return a system that reads by a file system of fsspec."""

    def make(program: str, url: str, folder: Path) -> Program | None:
        import fsspec

        if program == "duckdb" and protocol in ("blockcache", "filecache"):  # their glob returns paths of s3fs
            return None

        place = Place(BUCKET, fsspec.filesystem(protocol, **options(url, folder)), f"{protocol}://")
        return lambda: PROGRAMS[program](place)

    return make


def _s3fs(**options: Any) -> System:
    return _by_fs("s3", lambda url, _: {"endpoint_url": url, **_CREDENTIALS, **options})


def _s3fs_behind(protocol: str, *, is_checked: bool, **options: Any) -> System:
    """Return s3fs with files, or their blocks, on disk. Unchecked, the default, a copy may be a week old."""

    def all_options(url: str, folder: Path) -> Mapping[str, Any]:
        target = {"endpoint_url": url, **_CREDENTIALS, **options}
        return {
            "target_protocol": "s3",
            "target_options": target,
            "cache_storage": str(folder),
            "check_files": is_checked,
        }

    return _by_fs(protocol, all_options)


def _ours(**options: Any) -> System:
    def all_options(url: str, folder: Path) -> Mapping[str, Any]:
        given = {name: str(folder) if value is _FOLDER else value for name, value in options.items()}
        return {"endpoint_url": url, **_CREDENTIALS, "memory_bytes": MEMORY_BYTES, **given}

    return _by_fs("burstcache", all_options)


def _mounted(program: str, _: str, folder: Path) -> Program:
    place = Place(str(folder))
    return lambda: PROGRAMS[program](place)


_FOLDER: Any = object()
_MIB = 1 << 20

SYSTEMS: Mapping[str, System] = {
    "local": _mounted,
    "bare": _bare,
    "s3fs": _s3fs(),
    "s3fs, readahead of 1 MiB": _s3fs(default_block_size=_MIB),
    "s3fs, none": _s3fs(default_cache_type="none"),
    "s3fs, bytes": _s3fs(default_cache_type="bytes", default_block_size=_MIB),
    "s3fs, blockcache of 1 MiB": _s3fs(default_cache_type="blockcache", default_block_size=_MIB),
    "s3fs, background of 8 MiB": _s3fs(default_cache_type="background", default_block_size=8 * _MIB),
    "s3fs, blockcache::, checked": _s3fs_behind("blockcache", is_checked=True, default_block_size=_MIB),
    "s3fs, blockcache::": _s3fs_behind("blockcache", is_checked=False, default_block_size=_MIB),
    "s3fs, filecache::, checked": _s3fs_behind("filecache", is_checked=True),
    "s3fs, filecache::": _s3fs_behind("filecache", is_checked=False),
    "mountpoint": _mounted,
    "mountpoint, cache": _mounted,
    "before": _ours(),
    "before, Client": _client,
    "memory": _ours(),
    "memory, Client": _client,
    "disk": _ours(disk=_FOLDER, disk_bytes=DISK_BYTES),
    "disk, Client": lambda program, url, folder: _client(program, url, folder, disk=str(folder), disk_bytes=DISK_BYTES),
}


def main() -> None:
    """Run a program twice, and print its figures."""
    program, system, url, folder = sys.argv[1:]
    for name in (*_LIBRARIES, *_IMPORTED.get(program, ())):
        if importlib.util.find_spec(name.partition(".")[0]) is not None:
            importlib.import_module(name)
    begun_s = time.perf_counter()
    run = SYSTEMS[system](program, url, Path(folder))
    made_s = time.perf_counter() - begun_s
    runs: list[Mapping[str, Any]] = []
    while run is not None and len(runs) < 2:
        before = _counts(url)
        begun_s = time.perf_counter()
        result = run()
        took_s = time.perf_counter() - begun_s + (0 if runs else made_s)
        after = _counts(url)
        runs.append({"result": result, "seconds": took_s, **{name: after[name] - before[name] for name in after}})
    print(json.dumps(runs))


def _counts(url: str) -> dict[str, int]:
    counts = read_counts(url)
    return {
        **{name: counts["requests"].get(name, 0) for name in ("GET", "HEAD", "LIST")},
        "bytes": counts["sent_bytes"],
    }


if __name__ == "__main__":
    main()
