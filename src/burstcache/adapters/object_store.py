"""The origin: objects in S3."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    CredentialRetrievalError,
    FlexibleChecksumError,
    HTTPClientError,
    NoAuthTokenError,
    NoCredentialsError,
    PartialCredentialsError,
    SSOError,
    TokenRetrievalError,
)
from botocore.exceptions import ConnectionError as NoConnectionError

from burstcache.core.errors import (
    AccessDeniedError,
    BurstcacheError,
    ObjectNotFoundError,
    ObjectTooLargeError,
    OriginError,
    OriginUnavailableError,
    PreconditionFailedError,
    UnidentifiedObjectError,
    WriteConflictError,
    in_one_line,
)
from burstcache.web.dates import parse_http_date
from burstcache.web.entry import Entry, entry_from_s3
from burstcache.web.headers import is_identified, object_size_bytes
from burstcache.web.ranges import is_part_sent

if TYPE_CHECKING:
    from types_boto3_s3.client import S3Client

    from burstcache.web.writing import WriteHeaders

_OK, _PARTIAL, _NOT_MODIFIED, _FORBIDDEN, _NOT_FOUND, _CONFLICT, _PRECONDITION_FAILED = (
    200,
    206,
    304,
    403,
    404,
    409,
    412,
)
_TOO_MANY = 429
_NO_BUCKET = "NoSuchBucket"
_PASSING = frozenset({"RequestTimeout", "RequestTimeoutException", "Throttling", "ThrottlingException"})
_PERMANENT = frozenset({"InvalidObjectState"})  # a 403, and no right is missing
_HINTS = {
    "ExpiredToken": "the credentials have expired; accepted: new ones",
    "InvalidAccessKeyId": "AWS does not know these credentials",
    "InvalidObjectState": "it is in an archive class (Glacier); accepted: an object that has been restored",
    "InvalidToken": "AWS does not know this session token",
    _NO_BUCKET: "there is no such bucket",
    "RequestTimeTooSkewed": "the clock of this machine is wrong",
    "SignatureDoesNotMatch": "the secret key is not that of the access key",
}
_NO_CREDENTIALS = (
    CredentialRetrievalError,
    NoAuthTokenError,
    NoCredentialsError,
    PartialCredentialsError,
    SSOError,
    TokenRetrievalError,
)
# What S3's client calls the headers of a write.
_PARAMETERS = {
    "content_type": "ContentType",
    "cache_control": "CacheControl",
    "content_disposition": "ContentDisposition",
    "content_encoding": "ContentEncoding",
    "content_language": "ContentLanguage",
    "content_md5": "ContentMD5",
    "expires": "Expires",  # botocore takes the text of an HTTP date, and sends the same
    "metadata": "Metadata",
    "if_match": "IfMatch",
    "if_none_match": "IfNoneMatch",
}


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
        """Whether the object, or a part of it, is coming."""
        return self.status in (_OK, _PARTIAL)

    @property
    def length_bytes(self) -> int:
        """Length of the body that S3 sends (of HEAD: would send)."""
        length = self.headers.get("content-length", "")
        return int(length) if length.isdecimal() else 0

    @property
    def is_passing(self) -> bool:
        """Whether S3 fails or is overloaded, so that asking again may help."""
        return self.status >= 500 or self.status == _TOO_MANY or self.code in _PASSING  # SlowDown is a 503

    @property
    def is_identified(self) -> bool:
        """Whether the store says which version of the object it is."""
        return is_identified(self.headers)

    @property
    def object_size_bytes(self) -> int:
        """Size of the whole object, also if this is a part of it; 0 if S3 did not give it (a 304)."""
        return object_size_bytes(self.headers)

    def read(self) -> bytes:
        """Return the whole body, or raise OriginUnavailableError if it breaks off."""
        try:
            data: bytes = self._stream.read() if self._stream is not None else b""
            return data
        except FlexibleChecksumError as error:
            raise OriginUnavailableError(f"S3's answer did not arrive as it was sent: {in_one_line(error)}") from error
        except (BotoCoreError, OSError) as error:
            raise OriginUnavailableError(f"S3's answer broke off: {in_one_line(error)}") from error

    def read_into(self, buffer: memoryview) -> None:
        """Read the whole body, which is as long as `buffer`, or raise OriginUnavailableError if it breaks off."""
        if self.length_bytes != len(buffer):
            self.discard()
            raise OriginUnavailableError(f"S3 sends {self.length_bytes:,} bytes where {len(buffer):,} belong")
        read_bytes = 0
        try:
            while count := self._stream.readinto(buffer[read_bytes:]):
                read_bytes += count
        except (BotoCoreError, OSError) as error:
            raise OriginUnavailableError(f"S3's answer broke off: {in_one_line(error)}") from error

    def hurry(self, wait_s: float) -> None:
        """Let the body break off where S3 pauses for longer than this."""
        if self._stream is not None and self.length_bytes:  # behind an empty body the socket is gone
            self._stream.set_socket_timeout(wait_s)

    def discard(self) -> None:
        """Close the connection without reading the body."""
        if self._stream is not None:
            self._stream.close()


class Conditions(TypedDict, total=False):
    """HTTP headers of a read, passed on to S3; an empty one or an invalid date is left out."""

    range_: str
    if_match: str
    if_none_match: str
    if_modified_since: str
    if_unmodified_since: str


@dataclass(frozen=True, slots=True)
class Written:
    """What S3 says of a write: the new object's ETag with its quotes, empty after a deletion; the version, if any."""

    etag: str
    version_id: str = ""


class ObjectStore:
    """Objects of one bucket."""

    def __init__(self, bucket: str, client: S3Client) -> None:
        self._bucket = bucket
        self._client = client

    def get(self, key: str, **conditions: Unpack[Conditions]) -> ObjectAnswer:
        """Ask S3 for an object.

        Raises:
            OriginUnavailableError: S3 cannot be reached, or another server answers.
        """
        return self._ask(self._client.get_object, key, conditions)

    def head(self, key: str, **conditions: Unpack[Conditions]) -> ObjectAnswer:
        """Ask S3 about an object; like `get`, but no body is on its way."""
        return self._ask(self._client.head_object, key, conditions)

    def fetch(self, key: str, *, max_bytes: int) -> Entry:
        """Return the whole object for a cache to hold.

        Raises:
            ObjectNotFoundError: S3 has no such object.
            ObjectTooLargeError: It has more than `max_bytes`.
            OriginUnavailableError: S3 is overloaded, fails or cannot be reached.
            OriginError: It answered otherwise.
        """
        return _entry(key, self.get(key), max_bytes)

    def fetch_if_newer(self, key: str, known: Entry, *, max_bytes: int) -> Entry | None:
        """Return the whole object, or None if it is still the one that is known; raises as `fetch` does.

        An ETag is that of the bytes alone, so a 304 leaves open whether their type and metadata were written anew.
        """
        answer = self.get(key, if_none_match=known.etag)
        if answer.status != _NOT_MODIFIED:
            return _entry(key, answer, max_bytes)
        is_known = answer.headers.get("last-modified") == known.last_modified
        return None if is_known else self.fetch(key, max_bytes=max_bytes)

    def read_part(self, key: str, etag: str, start: int, into: memoryview) -> None:
        """Read a part of one version of an object.

        Args:
            key: The object's key.
            etag: The version's ETag, with its quotes.
            start: Where the part begins [bytes].
            into: Where it is written, as long as it is, not empty; after an error its content is undefined.

        Raises:
            PreconditionFailedError: The object is another version by now.
            ObjectNotFoundError: S3 has no such object by now.
            OriginUnavailableError: S3 is overloaded, fails, cannot be reached, or breaks off.
            OriginError: It answered otherwise.
        """
        asked = f"bytes={start}-{start + len(into) - 1}"
        answer = self.get(key, if_match=etag, range_=asked)
        if answer.status == _PRECONDITION_FAILED:
            raise PreconditionFailedError(f"{key!r} is no longer the version {etag} that is being read")
        if not answer.is_success:
            raise origin_error(key, answer)
        if answer.status != _PARTIAL:
            answer.discard()
            raise OriginError(f"the store sends {key!r} whole where a part was asked for: it does not know Range")
        if answer.headers.get("etag", etag) != etag:  # a store that ignores If-Match
            answer.discard()
            raise PreconditionFailedError(f"{key!r} is no longer the version {etag} that is being read")
        sent = answer.headers.get("content-range", asked).partition("/")[0].replace(" ", "=")
        if sent != asked:
            answer.discard()
            raise OriginError(f"the store sends {sent} of {key!r} where {asked} was asked for")
        answer.read_into(into)

    def put(self, key: str, data: bytes, **headers: Unpack[WriteHeaders]) -> Written:
        """Write an object, on request only over that with an ETag (`if_match`), or if there is none (`*`).

        Raises:
            PreconditionFailedError: The condition does not hold.
            WriteConflictError: S3 has another write under way, and has written nothing.
            AccessDeniedError: S3 refuses the write.
            OriginUnavailableError: S3 does not answer: it may have the new object or not.
            OriginError: It answered otherwise.
        """
        return self._write(self._client.put_object, key, Body=data, **_write_parameters(headers))

    def delete(self, key: str, *, if_match: str = "") -> Written:
        """Delete an object, whether or not there is one; arguments and errors are those of `put`."""
        return self._write(self._client.delete_object, key, **({"IfMatch": if_match} if if_match else {}))

    def presign(self, key: str, *, valid_s: int) -> str:
        """Return a URL that reads the object straight from S3 for `valid_s` seconds; it is bound to GET."""
        parameters = {"Bucket": self._bucket, "Key": key}
        return self._client.generate_presigned_url("get_object", Params=parameters, ExpiresIn=valid_s)

    def presign_put(self, key: str, *, valid_s: int, **headers: Unpack[WriteHeaders]) -> str:
        """Return a URL to which the object may be put for `valid_s` seconds, with exactly these headers."""
        parameters = {"Bucket": self._bucket, "Key": key, **_write_parameters(headers)}
        return self._client.generate_presigned_url("put_object", Params=parameters, ExpiresIn=valid_s)

    def _ask(self, operation: Callable[..., Any], key: str, conditions: Conditions) -> ObjectAnswer:
        parameters = {
            "Range": conditions.get("range_"),
            "IfMatch": conditions.get("if_match"),
            "IfNoneMatch": conditions.get("if_none_match"),
            "IfModifiedSince": parse_http_date(conditions.get("if_modified_since", "")),
            "IfUnmodifiedSince": parse_http_date(conditions.get("if_unmodified_since", "")),
        }
        given = {name: value for name, value in parameters.items() if value}
        try:
            response = operation(Bucket=self._bucket, Key=key, **given)
        except ClientError as error:
            return _error_answer(error)
        except (BotoCoreError, OSError, ValueError) as error:
            raise _unasked(error) from error
        metadata = response["ResponseMetadata"]
        return ObjectAnswer(metadata["HTTPStatusCode"], metadata["HTTPHeaders"], _stream=response.get("Body"))

    def _write(self, operation: Callable[..., Any], key: str, **more: Any) -> Written:
        try:
            answer = operation(Bucket=self._bucket, Key=key, **more)
        except ClientError as error:
            retries = error.response.get("ResponseMetadata", {}).get("RetryAttempts", 0)
            raise _refused_write(key, _error_answer(error), retries) from error
        except (BotoCoreError, OSError, ValueError) as error:
            failure = _unasked(error)
            if isinstance(failure, OriginUnavailableError):
                failure = OriginUnavailableError(
                    f"S3 does not say whether it has written {key!r}: {in_one_line(error)}"
                )
            raise failure from error
        return Written(answer.get("ETag", ""), answer.get("VersionId", ""))


def _write_parameters(headers: WriteHeaders) -> dict[str, Any]:
    return {_PARAMETERS[name]: value for name, value in headers.items() if value}


def _refused_write(key: str, answer: ObjectAnswer, retries: int) -> BurstcacheError:
    if answer.status in (_PRECONDITION_FAILED, _CONFLICT, _NOT_FOUND) and retries:
        # It may have been met by a try of this very write whose answer was lost; 404 if that was a deletion.
        return OriginUnavailableError(f"S3 does not say whether it has written {key!r}, or somebody else")
    if answer.status == _PRECONDITION_FAILED:
        return PreconditionFailedError(f"{key!r} is not written: S3 answered {answer.status} {answer.code}")
    if answer.status == _CONFLICT:
        message = f"{key!r} is not written, since another write is under way: S3 answered {answer.status} {answer.code}"
        return WriteConflictError(message, status=answer.status, code=answer.code)
    return origin_error(key, answer, doing="to write")


def _entry(key: str, answer: ObjectAnswer, max_bytes: int) -> Entry:
    if not answer.is_success:
        raise origin_error(key, answer)
    sent = answer.headers.get("content-range", "")
    if answer.status == _PARTIAL and not is_part_sent(None, sent):
        answer.discard()
        raise OriginError(f"the store sends {sent or 'a part'} of {key!r} where the whole object was asked for")
    if answer.length_bytes > max_bytes:
        answer.discard()
        raise ObjectTooLargeError(f"{key!r} has {answer.length_bytes} bytes; a cache takes up to {max_bytes}")
    if not answer.is_identified:
        answer.discard()
        raise UnidentifiedObjectError(f"the store sends {key!r} without ETag, Content-Length or Last-Modified")
    return entry_from_s3(answer.headers, answer.read())


def origin_error(key: str, answer: ObjectAnswer, *, doing: str = "the read of") -> OriginError:
    """Return the error for an answer without an object: OriginUnavailableError if asking again may help.

    Args:
        key: The object's key.
        answer: S3's.
        doing: What S3 refuses.
    """
    status, code = answer.status, answer.code
    if status == _NOT_FOUND and code != _NO_BUCKET:
        return ObjectNotFoundError(f"S3 has no object {key!r}", status=status, code=code)
    hint = _HINTS.get(code, "")
    if region := answer.headers.get("x-amz-bucket-region", "") if status != _FORBIDDEN else "":
        hint = f"the bucket is in {region}; accepted: a session or client of that region"
    tail = f": {hint}" if hint else ""
    if status == _FORBIDDEN and code not in _PERMANENT:
        return AccessDeniedError(f"S3 refuses {doing} {key!r}: {code}{tail}", status=status, code=code)
    kind = OriginUnavailableError if answer.is_passing else OriginError
    return kind(f"S3 answered {status} {code} for {key!r}{tail}", status=status, code=code)


def _unasked(error: Exception) -> OriginError:
    """Return the error for a question that S3 did not answer; OriginUnavailableError if asking again may help."""
    if isinstance(error, _NO_CREDENTIALS):
        accepted = (
            "accepted: the environment's (AWS_PROFILE, AWS_ACCESS_KEY_ID), a role's, or session=boto3.Session(...)"
        )
        return OriginError(f"there are no valid credentials to ask S3 with ({in_one_line(error)}); {accepted}")
    if isinstance(error, (HTTPClientError, NoConnectionError, OSError)):
        return OriginUnavailableError(f"S3 cannot be reached: {in_one_line(error)}")
    if isinstance(error, BotoCoreError):
        return OriginError(f"S3 cannot be asked: {in_one_line(error)}")
    return OriginError(f"S3's answer cannot be read: {in_one_line(error)}")


def _error_answer(error: ClientError) -> ObjectAnswer:
    details: Mapping[str, Any] = error.response.get("Error", {})
    metadata = error.response.get("ResponseMetadata", {})
    size = str(details.get("ActualObjectSize", ""))
    return ObjectAnswer(
        status=int(metadata.get("HTTPStatusCode", 0)),
        headers=metadata.get("HTTPHeaders", {}),
        code=in_one_line(details.get("Code", "")),
        actual_size_bytes=int(size) if size.isdecimal() else None,
    )
