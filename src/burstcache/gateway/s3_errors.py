"""S3's errors: codes and statuses."""

from __future__ import annotations

from collections.abc import Sequence

from burstcache.core.errors import BurstcacheError

_STATUSES = {
    "AccessDenied": 403,
    "InternalError": 500,
    "InvalidAccessKeyId": 403,
    "MethodNotAllowed": 405,
    "MissingContentLength": 411,
    "NoSuchKey": 404,
    "NotImplemented": 501,
    "RequestTimeTooSkewed": 403,
    "ServiceUnavailable": 503,
    "SignatureDoesNotMatch": 403,
    "SlowDown": 503,
}


class S3Error(BurstcacheError):
    """A refusal with one of S3's error codes.

    Attributes:
        code: S3's error code.
        message: S3's message, or a clearer one.
        status: The HTTP status of the response.
        details: Further elements of S3's XML error, as pairs of name and text.
    """

    def __init__(self, code: str, message: str, details: Sequence[tuple[str, str]] = ()) -> None:
        """Set the code and message. The status follows from the code: 400, unless S3 has another one for it."""
        super().__init__(f"{code}: {message}")
        self.code, self.message, self.details = code, message, tuple(details)
        self.status = _STATUSES.get(code, 400)
