"""The origin: objects in S3."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypedDict, Unpack

from botocore.exceptions import BotoCoreError, ClientError

from burstcache.adapters.quick_clients import quick_client
from burstcache.core.errors import ObjectNotFoundError, ObjectTooLargeError, OriginError
from burstcache.web.dates import parse_http_date
from burstcache.web.entry import Entry, entry_from_s3

_OK, _PARTIAL, _NOT_MODIFIED, _NOT_FOUND = 200, 206, 304, 404


@dataclass(frozen=True, slots=True)
class ObjectAnswer:
    """What S3 answered, errors included; the body is still on its way.

    `headers` are S3's own, names in lower case. `code` is S3's error code, empty unless the status is one of an error.
    """

    status: int
    headers: Mapping[str, str]
    code: str = ""
    actual_size_bytes: int | None = None  # what S3 adds to a 416
    _stream: Any = field(default=None, repr=False)

    @property
    def is_success(self) -> bool:
        """Tell whether the object, or a part of it, is coming."""
        return self.status in (_OK, _PARTIAL)

    @property
    def length_bytes(self) -> int:
        """Length of the body that S3 sends (of HEAD: would send)."""
        return int(self.headers.get("content-length", 0))

    @property
    def object_size_bytes(self) -> int:
        """Size of the whole object, also if this is a part of it; 0 if S3 did not say (a 304)."""
        total = self.headers.get("content-range", "").rpartition("/")[2]
        return int(total) if total.isdigit() else self.length_bytes

    def read(self) -> bytes:
        """Return the whole body, or raise OriginError: it broke off."""
        try:
            data: bytes = self._stream.read() if self._stream is not None else b""
            return data
        except (BotoCoreError, OSError) as error:
            raise OriginError(f"S3's answer broke off: {error}") from error

    def discard(self) -> None:
        """Hang up: nobody wants the body."""
        if self._stream is not None:
            self._stream.close()


class Conditions(TypedDict, total=False):
    """HTTP headers of a read, passed on to S3; an empty one or an invalid date is left out."""

    range_: str
    if_match: str
    if_none_match: str
    if_modified_since: str
    if_unmodified_since: str


class ObjectStore:
    """Objects of one bucket."""

    def __init__(self, bucket: str) -> None:
        self._bucket = bucket

    def get(self, key: str, **conditions: Unpack[Conditions]) -> ObjectAnswer:
        """Ask S3 for an object.

        Raises:
            OriginError: S3 cannot be reached, or what answers is not S3.
        """
        return self._ask("get_object", key, conditions)

    def head(self, key: str, **conditions: Unpack[Conditions]) -> ObjectAnswer:
        """Ask S3 about an object; like `get`, but no body is on its way."""
        return self._ask("head_object", key, conditions)

    def fetch(self, key: str, *, max_bytes: int, if_none_match: str | None = None) -> Entry | None:
        """Return the whole object for a cache to hold; None: it is still the one with the ETag `if_none_match`.

        Raises:
            ObjectNotFoundError: S3 has no such object.
            ObjectTooLargeError: It has more than `max_bytes`.
            OriginError: S3 answered otherwise, or not at all.
        """
        answer = self.get(key, if_none_match=if_none_match or "")
        if answer.status == _NOT_MODIFIED:
            return None
        if answer.status == _NOT_FOUND:
            raise ObjectNotFoundError(f"S3 has no object {key!r}")
        if not answer.is_success:
            raise OriginError(f"S3 answered {answer.status} {answer.code} for {key!r}")
        if answer.length_bytes > max_bytes:
            answer.discard()
            raise ObjectTooLargeError(f"{key!r} has {answer.length_bytes} bytes; a cache takes up to {max_bytes}")
        return entry_from_s3(answer.headers, answer.read())

    def presign(self, key: str, *, valid_s: int) -> str:
        """Return a URL that reads the object straight from S3 for `valid_s` seconds; it is bound to GET."""
        url: str = quick_client("s3").generate_presigned_url(
            "get_object", Params={"Bucket": self._bucket, "Key": key}, ExpiresIn=valid_s
        )
        return url

    def _ask(self, operation: str, key: str, conditions: Conditions) -> ObjectAnswer:
        parameters = {
            "Range": conditions.get("range_"),
            "IfMatch": conditions.get("if_match"),
            "IfNoneMatch": conditions.get("if_none_match"),
            "IfModifiedSince": parse_http_date(conditions.get("if_modified_since", "")),
            "IfUnmodifiedSince": parse_http_date(conditions.get("if_unmodified_since", "")),
        }
        given = {name: value for name, value in parameters.items() if value}
        try:
            response = getattr(quick_client("s3"), operation)(Bucket=self._bucket, Key=key, **given)
        except ClientError as error:
            return _error_answer(error)
        except (BotoCoreError, OSError) as error:
            raise OriginError(f"S3 cannot be asked: {error}") from error
        metadata = response["ResponseMetadata"]
        return ObjectAnswer(metadata["HTTPStatusCode"], metadata["HTTPHeaders"], _stream=response.get("Body"))


def _error_answer(error: ClientError) -> ObjectAnswer:
    details: dict[str, Any] = error.response.get("Error", {})
    metadata = error.response.get("ResponseMetadata", {})
    size = str(details.get("ActualObjectSize", ""))
    return ObjectAnswer(
        status=int(metadata.get("HTTPStatusCode", 0)),
        headers=metadata.get("HTTPHeaders", {}),
        code=str(details.get("Code", "")),
        actual_size_bytes=int(size) if size.isdigit() else None,
    )
