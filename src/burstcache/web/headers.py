"""Response headers: the subsets of S3's headers that describe the object, with values made safe to send."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping

from burstcache.web.dates import parse_http_date, timestamp_s

CHECKSUM_HEADERS = tuple(
    f"x-amz-checksum-{name}" for name in ("crc32", "crc32c", "crc64nvme", "sha1", "sha256", "type")
)
# Headers that only S3's own clients understand. A write of the object decides them, so its copies keep them.
_S3_HEADERS = frozenset(
    {
        *CHECKSUM_HEADERS,
        "x-amz-missing-meta",
        "x-amz-server-side-encryption",
        "x-amz-server-side-encryption-aws-kms-key-id",
        "x-amz-server-side-encryption-bucket-key-enabled",
        "x-amz-storage-class",
        "x-amz-website-redirect-location",
    }
)
# Cached copies keep these, user metadata and `date`, so that every tier responds with the same headers.
_OBJECT_HEADERS = _S3_HEADERS | frozenset(
    {
        "etag",
        "last-modified",
        "content-type",
        "content-encoding",
        "content-language",
        "content-disposition",
        "content-length",
        "cache-control",
        "expires",
        "x-amz-version-id",
    }
)
_USER_METADATA = "x-amz-meta-"
# RFC 9110, 15.4.5: a 304 has only the headers that a cache needs to update its copy.
_IN_304 = frozenset({"etag", "last-modified", "cache-control", "expires", "x-amz-version-id"})
_SAFE = re.compile(r"[\x20-\x7e\t]*")
_METADATA_NAME = re.compile(rf"{_USER_METADATA}[!#$%&'*+.^_`|~0-9a-z-]*")  # RFC 9110, 5.6.2: a token, in lower case
_SHAPES = {
    "etag": re.compile(r'(?:W/)?(?:"[\x21\x23-\x7e]*"|[\x21\x23-\x7e]+)'),  # stores other than S3 omit the quotes
    "content-length": re.compile(r"0|[1-9][0-9]{0,14}"),
}
_DATES = ("last-modified", "date")


def object_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the subset of S3's headers that describes the object, with lower-case names and safe values.

    Headers about S3 (request ids) or about state that changes without a write (tags, retention, replication) are
    dropped.
    """
    kept = {}
    for name, value in headers.items():
        name = name.lower()
        if _is_object_header(name):
            kept[name] = sendable(value)
    return kept


def public_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return headers without those that only S3's own clients understand, such as the name of an encryption key."""
    return {name: value for name, value in headers.items() if name not in _S3_HEADERS}


def without_checksums(headers: Mapping[str, str]) -> dict[str, str]:
    """Return headers without the checksums of the whole object."""
    return {name: value for name, value in headers.items() if name not in CHECKSUM_HEADERS}


def checked_headers(stored: Mapping[str, object]) -> dict[str, str]:
    """Validate a stored entry's headers, and filter them as when they were stored.

    A cache is trusted no more than S3, so names that `object_headers` would drop are dropped.

    Args:
        stored: Header names and values from the cache: an object's headers and S3's `date`.

    Raises:
        ValueError: A header cannot be sent, or a required one is missing or malformed.
    """
    kept: dict[str, str] = {}
    for name, value in stored.items():
        if name != name.lower():
            raise ValueError(f"header {name!r} of a stored entry; accepted: names in lower case")
        if name == "date" or _is_object_header(name):
            if not isinstance(value, str) or not _SAFE.fullmatch(value):
                raise ValueError(f"header {name} of a stored entry: {value!r:.100}; accepted: printable ASCII")
            kept[name] = value
    for name, shape in _SHAPES.items():
        if not shape.fullmatch(kept.get(name, "")):
            raise ValueError(f"header {name} of a stored entry: {kept.get(name)!r:.100}")
    for name in _DATES:
        if name in kept and parse_http_date(kept[name]) is None:
            raise ValueError(f"header {name} of a stored entry: {kept[name]!r:.100}; accepted: an HTTP date")
    return kept


def valid_dates(headers: Mapping[str, str], *names: str) -> dict[str, str]:
    """Return the headers with these names, if their values are valid HTTP dates."""
    return {name: headers[name] for name in names if parse_http_date(headers.get(name, "")) is not None}


def _is_object_header(name: str) -> bool:
    """Return True if the header with this lower-case name describes an object."""
    return name in _OBJECT_HEADERS or _METADATA_NAME.fullmatch(name) is not None


def object_size_bytes(headers: Mapping[str, str]) -> int:
    """Return the size of the whole object, even from the response to a range request, or 0 if unknown.

    Args:
        headers: Headers of the response, names in lower case.
    """
    size = _size(headers)
    return int(size) if size.isascii() and size.isdigit() else 0


def is_identified(headers: Mapping[str, str]) -> bool:
    """Return True if headers identify a version of the object, by a strong ETag, size and Last-Modified.

    S3 always sends all three. Other stores and gateways may not, and such objects are never cached. A weak ETag may
    match several bodies (RFC 9110, 8.8.1).

    Args:
        headers: Headers of a response with the object or a part of it, names in lower case.
    """
    is_dated = parse_http_date(headers.get("last-modified", "")) is not None
    etag = headers.get("etag", "")
    is_strong = bool(etag) and not etag.startswith("W/")
    has_sizes = headers.get("content-length", "").isdecimal() and _size(headers).isdecimal()
    return is_strong and is_dated and has_sizes


def _size(headers: Mapping[str, str]) -> str:
    """Return the whole object's size as text, or `*` if Content-Range does not state the size."""
    return headers.get("content-range", headers.get("content-length", "")).rpartition("/")[2]


def age_s(headers: Mapping[str, str], *, at_us: int) -> int:
    """Return the time since S3 sent these headers, by S3's clock [s], or 0 if unknown.

    Args:
        headers: Headers of an object, with S3's `date`.
        at_us: The current time [us since 1970].
    """
    sent_at_s = timestamp_s(headers.get("date", ""))
    return 0 if sent_at_s is None else max(int(at_us / 1e6 - sent_at_s), 0)


def not_modified_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the subset of an object's headers for a 304."""
    return {name: value for name, value in headers.items() if name in _IN_304}


def sendable(value: str) -> str:
    """Encode a header's value as printable ASCII, as S3 itself encodes user metadata (RFC 2047).

    S3's bytes arrive decoded as Latin-1, whatever their charset. API Gateway may reject or alter non-ASCII text.
    """
    if _SAFE.fullmatch(value):
        return value
    raw = value.encode("latin-1", "replace")
    try:
        raw.decode()
        charset = "UTF-8"
    except UnicodeDecodeError:
        charset = "ISO-8859-1"
    return f"=?{charset}?B?{b64encode(raw).decode('ascii')}?="


def is_safe(value: str) -> bool:
    """Return True if a client's header value is printable ASCII and can be forwarded."""
    return _SAFE.fullmatch(value) is not None
