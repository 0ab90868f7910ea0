"""The check of an existing bucket that a stack is to read from."""

from __future__ import annotations

from typing import Any

from botocore.exceptions import ClientError

from burstcache.core.errors import InvalidSettingError


def bucket_warnings(s3: Any, name: str, *, region: str) -> list[str]:
    """Return the warnings about a bucket that a stack in this region is to read from.

    Args:
        s3: A client of S3.
        name: The bucket.
        region: The stack's region.

    Raises:
        InvalidSettingError: The bucket does not exist, or is in another region.
    """
    denied = []
    try:
        headers = s3.head_bucket(Bucket=name)["ResponseMetadata"]["HTTPHeaders"]
    except ClientError as error:  # HEAD responses have no error code, only a status
        headers, status = (error.response["ResponseMetadata"][part] for part in ("HTTPHeaders", "HTTPStatusCode"))
        if status == 404:
            raise InvalidSettingError(
                f"OriginBucketName {name!r}: there is no such bucket: expected one that exists, or none"
            ) from error
        denied = [f"bucket {name} cannot be checked, S3 answers {status}: you lack s3:ListBucket, or it is not yours"]
    home = headers.get("x-amz-bucket-region", region)  # S3 sends it with a denial, too
    if home != region:
        raise InvalidSettingError(
            f"OriginBucketName {name!r}: the bucket is in {home}: expected one in {region}, the stack's region"
        )
    return denied or ([] if _sends_events(s3, name) else [_NO_EVENTS.format(name=name)])


_NO_EVENTS = (
    "bucket {name} sends no events to EventBridge: after a write cached copies stay stale until they expire. Once the"
    " stack is deployed, its output SendOriginEvents has the command"
)


def _sends_events(s3: Any, name: str) -> bool:
    """Return whether a bucket sends its events to EventBridge, or True without the permission to ask."""
    try:
        return "EventBridgeConfiguration" in s3.get_bucket_notification_configuration(Bucket=name)
    except ClientError:
        return True
