"""The object store behind the cache: objects in one S3 bucket, the origin."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, Unpack

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
_TRANSIENT = frozenset({"RequestTimeout", "RequestTimeoutException", "Throttling", "ThrottlingException"})
_PERMANENT = frozenset({"InvalidObjectState"})  # causes of a 403 other than missing permissions
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
# The S3 client's parameters for the headers of a write.
_PARAMETERS = {
    "content_type": "ContentType",
    "cache_control": "CacheControl",
    "content_disposition": "ContentDisposition",
    "content_encoding": "ContentEncoding",
    "content_language": "ContentLanguage",
    "content_md5": "ContentMD5",
    "expires": "Expires",  # botocore sends an HTTP date unchanged if it is a string
    "metadata": "Metadata",
    "if_match": "IfMatch",
    "if_none_match": "IfNoneMatch",
}


class Progress(NamedTuple):
    """Offsets in a body, in order and up to its length, and a callback that gets each once it is reached."""

    stops: Sequence[int]
    reached: Callable[[int], object]


@dataclass(frozen=True, slots=True)
class ObjectResponse:
    """A response from S3, possibly an error, with its body still unread.

    `headers` are S3's own, with lower-case names. `code` is S3's error code, empty on success.
    """

    status: int
    headers: Mapping[str, str]
    code: str = ""
    actual_size_bytes: int | None = None  # the object's size, stated in S3's 416 response
    _stream: Any = field(default=None, repr=False)

    @property
    def is_success(self) -> bool:
        """Whether the response contains the object or a part of it."""
        return self.status in (_OK, _PARTIAL)

    @property
    def length_bytes(self) -> int:
        """Length of the body, or for HEAD of the body that GET would return."""
        length = self.headers.get("content-length", "")
        return int(length) if length.isdecimal() else 0

    @property
    def is_transient(self) -> bool:
        """Whether S3 fails or is overloaded, so that a retry may help."""
        return self.status >= 500 or self.status == _TOO_MANY or self.code in _TRANSIENT  # SlowDown is a 503

    @property
    def is_identified(self) -> bool:
        """Whether the headers identify the object's version."""
        return is_identified(self.headers)

    @property
    def object_size_bytes(self) -> int:
        """Size of the whole object, even if the response is a part. 0 if S3 did not send the size (a 304)."""
        return object_size_bytes(self.headers)

    def read(self) -> bytes:
        """Read and return the whole body. Raise OriginUnavailableError if it is truncated."""
        try:
            data: bytes = self._stream.read() if self._stream is not None else b""
            return data
        except FlexibleChecksumError as error:
            raise OriginUnavailableError(f"S3's answer did not arrive as it was sent: {in_one_line(error)}") from error
        except (BotoCoreError, OSError) as error:
            raise OriginUnavailableError(f"S3's answer broke off: {in_one_line(error)}") from error

    def read_into(self, buffer: memoryview, progress: Progress | None = None) -> None:
        """Read the whole body into a buffer of the same size.

        Raises:
            OriginUnavailableError: The body is truncated.
        """
        if self.length_bytes != len(buffer):
            self.discard()
            raise OriginUnavailableError(f"S3 sends {self.length_bytes:,} bytes instead of {len(buffer):,}")
        read_bytes = 0
        for stop in progress.stops if progress is not None else (len(buffer),):
            try:
                while read_bytes < stop and (count := self._stream.readinto(buffer[read_bytes:stop])):
                    read_bytes += count
            except (BotoCoreError, OSError) as error:
                raise OriginUnavailableError(f"S3's answer broke off: {in_one_line(error)}") from error
            if read_bytes < stop:
                raise OriginUnavailableError(f"S3's answer broke off after {read_bytes:,} of {len(buffer):,} bytes")
            if progress is not None:
                progress.reached(stop)

    def hurry(self, wait_s: float) -> None:
        """Set the timeout of each read from the body's socket."""
        if self._stream is not None and self.length_bytes:  # an empty body no longer has a socket
            self._stream.set_socket_timeout(wait_s)

    def discard(self) -> None:
        """Close the connection without reading the body."""
        if self._stream is not None:
            self._stream.close()


class Conditions(TypedDict, total=False):
    """HTTP headers of a read, forwarded to S3. Empty values and invalid dates are omitted."""

    range_: str
    if_match: str
    if_none_match: str
    if_modified_since: str
    if_unmodified_since: str


@dataclass(frozen=True, slots=True)
class Written:
    """Result of a write to S3: the new object's ETag with its quotes (empty after a deletion) and version, if any."""

    etag: str
    version_id: str = ""


def ignore_request() -> None:
    """Ignore a request to S3."""


class ObjectStore:
    """The objects of one bucket."""

    def __init__(self, bucket: str, client: S3Client, *, requested: Callable[[], None] = ignore_request) -> None:
        """Create the store. `requested` is called before each request."""
        self._bucket = bucket
        self._client = client
        self._requested = requested

    def get(self, key: str, **conditions: Unpack[Conditions]) -> ObjectResponse:
        """Request an object from S3.

        Raises:
            OriginUnavailableError: S3 is unreachable, or another server responds.
        """
        return self._request(self._client.get_object, key, conditions)

    def head(self, key: str, **conditions: Unpack[Conditions]) -> ObjectResponse:
        """Request an object's headers from S3, like `get` without a body."""
        return self._request(self._client.head_object, key, conditions)

    def fetch(self, key: str, *, max_bytes: int) -> Entry:
        """Fetch the whole object as a cache entry.

        Raises:
            ObjectNotFoundError: S3 has no such object.
            ObjectTooLargeError: The object has more than `max_bytes`.
            OriginUnavailableError: S3 is overloaded, failing or unreachable.
            OriginError: Any other response.
        """
        return _entry(key, self.get(key), max_bytes)

    def fetch_if_newer(self, key: str, known: Entry, *, max_bytes: int) -> Entry | None:
        """Fetch the whole object, or return None if it is unchanged. Raise the errors of `fetch`.

        The ETag covers only the bytes. Despite a 304, the same bytes may have been written with another type or other
        metadata.
        """
        response = self.get(key, if_none_match=known.etag)
        if response.status != _NOT_MODIFIED:
            return _entry(key, response, max_bytes)
        last_modified = response.headers.get("last-modified")
        if last_modified is None:  # some stores send none with a 304
            headers = self.head(key).headers
            last_modified = headers.get("last-modified") if headers.get("etag") == known.etag else None
        return None if last_modified == known.last_modified else self.fetch(key, max_bytes=max_bytes)

    def read_part(self, key: str, etag: str, start: int, into: memoryview, progress: Progress | None = None) -> None:
        """Read a part of one version of an object.

        Args:
            key: Key of the object.
            etag: ETag of the version, with its quotes.
            start: Offset of the part [bytes].
            into: Non-empty buffer of the part's size. After an error only the bytes before the last stop are defined.
            progress: Reports the progress. None: do not report it.

        Raises:
            PreconditionFailedError: The object's version has changed.
            ObjectNotFoundError: S3 no longer has the object.
            OriginUnavailableError: S3 is overloaded, failing or unreachable, or the body is truncated.
            OriginError: Any other response.
        """
        requested = f"bytes={start}-{start + len(into) - 1}"
        response = self.get(key, if_match=etag, range_=requested)
        if response.status == _PRECONDITION_FAILED:
            raise PreconditionFailedError(f"{key!r} is no longer the version {etag} that is being read")
        if not response.is_success:
            raise origin_error(key, response)
        if response.status != _PARTIAL:
            response.discard()
            raise OriginError(f"the store sends {key!r} whole where a part was requested: it does not support Range")
        if response.headers.get("etag", etag) != etag:  # the store has ignored If-Match
            response.discard()
            raise PreconditionFailedError(f"{key!r} is no longer the version {etag} that is being read")
        sent = response.headers.get("content-range", requested).partition("/")[0].replace(" ", "=")
        if sent != requested:
            response.discard()
            raise OriginError(f"the store sends {sent} of {key!r} where {requested} was requested")
        response.read_into(into, progress)

    def put(self, key: str, data: bytes, **headers: Unpack[WriteHeaders]) -> Written:
        """Write an object, conditionally with `if_match` (an ETag) or `if_none_match` (`*`).

        Raises:
            PreconditionFailedError: The condition does not hold.
            WriteConflictError: A concurrent write is in progress. S3 has written nothing.
            AccessDeniedError: S3 denies the write.
            OriginUnavailableError: S3 does not respond. The object may or may not have been written.
            OriginError: Any other response.
        """
        return self._write(self._client.put_object, key, Body=data, **_write_parameters(headers))

    def delete(self, key: str, *, if_match: str = "") -> Written:
        """Delete an object, whether or not it exists. See `put` for `if_match` and the errors."""
        return self._write(self._client.delete_object, key, **({"IfMatch": if_match} if if_match else {}))

    def presign(self, key: str, *, valid_s: int) -> str:
        """Return a presigned GET URL that reads the object directly from S3, valid for `valid_s` seconds."""
        parameters = {"Bucket": self._bucket, "Key": key}
        return self._client.generate_presigned_url("get_object", Params=parameters, ExpiresIn=valid_s)

    def presign_put(self, key: str, *, valid_s: int, **headers: Unpack[WriteHeaders]) -> str:
        """Return a presigned PUT URL for the object with exactly these headers, valid for `valid_s` seconds."""
        parameters = {"Bucket": self._bucket, "Key": key, **_write_parameters(headers)}
        return self._client.generate_presigned_url("put_object", Params=parameters, ExpiresIn=valid_s)

    def _request(self, operation: Callable[..., Any], key: str, conditions: Conditions) -> ObjectResponse:
        parameters = {
            "Range": conditions.get("range_"),
            "IfMatch": conditions.get("if_match"),
            "IfNoneMatch": conditions.get("if_none_match"),
            "IfModifiedSince": parse_http_date(conditions.get("if_modified_since", "")),
            "IfUnmodifiedSince": parse_http_date(conditions.get("if_unmodified_since", "")),
        }
        non_empty = {name: value for name, value in parameters.items() if value}
        self._requested()
        try:
            response = operation(Bucket=self._bucket, Key=key, **non_empty)
        except ClientError as error:
            return _error_response(error)
        except (BotoCoreError, OSError, ValueError) as error:
            raise _request_error(error) from error
        metadata = response["ResponseMetadata"]
        return ObjectResponse(metadata["HTTPStatusCode"], metadata["HTTPHeaders"], _stream=response.get("Body"))

    def _write(self, operation: Callable[..., Any], key: str, **more: Any) -> Written:
        self._requested()
        try:
            response = operation(Bucket=self._bucket, Key=key, **more)
        except ClientError as error:
            retries = error.response.get("ResponseMetadata", {}).get("RetryAttempts", 0)
            raise _write_error(key, _error_response(error), retries) from error
        except (BotoCoreError, OSError, ValueError) as error:
            failure = _request_error(error)
            if isinstance(failure, OriginUnavailableError):
                failure = OriginUnavailableError(f"S3 has not confirmed the write of {key!r}: {in_one_line(error)}")
            raise failure from error
        return Written(response.get("ETag", ""), response.get("VersionId", ""))


def _write_parameters(headers: WriteHeaders) -> dict[str, Any]:
    return {_PARAMETERS[name]: value for name, value in headers.items() if value}


def _write_error(key: str, response: ObjectResponse, retries: int) -> BurstcacheError:
    if response.status in (_PRECONDITION_FAILED, _CONFLICT, _NOT_FOUND) and retries:
        # The cause may be an earlier attempt of this write, whose response was lost. A repeated deletion gets a 404.
        return OriginUnavailableError(f"S3 has not confirmed the write of {key!r}: this or another write succeeded")
    if response.status == _PRECONDITION_FAILED:
        return PreconditionFailedError(f"{key!r} is not written: S3 answered {response.status} {response.code}")
    if response.status == _CONFLICT:
        message = f"{key!r} is not written because of a concurrent write: S3 answered {response.status} {response.code}"
        return WriteConflictError(message, status=response.status, code=response.code)
    return origin_error(key, response, doing="to write")


def _entry(key: str, response: ObjectResponse, max_bytes: int) -> Entry:
    if not response.is_success:
        raise origin_error(key, response)
    sent = response.headers.get("content-range", "")
    if response.status == _PARTIAL and not is_part_sent(None, sent):
        response.discard()
        raise OriginError(f"the store sends {sent or 'a part'} of {key!r} where the whole object was asked for")
    if response.length_bytes > max_bytes:
        response.discard()
        raise ObjectTooLargeError(f"{key!r} has {response.length_bytes} bytes; a cache takes up to {max_bytes}")
    if not response.is_identified:
        response.discard()
        raise UnidentifiedObjectError(f"the store sends {key!r} without ETag, Content-Length or Last-Modified")
    return entry_from_s3(response.headers, response.read())


def origin_error(key: str, response: ObjectResponse, *, doing: str = "the read of") -> OriginError:
    """Return the error for an unsuccessful response: OriginUnavailableError if a retry may help.

    Args:
        key: Key of the object.
        response: S3's response.
        doing: The rejected operation, for the error message.
    """
    status, code = response.status, response.code
    if status == _NOT_FOUND and code != _NO_BUCKET:
        return ObjectNotFoundError(f"S3 has no object {key!r}", status=status, code=code)
    hint = _HINTS.get(code, "")
    if region := response.headers.get("x-amz-bucket-region", "") if status != _FORBIDDEN else "":
        hint = f"the bucket is in {region}; accepted: a session or client of that region"
    tail = f": {hint}" if hint else ""
    if status == _FORBIDDEN and code not in _PERMANENT:
        return AccessDeniedError(f"S3 refuses {doing} {key!r}: {code}{tail}", status=status, code=code)
    kind = OriginUnavailableError if response.is_transient else OriginError
    return kind(f"S3 answered {status} {code} for {key!r}{tail}", status=status, code=code)


def _request_error(error: Exception) -> OriginError:
    """Return the error for a request without a response: OriginUnavailableError if a retry may help."""
    if isinstance(error, _NO_CREDENTIALS):
        accepted = (
            "accepted: the environment's (AWS_PROFILE, AWS_ACCESS_KEY_ID), a role's, or session=boto3.Session(...)"
        )
        return OriginError(f"there are no valid credentials for S3 ({in_one_line(error)}); {accepted}")
    if isinstance(error, (HTTPClientError, NoConnectionError, OSError)):
        return OriginUnavailableError(f"S3 cannot be reached: {in_one_line(error)}")
    if isinstance(error, BotoCoreError):
        return OriginError(f"the request to S3 failed: {in_one_line(error)}")
    return OriginError(f"S3's answer cannot be read: {in_one_line(error)}")


def _error_response(error: ClientError) -> ObjectResponse:
    details: Mapping[str, Any] = error.response.get("Error", {})
    metadata = error.response.get("ResponseMetadata", {})
    size = str(details.get("ActualObjectSize", ""))
    return ObjectResponse(
        status=int(metadata.get("HTTPStatusCode", 0)),
        headers=metadata.get("HTTPHeaders", {}),
        code=in_one_line(details.get("Code", "")),
        actual_size_bytes=int(size) if size.isdecimal() else None,
    )
