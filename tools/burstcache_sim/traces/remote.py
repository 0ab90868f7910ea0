"""Logs where AWS puts them: objects below a prefix of a bucket, listed, left out by date where that is safe, fetched.

Source:
    Amazon S3 User Guide, "Amazon S3 server access log format": an object's name has the time of its delivery, and its
    records are of the hours before. CloudFront Developer Guide: an object's name has the hour of its requests, which
    may arrive up to a day later. Elastic Load Balancing and CloudTrail: the end of the interval.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from re import compile as regex
from typing import TYPE_CHECKING

from burstcache.core.parameters import US_PER_S
from burstcache_sim.traces.errors import BadLogError
from burstcache_sim.traces.reading import LogFile

if TYPE_CHECKING:
    from types_boto3_s3 import S3Client

SCHEME = "s3://"
FETCHED_AT_ONCE = 16
_MOST_ATTEMPTS = 5
_CHUNK_BYTES = 1 << 18
# An object is taken to be delivered at most this long after its requests; what is older or newer is not fetched.
LATEST_DELIVERY = timedelta(days=1)
_URL = regex(r"s3://([^/]+)/?(.*)")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# S3 (seconds), CloudFront (hours), balancers and CloudTrail (minutes): each as it stands in the object's name.
_DATED_NAMES = (
    (regex(r"(\d{4}-\d\d-\d\d-\d\d-\d\d-\d\d)-[0-9A-F]{16}$"), "%Y-%m-%d-%H-%M-%S"),
    (regex(r"\.(\d{4}-\d\d-\d\d-\d\d)\.[^./]+\.(?:gz|parquet|json)$"), "%Y-%m-%d-%H"),
    (regex(r"_(\d{8}T\d{4})Z_[^/]*$"), "%Y%m%dT%H%M"),
)


def new_client() -> S3Client:
    """Return a client with the credentials, the region and the endpoint that AWS's own tools would use."""
    import boto3
    from botocore.config import Config

    config = Config(retries={"mode": "standard", "max_attempts": 8}, max_pool_connections=FETCHED_AT_ONCE)
    client: S3Client = boto3.client("s3", config=config)
    return client


def listed(client: S3Client, url: str, first_us: int | None, last_us: int | None) -> list[LogFile]:
    """Return the objects below a prefix, by name, that may have requests of the span.

    Args:
        client: Where they are.
        url: `s3://bucket/prefix`.
        first_us: Requests before this do not matter, since 1970 [us].
        last_us: Nor do those from this on [us].

    Raises:
        BadLogError: There is no such bucket or prefix, nothing in the span, or no right to list it.
    """
    match = _URL.fullmatch(url)
    if not match:
        raise BadLogError(f"{url}: expected s3://bucket/prefix")
    bucket, prefix = match.groups()
    files, left_out = [], 0
    with _explained(url, bucket):
        for page in client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix):
            for found in page.get("Contents", ()):
                if not found["Size"]:
                    continue  # a folder's marker
                if _may_have(found["Key"], found["LastModified"], first_us, last_us):
                    name = f"{SCHEME}{bucket}/{found['Key']}"
                    files.append(LogFile(Path(), name, found["Size"], found["ETag"].strip('"')))
                else:
                    left_out += 1
    if not files and left_out:
        raise BadLogError(f"{url}: all of its {left_out} objects are of another time than the chosen span")
    if not files:
        raise BadLogError(f"{url}: no objects below this prefix: expected those of an access log")
    return files


def fetch(client: S3Client, file: LogFile, path: Path) -> None:
    """Copy an object to a path; the client repeats a request that fails, this an answer that breaks off.

    Raises:
        BadLogError: It is not there any more, or may not be read.
    """
    from botocore.exceptions import HTTPClientError, IncompleteReadError

    bucket, _, key = file.name.removeprefix(SCHEME).partition("/")
    with _explained(file.name, bucket):
        for attempt in range(1, _MOST_ATTEMPTS + 1):
            try:
                with path.open("wb") as copy:
                    copy.writelines(client.get_object(Bucket=bucket, Key=key)["Body"].iter_chunks(_CHUNK_BYTES))
                return
            except (HTTPClientError, IncompleteReadError):
                if attempt == _MOST_ATTEMPTS:
                    raise


def _may_have(key: str, modified: datetime, first_us: int | None, last_us: int | None) -> bool:
    """True unless an object can have no request of a span: it was written before, or named more than a day after."""
    named = _date_in(key)
    if first_us is not None:
        first = _instant(first_us)
        if modified < first or (named and named + LATEST_DELIVERY < first):
            return False
    return last_us is None or named is None or named <= _instant(last_us) + LATEST_DELIVERY


def _date_in(key: str) -> datetime | None:
    for pattern, written in _DATED_NAMES:
        if match := pattern.search(key):
            try:
                return datetime.strptime(match[1], written).replace(tzinfo=UTC)
            except ValueError:
                return None
    return None


def _instant(us: int) -> datetime:
    return _EPOCH + timedelta(seconds=us // US_PER_S)


@contextmanager
def _explained(name: str, bucket: str) -> Iterator[None]:
    """Turn what AWS answers into one line."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        yield
    except ClientError as error:
        code = error.response.get("Error", {}).get("Code", "")
        raise BadLogError(f"{name}: {_REASONS.get(code, str(error)).format(bucket=bucket)}") from error
    except BotoCoreError as error:
        raise BadLogError(f"{name}: {error}") from error


_FORBIDDEN = "no right to read it: expected s3:ListBucket on the bucket {bucket} and s3:GetObject on its objects"
_REASONS = {
    "NoSuchBucket": "there is no bucket {bucket}",
    "AccessDenied": _FORBIDDEN,
    "403": _FORBIDDEN,
    "NoSuchKey": "the object is not there any more",
    "404": "the object is not there any more",
}
