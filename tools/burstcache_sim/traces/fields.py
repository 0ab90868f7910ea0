"""The fields of tables and JSON: what logs usually call them, and what a `--fields` option says instead.

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
from burstcache_sim.traces.clock import UNITS_NS
from burstcache_sim.traces.errors import BadRowError
from burstcache_sim.traces.log_format import is_served, path_of, target_of

# Which column of a table or member of JSON has what: `when`, `time:ms`, `date+time`, `request.uri`, `3`.
FieldNames = Mapping[str, str]
FIELDS = ("time", "key", "size", "method", "status", "range", "sent", "object")

# Names without regard to case, `_`, `-` and blanks; a dot leads into a nested object. The first that a log has counts.
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
_NO_ANSWER = frozenset((b"0", b"-", b"-1"))
_GETS = frozenset((b"GET", b"GETS", b"GETOBJECT", b"GETBLOB", b"GETOBJ", b"READ"))
_IGNORED = regex(r"[\s_\-@#\"]+")


class KeyKind(Enum):
    """How a field names an object."""

    PLAIN = "as it is"
    URI = "as it is, but for a whole URL or the first line of a request"
    TARGET = "path or URL, encoded, perhaps with a query"
    REQUEST = "first line of a request"
    OBJECT = "object of a bucket, empty if the request was for another thing"


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
    """Return a name without what differs between writers: case, blanks, `_`, `-`, `@`, quotes."""
    return _IGNORED.sub("", name).lower()


def kind_of(name: str) -> KeyKind:
    """Return how the member or column of this name names an object."""
    return _KEYS.get(normalised(name), KeyKind.PLAIN)


def may_be_sizes(names: list[str]) -> list[str]:
    """Return the names that may be of sizes, though none is a usual one."""
    return [name for name in names if _LOOKS_LIKE_A_SIZE.search(name) and not normalised(name).startswith("request")]


@dataclass(frozen=True, slots=True)
class TimeField:
    """Where a log has the time, and in which unit if it is a number."""

    names: tuple[str, ...]  # one, or those of date and time
    unit: str = ""  # a key of UNITS_NS; empty: as the first row shows


def time_field(written: str) -> TimeField:
    """Return what `when`, `t:ms` or `date+time` says of the time."""
    name, colon, unit = written.rpartition(":")
    if not colon or unit not in UNITS_NS:
        name, unit = written, ""
    parts = tuple(name.split("+"))
    return TimeField(parts if all(parts) else (name,), unit)


def check_names(names: FieldNames) -> None:
    """Raise an `InvalidSettingError` if there is no such field, or a name is empty."""
    for field, name in names.items():
        if field not in FIELDS:
            raise InvalidSettingError(f"field {field!r}: expected one of {', '.join(FIELDS)}")
        if not name:
            raise InvalidSettingError(f"field {field!r}: expected the name or the number of a column")


def name_in(value: bytes, kind: KeyKind, bucket: bytes = b"") -> bytes | None:
    """Return the object that a field names; None if the request is not a GET, or for no object.

    Raises:
        BadRowError: The field is empty.
    """
    if not value:
        if kind in (KeyKind.OBJECT, KeyKind.REQUEST):  # of another thing; a client that sent nothing
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
def counts(status: bytes) -> bool:
    """Return whether a status, as JSON and tables have it, is of a request that counts; none at all is.

    Raises:
        BadRowError: The status is no number of three digits, nor one of those for a client that left early.
    """
    status = status.removesuffix(b".0")
    return not status or (status not in _NO_ANSWER and is_served(status))


@lru_cache(maxsize=256)
def is_get(method: bytes) -> bool:
    """Return whether a method, or the operation of a store, reads an object."""
    return method.upper().replace(b"_", b"") in _GETS
