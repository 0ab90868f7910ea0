"""S3 requests as a gateway reads them: bucket, key and query of a request target, and what an operation touches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import quote, unquote, unquote_plus, unquote_to_bytes
from xml.parsers import expat

from burstcache.core.keys import key_hash
from burstcache.gateway.http_messages import HttpRequest
from burstcache.gateway.s3_errors import S3Error

Query = tuple[tuple[str, str], ...]

_SAFE = "/-_.~"
# Query parameters that do not select another object or representation. SDKs name their operation by `x-id`.
_WITHOUT_EFFECT = frozenset({"x-id"})
# Query parameters of a presigned URL. Its others that begin with `x-amz-` are headers that the signer has moved there.
_SIGNATURE = frozenset(
    f"x-amz-{name}"
    for name in (
        "algorithm",
        "content-sha256",
        "credential",
        "date",
        "expires",
        "security-token",
        "signature",
        "signedheaders",
    )
)
_SIGNATURE_V2 = frozenset({"AWSAccessKeyId", "Signature", "Expires"})
_OVERRIDES = frozenset(
    f"response-{name}"
    for name in (
        "cache-control",
        "content-disposition",
        "content-encoding",
        "content-language",
        "content-type",
        "expires",
    )
)
# Headers of a read that the cache respects, and `x-amz-` headers that do not alter the response.
_CONDITIONS = {
    b"if-match": "if-match",
    b"if-none-match": "if-none-match",
    b"if-modified-since": "if-modified-since",
    b"if-unmodified-since": "if-unmodified-since",
    b"cache-control": "cache-control",
}
_HARMLESS = frozenset(
    {
        b"x-amz-api-version",
        b"x-amz-checksum-mode",
        b"x-amz-content-sha256",
        b"x-amz-date",
        b"x-amz-security-token",
        b"x-amz-user-agent",
        b"x-amzn-trace-id",
    }
)
# Subresources whose PUT, POST or DELETE does not change what a GET of the object returns.
_UPLOADS = ("uploadId", "uploads", "select", "attributes", "torrent")
_RENAME_SOURCE = "x-amz-rename-source"


@dataclass(frozen=True, slots=True)
class Target:
    """A bucket, an object in it, or the service.

    Attributes:
        bucket: The bucket. Empty: the service.
        key: The object's key. Empty: the bucket.
        hash: The key's hash, empty without a key.
        query: The decoded query parameters, without those of a signature.
        headers: Headers that a presigned URL has in its query, with names in lower case.
    """

    bucket: str
    key: str
    hash: str
    query: Query
    headers: Query = ()

    @property
    def path(self) -> str:
        """The path in path style, encoded as S3's signatures demand."""
        path = f"/{self.bucket}/{self.key}" if self.key else f"/{self.bucket}"
        return quote(path, safe=_SAFE)

    @property
    def query_text(self) -> str:
        """The query, encoded as S3's signatures demand."""
        return "&".join(f"{quote(name, safe='-_.~')}={quote(value, safe='-_.~')}" for name, value in self.query)

    def has(self, name: str) -> bool:
        """Return True if the query has a parameter with this name."""
        return any(each == name for each, _ in self.query)


class Targets:
    """A parser of request targets in path style and in virtual-host style."""

    def __init__(self, domains: Sequence[str]) -> None:
        """Create the parser.

        Args:
            domains: Names of the gateway. The host `B.DOMAIN` addresses the bucket B.
        """
        self._suffixes = tuple(f".{domain}" for domain in domains)
        self._parse = lru_cache(4096)(parse_target)
        self._bucket_of = lru_cache(256)(self.bucket_of)

    def find(self, request: HttpRequest) -> Target:
        """Return the target of a request.

        Raises:
            S3Error: It is malformed.
        """
        return self._parse(request.target, self._bucket_of(request.header(b"host") or b""))

    def bucket_of(self, host: bytes) -> str:
        """Return the bucket that a Host header names, or the empty string in path style."""
        if not self._suffixes:
            return ""
        name = host_name(host)
        for suffix in self._suffixes:
            if name.endswith(suffix):
                return name.removesuffix(suffix)
        return ""


def host_name(host: bytes) -> str:
    """Return the name in a Host header, without its port and in lower case."""
    text = host.decode("latin-1").lower()
    if text.startswith("["):
        return text.partition("]")[0] + "]"
    return text.partition(":")[0]


def parse_target(target: bytes, bucket: str) -> Target:
    """Parse a request target. `bucket` is the host's bucket, empty in path style.

    Raises:
        S3Error: It is not a path, not UTF-8, or has a key without a bucket.
    """
    if not target.startswith(b"/"):
        scheme, separator, rest = target.partition(b"://")
        if not separator or scheme.lower() not in (b"http", b"https"):
            raise S3Error("InvalidURI", "Couldn't parse the specified URI.")
        target = b"/" + rest.partition(b"/")[2]
    raw_path, _, raw_query = target.partition(b"?")
    path = _decoded(raw_path)
    if not bucket:
        bucket, _, key = path[1:].partition("/")
        if key and not bucket:
            raise S3Error("InvalidBucketName", "The specified bucket is not valid.")
    else:
        key = path[1:]
    pairs, headers = [], []
    for pair in filter(None, raw_query.split(b"&")):
        name, _, value = (_decoded(each) for each in pair.replace(b"+", b" ").partition(b"="))
        if not (lower := name.lower()).startswith("x-amz-"):
            if name not in _SIGNATURE_V2:
                pairs.append((name, value))
        elif lower not in _SIGNATURE:
            headers.append((lower, value))
    return Target(bucket, key, key_hash(key) if key else "", tuple(pairs), tuple(headers))


def _decoded(text: bytes) -> str:
    try:
        return (unquote_to_bytes(text) if b"%" in text else text).decode()
    except UnicodeDecodeError:
        raise S3Error("InvalidURI", "Couldn't parse the specified URI.") from None


@dataclass(frozen=True, slots=True)
class ObjectRead:
    """A GET or HEAD that the cache can answer.

    Attributes:
        conditions: Conditions and `cache-control`, with names in lower case.
        range: The Range header, or None.
        wants_checksum: Whether the client asks for the stored checksum.
        overrides: Headers that replace those of the object, from `response-*`.
        is_plain: Whether it is a read of the whole object, without conditions and overrides.
    """

    conditions: dict[str, str]
    range: str | None
    wants_checksum: bool
    overrides: dict[str, str]
    is_plain: bool = False


_PLAIN = ObjectRead({}, None, False, {}, is_plain=True)
_PLAIN_WITH_CHECKSUM = ObjectRead({}, None, True, {}, is_plain=True)
# Headers of most requests that do not matter here, looked up first.
_USUAL = _HARMLESS - {b"x-amz-checksum-mode"} | {
    b"accept",
    b"accept-encoding",
    b"amz-sdk-invocation-id",
    b"amz-sdk-request",
    b"authorization",
    b"connection",
    b"host",
    b"user-agent",
}


def object_read(request: HttpRequest, target: Target) -> ObjectRead | None:
    """Parse a GET or HEAD of an object. Return None if only S3 can answer it."""
    if target.headers:
        return None
    conditions, range_, wants_checksum, overrides = dict[str, str](), None, False, dict[str, str]()
    for name, value in request.headers:
        if name in _USUAL:
            continue
        if name.startswith(b"x-amz-"):
            if name == b"x-amz-checksum-mode":
                wants_checksum = value.upper() == b"ENABLED"
            elif name not in _HARMLESS:
                return None
        elif name == b"range":
            range_ = value.decode("latin-1")
        elif name in _CONDITIONS:
            conditions[_CONDITIONS[name]] = value.decode("latin-1")
        elif name == b"if-range":
            return None
    for name_, value_ in target.query:
        if name_ in _OVERRIDES and request.method == b"GET":
            if not value_.isprintable() or not value_.isascii():
                return None
            overrides[name_.removeprefix("response-")] = value_
        elif name_ not in _WITHOUT_EFFECT:
            return None
    if not conditions and range_ is None and not overrides:
        return _PLAIN_WITH_CHECKSUM if wants_checksum else _PLAIN
    return ObjectRead(conditions, range_, wants_checksum, overrides)


def changes_object(method: bytes, target: Target) -> bool:
    """Return True if a request may change what a GET or HEAD of its object returns."""
    if not target.key or method in (b"GET", b"HEAD", b"OPTIONS"):
        return False
    if target.has("uploadId"):
        return method == b"POST"  # it completes the upload. PUT uploads a part, and DELETE aborts
    return not any(target.has(name) for name in _UPLOADS)


def changed_keys(request: HttpRequest, target: Target) -> list[str]:
    """Return the keys whose objects a request may change, apart from those that a body names."""
    if not changes_object(request.method, target):
        return []
    keys = [target.key]
    if target.has("renameObject"):
        sources = [value for name, value in request.passed_headers() if name == _RENAME_SOURCE]
        sources += [value for name, value in target.headers if name == _RENAME_SOURCE]
        for source in sources:
            keys += _renamed_keys(source, target.bucket)
    return list(dict.fromkeys(keys))


def _renamed_keys(source: str, bucket: str) -> list[str]:
    """Return the keys that a source of RenameObject may mean: a key, or a path with the bucket.

    Clients write both. A key too many is harmless.
    """
    texts = {unquote(source), unquote_plus(source)}
    texts |= {text.removeprefix("/") for text in texts}
    texts |= {text.removeprefix(f"{bucket}/") for text in texts}
    return sorted(filter(None, texts))


def deletes_many(method: bytes, target: Target) -> bool:
    """Return True for DeleteObjects, whose body names the keys."""
    return method == b"POST" and not target.key and target.has("delete")


def keys_of_deletion(body: bytes) -> list[str]:
    """Return the keys that the XML body of DeleteObjects names.

    Raises:
        S3Error: It is malformed, or has a document type, whose entities could be expanded without end.
    """
    keys, path, text = list[str](), list[str](), list[str]()
    parser = expat.ParserCreate(namespace_separator=" ")

    def start(name: str, _: object) -> None:
        path.append(name.rpartition(" ")[2])
        text.clear()

    def end(_: str) -> None:
        if path == ["Delete", "Object", "Key"]:
            keys.append("".join(text))
        path.pop()

    def refuse(*_: object) -> None:
        raise _malformed_xml()

    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler, parser.StartDoctypeDeclHandler = text.append, refuse
    try:
        parser.Parse(body, True)
    except expat.ExpatError:
        raise _malformed_xml() from None
    return [key for key in keys if key]


def _malformed_xml() -> S3Error:
    return S3Error(
        "MalformedXML",
        "The XML you provided was not well-formed or did not validate against our published schema",
    )
