"""Thumbnails of pictures that are uploaded to S3 or sent over HTTP, each computed once.

`BURSTCACHE_RESULTS` chooses the backends of the results (`docs/use/results.md`).
"""

from __future__ import annotations

import base64
import io
import os
from functools import cache
from typing import Any

import boto3
from PIL import Image, ImageOps

from burstcache.results import cached

THUMBNAIL_PX = 128  # of the longer side
TTL_S = 86_400
VERSION = "1"  # shared by all functions; another version invalidates all thumbnails


def shrink(picture: bytes) -> bytes:
    """Return the thumbnail of a picture, as JPEG.

    Raises:
        ValueError: The picture is malformed, truncated or too large.
    """
    thumbnail = io.BytesIO()
    try:
        with Image.open(io.BytesIO(picture)) as image:
            image.thumbnail((THUMBNAIL_PX, THUMBNAIL_PX))
            ImageOps.exif_transpose(image, in_place=True)
            image.convert("RGB").save(thumbnail, "JPEG", comment=b"")  # drops the picture's own comments
    except (OSError, Image.DecompressionBombError) as error:
        raise ValueError(f"expected a picture: {error}") from error
    return thumbnail.getvalue()


@cached(key="image", codec="bytes", ttl_s=TTL_S, version=VERSION)
def thumbnail_of_request(request: dict[str, str]) -> bytes:
    """Return the thumbnail of the base64 picture in `image`."""
    return shrink(base64.b64decode(request["image"], validate=True))


@cached(arguments=["key", "etag"], codec="bytes", ttl_s=TTL_S, version=VERSION)
def thumbnail_of_object(key: str, etag: str) -> bytes:
    """Return the thumbnail of one version of an object."""
    return shrink(_s3().get_object(Bucket=os.environ["PICTURES_BUCKET"], Key=key, IfMatch=etag)["Body"].read())


@cache
def _s3() -> Any:
    return boto3.client("s3")


def uploaded(event: dict[str, Any], context: object) -> dict[str, int]:
    """Compute an upload's thumbnail ahead of its first read: Lambda's handler of S3's event "Object Created"."""
    upload = event["detail"]["object"]
    return {"thumbnail_bytes": len(thumbnail_of_object(upload["key"], f'"{upload["etag"]}"'))}


def requested(event: dict[str, Any], context: object) -> dict[str, Any]:
    """Handle `GET /thumbnails/KEY` of an upload and `POST /thumbnails` with a picture: Lambda's handler of HTTP."""
    try:
        if event["requestContext"]["http"]["method"] == "POST":
            thumbnail = thumbnail_of_request({"image": event.get("body", "")})
        else:
            key = event["pathParameters"]["key"]
            etag = _s3().head_object(Bucket=os.environ["PICTURES_BUCKET"], Key=key)["ETag"]
            thumbnail = thumbnail_of_object(key, etag)
    except ValueError:
        return {"statusCode": 415, "body": "expected a picture: JPEG, PNG, GIF or WebP"}
    except _s3().exceptions.ClientError as error:
        return {"statusCode": error.response["ResponseMetadata"]["HTTPStatusCode"], "body": "no such picture"}
    headers = {"Content-Type": "image/jpeg"}
    return {
        "statusCode": 200,
        "headers": headers,
        "body": base64.b64encode(thumbnail).decode(),
        "isBase64Encoded": True,
    }
