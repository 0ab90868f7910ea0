"""The fields of tables and JSON logs: their usual names, and the names given by `--fields`.

Source:
    The field lists of Nginx, Caddy, Traefik, Envoy, Elastic Common Schema, Cloudflare Logpush, Akamai DataStream,
    Google Cloud Storage and Load Balancing, Azure Front Door and Blob Storage, AWS WAF, MinIO and Ceph.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from re import compile as regex

from burstcache.core.errors import InvalidSettingError
from burstcache_sim.traces.errors import BadRowError
from burstcache_sim.traces.log_format import is_served, path_of, target_of
from burstcache_sim.traces.timestamps import UNITS_NS

# Maps a field to a table column or a JSON member: `when`, `time:ms`, `date+time`, `request.uri`, `3`.
FieldNames = Mapping[str, str]
FIELDS = ("time", "key", "size", "method", "status", "range", "sent", "object")

# Normalised names by field. A dot separates levels of nested objects. The first name that occurs in the log is used.
_USUAL = {
    "time": "msec timeiso8601 timelocal startutc timemicros edgestarttimestamp reqtimesec timestamp datetime time ts t "
    "starttime arrivals eventtime",
    "method": "op method requestmethod csmethod clientrequestmethod httpmethod reqmethod verb request.method "
    "httprequest.requestmethod httprequest.httpmethod properties.httpmethod http.request.method api.name "
    "operationname operation",
    "status": "status statuscode scstatus httpstatus httpstatuscode edgeresponsestatus downstreamstatus responsecode "
    "responsestatus api.statuscode httprequest.status properties.httpstatuscode http.response.statuscode "
    "responsecodesent",
    "size": "bodybytessent bytessent edgeresponsebodybytes edgeresponsebytes downstreamcontentsize responsebodysize "
    "responsebodybytes responsebytes responsesize responselength size bytes sizebytes scbytes contentlength length "
    "rspcontentlen filesize valuesize api.tx httprequest.responsesize properties.responsebytes "
    "properties.responsebodysize http.response.body.bytes",
    "sent": "sentbytes",
    "object": "objectbytes objectsize objsize",
    "bucket": "csbucket api.bucket",
    "range": "range httprange request.headers.range requestheader.range senthttpcontentrange contentrange",
}
_LOOKS_LIKE_A_SIZE = regex(r"size|bytes|length|(?:^|[^a-z])len(?:$|[^a-z])", 2)
_REQUEST = regex(rb"[A-Z]{3,16} \S.*")
_URL = regex(rb"[a-z][a-z0-9+]*://", 2)
_NO_RESPONSE = frozenset((b"0", b"-", b"-1"))
_GETS = frozenset((b"GET", b"GETS", b"GETOBJECT", b"GETBLOB", b"GETOBJ", b"READ"))
_IGNORED = regex(r"[\s_\-@#\"]+")


class KeyKind(Enum):
    """The form in which a field names an object."""

    PLAIN = "as written"
    URI = "as written, unless it is a whole URL or a request line"
    TARGET = "path or URL, encoded, perhaps with a query"
    REQUEST = "request line"
    OBJECT = "object of a bucket, empty if the request was not for an object"


_KEYS = {
    "csobject": KeyKind.OBJECT,
    "api.object": KeyKind.OBJECT,
    "requesturi": KeyKind.TARGET,
    "url": KeyKind.TARGET,
    "path": KeyKind.TARGET,
    "clientrequesturi": KeyKind.TARGET,
    "requestpath": KeyKind.TARGET,
    "requesturl": KeyKind.TARGET,
    "reqpath": KeyKind.TARGET,
    "csuristem": KeyKind.TARGET,
    "csuri": KeyKind.TARGET,
    "request.uri": KeyKind.TARGET,
    "httprequest.uri": KeyKind.TARGET,
    "httprequest.requesturl": KeyKind.TARGET,
    "properties.requesturi": KeyKind.TARGET,
    "url.path": KeyKind.TARGET,
    "url.original": KeyKind.TARGET,
    "uri": KeyKind.URI,
    "key": KeyKind.PLAIN,
    "objectkey": KeyKind.PLAIN,
    "objectid": KeyKind.PLAIN,
    "objid": KeyKind.PLAIN,
    "anonymizedkey": KeyKind.PLAIN,
    "object": KeyKind.PLAIN,
    "request": KeyKind.REQUEST,
}
USUAL_NAMES = {field: tuple(names.split()) for field, names in _USUAL.items()} | {"key": tuple(_KEYS)}


@lru_cache(maxsize=4096)
def normalised(name: str) -> str:
    """Return a name in lower case without whitespace, `_`, `-`, `@`, `#` and quotes."""
    return _IGNORED.sub("", name).lower()


def kind_of(name: str) -> KeyKind:
    """Return the kind of key in a member or column with this name."""
    return _KEYS.get(normalised(name), KeyKind.PLAIN)


def possible_sizes(names: list[str]) -> list[str]:
    """Return the names that look like a response size."""
    return [name for name in names if _LOOKS_LIKE_A_SIZE.search(name) and not normalised(name).startswith("request")]


@dataclass(frozen=True, slots=True)
class TimeField:
    """The time field, with a unit if it is numeric."""

    names: tuple[str, ...]  # one column or member, or two for date and time
    unit: str = ""  # a key of UNITS_NS (empty: detected)


def time_field(text: str) -> TimeField:
    """Parse `when`, `t:ms` or `date+time`."""
    name, colon, unit = text.rpartition(":")
    if not colon or unit not in UNITS_NS:
        name, unit = text, ""
    parts = tuple(name.split("+"))
    return TimeField(parts if all(parts) else (name,), unit)


def check_names(names: FieldNames) -> None:
    """Raise an `InvalidSettingError` for an unknown field or an empty name."""
    for field, name in names.items():
        if field not in FIELDS:
            raise InvalidSettingError(f"field {field!r}: expected one of {', '.join(FIELDS)}")
        if not name:
            raise InvalidSettingError(f"field {field!r}: expected the name or the number of a column")


def name_in(value: bytes, kind: KeyKind, bucket: bytes = b"") -> bytes | None:
    """Return the object that a field names, or None if the request is not a GET of an object.

    Raises:
        BadRowError: The field is empty.
    """
    if not value:
        if kind in (KeyKind.OBJECT, KeyKind.REQUEST):  # the request names no object, or the client sent no request
            return None
        raise BadRowError("a key, not an empty one")
    if kind is KeyKind.OBJECT:
        return bucket + b"/" + value if bucket else value
    if kind is KeyKind.PLAIN:
        return value
    if kind is KeyKind.REQUEST or _REQUEST.match(value):
        target = target_of(value)
        return None if target is None else path_of(target)
    return value if kind is KeyKind.URI and not _URL.match(value) else path_of(value)


@lru_cache(maxsize=256)
def is_success(status: bytes) -> bool:
    """Return whether a status in JSON or a table counts as served. An empty status counts as served.

    Raises:
        BadRowError: The status is neither three digits nor a code for a disconnected client.
    """
    status = status.removesuffix(b".0")
    return not status or (status not in _NO_RESPONSE and is_served(status))


@lru_cache(maxsize=256)
def is_get(method: bytes) -> bool:
    """Return whether an HTTP method or a storage operation reads an object."""
    return method.upper().replace(b"_", b"") in _GETS
