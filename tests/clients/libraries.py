"""Libraries of Python that read S3, as clients that run the steps.

    PYTHONPATH=tests python -m clients.libraries NAME BUCKET FOLDER

The endpoint is AWS_ENDPOINT_URL_S3 for all. A library that does not know the variable gets its value in its own option.
"""

from __future__ import annotations

import importlib.metadata
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from clients.steps import StepClient, show


class _Boto3(StepClient):
    """boto3, whose transfer manager sends and fetches large objects in parallel parts."""

    def __init__(self, bucket: str, folder: str) -> None:
        import boto3

        self._s3: Any = boto3.client("s3")
        self._bucket, self._folder = bucket, folder
        self.missing = self._s3.exceptions.NoSuchKey

    def read(self, name: str) -> bytes:
        return self._get(name)

    def read_range(self, name: str, start: int, size_bytes: int) -> bytes:
        return self._get(name, Range=f"bytes={start}-{start + size_bytes - 1}")

    def _get(self, name: str, **options: str) -> bytes:
        body: bytes = self._s3.get_object(Bucket=self._bucket, Key=self._folder + name, **options)["Body"].read()
        return body

    def write(self, path: Path, name: str) -> None:
        self._s3.put_object(Bucket=self._bucket, Key=self._folder + name, Body=path.read_bytes())

    def send(self, path: Path, name: str) -> None:
        self._s3.upload_file(str(path), self._bucket, self._folder + name)

    def fetch(self, name: str, path: Path) -> None:
        self._s3.download_file(self._bucket, self._folder + name, str(path))

    def list_names(self, prefix: str) -> Iterator[str]:
        pages = self._s3.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=self._folder + prefix)
        return (each["Key"].removeprefix(self._folder) for page in pages for each in page["Contents"])

    def copy(self, name: str, to_name: str) -> None:
        source = {"Bucket": self._bucket, "Key": self._folder + name}
        self._s3.copy_object(Bucket=self._bucket, Key=self._folder + to_name, CopySource=source)

    def delete(self, name: str) -> None:
        self._s3.delete_objects(Bucket=self._bucket, Delete={"Objects": [{"Key": self._folder + name}]})


class _S3fs(StepClient):
    """s3fs: fsspec over aiobotocore."""

    missing = FileNotFoundError

    def __init__(self, bucket: str, folder: str) -> None:
        import s3fs

        self._fs: Any = s3fs.S3FileSystem()
        self._root = f"{bucket}/{folder}"

    def read(self, name: str) -> bytes:
        content: bytes = self._fs.cat_file(self._root + name)
        return content

    def read_range(self, name: str, start: int, size_bytes: int) -> bytes:
        with self._fs.open(self._root + name, cache_type="none") as file:
            file.seek(start)
            content: bytes = file.read(size_bytes)
        return content

    def write(self, path: Path, name: str) -> None:
        self._fs.pipe_file(self._root + name, path.read_bytes())

    def send(self, path: Path, name: str) -> None:
        self._fs.put_file(str(path), self._root + name)

    def fetch(self, name: str, path: Path) -> None:
        self._fs.get_file(self._root + name, str(path))

    def list_names(self, prefix: str) -> Iterator[str]:
        return (path.removeprefix(self._root) for path in self._fs.find(self._root + prefix))

    def copy(self, name: str, to_name: str) -> None:
        self._fs.copy(self._root + name, self._root + to_name)

    def delete(self, name: str) -> None:
        self._fs.rm(self._root + name)


class _Pyarrow(StepClient):
    """pyarrow's own S3 file system, by aws-sdk-cpp."""

    missing = FileNotFoundError

    def __init__(self, bucket: str, folder: str) -> None:
        from pyarrow import fs

        self._fs: Any = fs.S3FileSystem(endpoint_override=_endpoint(), request_timeout=100)  # by default 3 s
        self._selector: Any = fs.FileSelector
        self._root = f"{bucket}/{folder}"

    def read(self, name: str) -> bytes:
        with self._fs.open_input_stream(self._root + name) as stream:
            content: bytes = stream.read()
        return content

    def read_range(self, name: str, start: int, size_bytes: int) -> bytes:
        with self._fs.open_input_file(self._root + name) as file:
            content: bytes = file.read_at(size_bytes, start)
        return content

    def read_column(self, name: str, column: str) -> bytes:
        from pyarrow import parquet

        return _numbers(parquet.read_table(self._root + name, filesystem=self._fs, columns=[column]))

    def write(self, path: Path, name: str) -> None:
        with self._fs.open_output_stream(self._root + name) as stream:
            stream.write(path.read_bytes())

    def list_names(self, prefix: str) -> Iterator[str]:
        found = self._fs.get_file_info(self._selector(self._root + prefix.rstrip("/")))
        return (each.path.removeprefix(self._root) for each in found)

    def copy(self, name: str, to_name: str) -> None:
        self._fs.copy_file(self._root + name, self._root + to_name)

    def delete(self, name: str) -> None:
        self._fs.delete_file(self._root + name)


class _Obstore(StepClient):
    """obstore: Rust's object_store, as in DataFusion and delta-rs."""

    missing = FileNotFoundError

    def __init__(self, bucket: str, folder: str) -> None:
        import obstore
        from obstore.store import S3Store

        self._store: Any = S3Store(bucket, prefix=folder)
        self._obstore: Any = obstore

    def read(self, name: str) -> bytes:
        return bytes(self._obstore.get(self._store, name).bytes())

    def read_range(self, name: str, start: int, size_bytes: int) -> bytes:
        return bytes(self._obstore.get_range(self._store, name, start=start, length=size_bytes))

    def write(self, path: Path, name: str) -> None:
        self._obstore.put(self._store, name, path)

    def list_names(self, prefix: str) -> Iterator[str]:
        return (each["path"] for page in self._obstore.list(self._store, prefix) for each in page)

    def copy(self, name: str, to_name: str) -> None:
        self._obstore.copy(self._store, name, to_name)

    def delete(self, name: str) -> None:
        self._obstore.delete(self._store, [name])


class _Polars(StepClient):
    """polars, which reads and writes tables: column `n` has an object's numbers."""

    suffix = ".parquet"

    def __init__(self, bucket: str, folder: str) -> None:
        import polars

        self._polars: Any = polars
        self._root = f"s3://{bucket}/{folder}"

    def read(self, name: str) -> bytes:
        return self.read_column(name, "n")

    def read_column(self, name: str, column: str) -> bytes:
        path = self._root + name
        frame = self._polars.scan_parquet(path, glob=False).select(column).collect()
        return _numbers(frame.to_arrow())

    def write(self, path: Path, name: str) -> None:
        frame = self._polars.from_arrow(_table(path))
        frame.write_parquet(self._root + name, compression="uncompressed")

    def list_names(self, prefix: str) -> Iterator[str]:
        frame = self._polars.scan_parquet(f"{self._root}{prefix}*.parquet", include_file_paths="path")
        return (path.removeprefix(self._root) for path in frame.select("path").unique().collect()["path"])


class _DuckDb(StepClient):
    """DuckDB with its extension httpfs, which reads and writes tables, too."""

    suffix = ".parquet"

    def __init__(self, bucket: str, folder: str) -> None:
        import duckdb
        import duckdb_extension_httpfs

        files = Path(duckdb_extension_httpfs.__file__).parent / "extensions"
        (file,) = files.glob(f"v{duckdb.__version__}/*.duckdb_extension")
        self._root = f"s3://{bucket}/{folder}"
        self._database: Any = duckdb.connect()
        self._database.load_extension(str(file))
        key, secret = (os.environ[name] for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"))
        host, region = urlsplit(_endpoint()).netloc, os.environ["AWS_REGION"]
        self._database.execute(
            "CREATE SECRET (TYPE s3, KEY_ID $key, SECRET $secret, REGION $region,"
            " ENDPOINT $host, URL_STYLE 'path', USE_SSL false)",
            {"key": key, "secret": secret, "region": region, "host": host},
        )

    def read(self, name: str) -> bytes:
        return self.read_column(name, "n")

    def read_column(self, name: str, column: str) -> bytes:
        path = self._root + name
        return _numbers(self._database.execute(f"SELECT {column} FROM read_parquet($path)", {"path": path}).arrow())

    def write(self, path: Path, name: str) -> None:
        self._database.register("numbers", _table(path))
        self._database.execute(f"COPY numbers TO '{self._root}{name}' (FORMAT parquet, COMPRESSION uncompressed)")

    def list_names(self, prefix: str) -> Iterator[str]:
        found = self._database.execute("SELECT file FROM glob($pattern)", {"pattern": f"{self._root}{prefix}*"})
        return (path.removeprefix(self._root) for (path,) in found.fetchall())


class _DeltaLake(StepClient):
    """deltalake: delta-rs, whose objects are tables. A write is a commit, which is a conditional PUT."""

    suffix = ""
    takes_any_name = False

    def __init__(self, bucket: str, folder: str) -> None:
        import deltalake

        self._deltalake: Any = deltalake
        self._root = f"s3://{bucket}/{folder}"
        self.missing = deltalake.exceptions.TableNotFoundError

    def read(self, name: str) -> bytes:
        return _numbers(self._deltalake.DeltaTable(self._root + name).to_pyarrow_table())

    def write(self, path: Path, name: str) -> None:
        self._deltalake.write_deltalake(self._root + name, _table(path), mode="overwrite")


def _endpoint() -> str:
    return os.environ["AWS_ENDPOINT_URL_S3"]


def _table(path: Path) -> Any:
    """Return a file's numbers of 64 bits as a table with the column `n`."""
    import pyarrow

    content = pyarrow.py_buffer(path.read_bytes())
    return pyarrow.table({"n": pyarrow.Array.from_buffers(pyarrow.int64(), len(content) // 8, [None, content])})


def _numbers(table: Any) -> bytes:
    """Return the numbers of a table of one column, as they stand in a file."""
    whole = table.read_all() if hasattr(table, "read_all") else table
    (column,) = whole.columns
    return b"".join(memoryview(each.buffers()[1])[8 * each.offset :][: 8 * len(each)] for each in column.chunks)


CLIENTS: dict[str, Callable[[str, str], StepClient]] = {
    "boto3": _Boto3,
    "s3fs": _S3fs,
    "pyarrow": _Pyarrow,
    "obstore": _Obstore,
    "polars": _Polars,
    "duckdb": _DuckDb,
    "deltalake": _DeltaLake,
}

if __name__ == "__main__":
    _, name, bucket, folder = sys.argv
    client = CLIENTS[name](bucket, f"{name}/")
    client.version = importlib.metadata.version(name)
    show(client, folder)
