"""Which of S3's response headers belong to the object, and how a header's value is made safe to send."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping

from burstcache.web.dates import parse_http_date

# A cached copy keeps these (and the two below), so that every tier answers with the same headers.
_OBJECT_HEADERS = frozenset(
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
# RFC 9110, 15.4.5: a 304 repeats what a cache needs to update its copy, and nothing of what it has already.
_IN_304 = frozenset({"etag", "last-modified", "cache-control", "expires", "x-amz-version-id"})
_SAFE = re.compile(r"[\x20-\x7e\t]*")
_METADATA_NAME = re.compile(rf"{_USER_METADATA}[!#$%&'*+.^_`|~0-9a-z-]*")  # RFC 9110, 5.6.2: a token, in lower case
_SHAPES = {
    "etag": re.compile(r'(?:W/)?(?:"[\x21\x23-\x7e]*"|[\x21\x23-\x7e]+)'),  # stores other than S3 leave the quotes out
    "content-length": re.compile(r"0|[1-9][0-9]{0,14}"),
}
_DATES = ("last-modified", "date")


def object_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return those of S3's headers that describe the object, names in lower case, values safe to send.

    Headers that describe S3 or our account (request ids, encryption keys, replication) stay behind.
    """
    kept = {}
    for name, value in headers.items():
        name = name.lower()
        if _is_object_header(name):
            kept[name] = sendable(value)
    return kept


def checked_headers(stored: Mapping[str, object]) -> dict[str, str]:
    """Return the headers of a stored entry, filtered as they were when it was stored.

    A cache is not trusted with more than S3 is: names that `object_headers` would have left behind are dropped.

    Args:
        stored: Names and values as they were found: an object's headers and S3's `date`.

    Raises:
        ValueError: A header that is kept cannot be sent, or one that each entry needs is missing or malformed.
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
    """Return those of some headers that are HTTP dates."""
    return {name: headers[name] for name in names if parse_http_date(headers.get(name, "")) is not None}


def _is_object_header(name: str) -> bool:
    """Whether a name in lower case is that of a header that describes an object."""
    return name in _OBJECT_HEADERS or _METADATA_NAME.fullmatch(name) is not None


def object_size_bytes(headers: Mapping[str, str]) -> int:
    """Return the size of the whole object, also if an answer has a part of it; 0 if it does not say.

    Args:
        headers: Of an answer with the object, names in lower case.
    """
    size = _size(headers)
    return int(size) if size.isascii() and size.isdigit() else 0


def is_identified(headers: Mapping[str, str]) -> bool:
    """Whether a store says all that tells one version of an object from another: ETag, size and time of the write.

    S3 always does. Stores and gateways that do not are read, and their objects are never kept. A weak ETag stands for
    several bodies (RFC 9110, 8.8.1), so it tells none.

    Args:
        headers: Of an answer with the object, or with a part of it, names in lower case.
    """
    is_dated = parse_http_date(headers.get("last-modified", "")) is not None
    etag = headers.get("etag", "")
    is_strong = bool(etag) and not etag.startswith("W/")
    has_sizes = headers.get("content-length", "").isdecimal() and _size(headers).isdecimal()
    return is_strong and is_dated and has_sizes


def _size(headers: Mapping[str, str]) -> str:
    """Return the size of the whole object as an answer writes it: of a part it may be `*`, which is unknown."""
    return headers.get("content-range", headers.get("content-length", "")).rpartition("/")[2]


def age_s(headers: Mapping[str, str], *, at_us: int) -> int:
    """Return how long ago S3 gave these headers [s], by its own clock; 0 if it does not say.

    Args:
        headers: An object's, with S3's `date`.
        at_us: The present [us since 1970].
    """
    given_at = parse_http_date(headers.get("date", ""))
    return 0 if given_at is None else max(int(at_us / 1e6 - given_at.timestamp()), 0)


def not_modified_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return those of an object's headers that a 304 repeats."""
    return {name: value for name, value in headers.items() if name in _IN_304}


def sendable(value: str) -> str:
    """Return a header's value in printable ASCII, encoded as S3 itself encodes such user metadata (RFC 2047).

    S3's bytes come as Latin-1 text, whatever they were; the API Gateway takes text and may refuse or change the rest.
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
    """True if a client's header value is printable ASCII, so that it can be passed on."""
    return _SAFE.fullmatch(value) is not None
