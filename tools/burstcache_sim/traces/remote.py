"""Remote logs below an S3 prefix: functions to list the objects with requests in a time span, and to fetch objects."""

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
# Assumed maximum delay between a request and the delivery of its log object. Later objects are not fetched.
LATEST_DELIVERY = timedelta(days=1)
_URL = regex(r"s3://([^/]+)/?(.*)")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Dates in object names: S3 (seconds), CloudFront (hours), load balancers and CloudTrail (minutes).
_DATED_NAMES = (
    (regex(r"(\d{4}-\d\d-\d\d-\d\d-\d\d-\d\d)-[0-9A-F]{16}$"), "%Y-%m-%d-%H-%M-%S"),
    (regex(r"\.(\d{4}-\d\d-\d\d-\d\d)\.[^./]+\.(?:gz|parquet|json)$"), "%Y-%m-%d-%H"),
    (regex(r"_(\d{8}T\d{4})Z_[^/]*$"), "%Y%m%dT%H%M"),
)


def new_client() -> S3Client:
    """Return a client with the credentials, region and endpoint that AWS's own tools would use."""
    import boto3
    from botocore.config import Config

    config = Config(retries={"mode": "standard", "max_attempts": 8}, max_pool_connections=FETCHED_AT_ONCE)
    client: S3Client = boto3.client("s3", config=config)
    return client


def listed(client: S3Client, url: str, first_us: int | None, last_us: int | None) -> list[LogFile]:
    """Return the objects below a prefix that may have requests in a time span, ordered by name.

    Args:
        client: An S3 client.
        url: `s3://bucket/prefix`.
        first_us: Start of the span since 1970 [us], or None.
        last_us: Exclusive end of the span since 1970 [us], or None.

    Raises:
        BadLogError: The bucket or prefix does not exist, no object is in the span, or listing is not permitted.
    """
    match = _URL.fullmatch(url)
    if not match:
        raise BadLogError(f"{url}: expected s3://bucket/prefix")
    bucket, prefix = match.groups()
    files, skipped = [], 0
    with _readable_errors(url, bucket):
        for page in client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix):
            for object_ in page.get("Contents", ()):
                if not object_["Size"]:
                    continue  # a folder marker
                if _may_overlap(object_["Key"], object_["LastModified"], first_us, last_us):
                    name = f"{SCHEME}{bucket}/{object_['Key']}"
                    files.append(LogFile(Path(), name, object_["Size"], object_["ETag"].strip('"')))
                else:
                    skipped += 1
    if not files and skipped:
        raise BadLogError(f"{url}: all of its {skipped} objects are outside the chosen span")
    if not files:
        raise BadLogError(f"{url}: no objects below this prefix: expected those of an access log")
    return files


def fetch(client: S3Client, file: LogFile, path: Path) -> None:
    """Download an object to a path. The client retries failed requests, and this function retries truncated responses.

    Raises:
        BadLogError: The object no longer exists, or reading is not permitted.
    """
    from botocore.exceptions import HTTPClientError, IncompleteReadError

    bucket, _, key = file.name.removeprefix(SCHEME).partition("/")
    with _readable_errors(file.name, bucket):
        for attempt in range(1, _MOST_ATTEMPTS + 1):
            try:
                with path.open("wb") as copy:
                    copy.writelines(client.get_object(Bucket=bucket, Key=key)["Body"].iter_chunks(_CHUNK_BYTES))
                return
            except (HTTPClientError, IncompleteReadError):
                if attempt == _MOST_ATTEMPTS:
                    raise


def _may_overlap(key: str, modified: datetime, first_us: int | None, last_us: int | None) -> bool:
    """Return whether an object may have requests in a time span.

    An object is ruled out if it was written before the span, or if the date in its name is more than a day outside the
    span.
    """
    date = _date_in(key)
    if first_us is not None:
        first = _instant(first_us)
        if modified < first or (date and date + LATEST_DELIVERY < first):
            return False
    return last_us is None or date is None or date <= _instant(last_us) + LATEST_DELIVERY


def _date_in(key: str) -> datetime | None:
    for pattern, date_format in _DATED_NAMES:
        if match := pattern.search(key):
            try:
                return datetime.strptime(match[1], date_format).replace(tzinfo=UTC)
            except ValueError:
                return None
    return None


def _instant(us: int) -> datetime:
    return _EPOCH + timedelta(seconds=us // US_PER_S)


@contextmanager
def _readable_errors(name: str, bucket: str) -> Iterator[None]:
    """Convert AWS errors to one-line errors."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        yield
    except ClientError as error:
        code = error.response.get("Error", {}).get("Code", "")
        raise BadLogError(f"{name}: {_REASONS.get(code, str(error)).format(bucket=bucket)}") from error
    except BotoCoreError as error:
        raise BadLogError(f"{name}: {error}") from error


_FORBIDDEN = "no permission to read it: expected s3:ListBucket on the bucket {bucket} and s3:GetObject on its objects"
_REASONS = {
    "NoSuchBucket": "there is no bucket {bucket}",
    "AccessDenied": _FORBIDDEN,
    "403": _FORBIDDEN,
    "NoSuchKey": "the object no longer exists",
    "404": "the object no longer exists",
}
