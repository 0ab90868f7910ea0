"""S3 itself: the correct answer to a GET or HEAD, moto's answer, and the differences between the two.

The correct answer follows RFC 9110. Where the RFC leaves a choice, it follows recordings of S3: LocalStack's snapshots
of AWS (its tests get_object_range and s3_get_object_preconditions) and the tables that test Versity's gateway
(GetObject_with_range, GetObject_conditional_reads, GetObject_zero_len_with_range).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import TYPE_CHECKING, Any, TypeVar

from botocore.exceptions import ClientError
from hypothesis import strategies as st

if TYPE_CHECKING:
    from types_boto3_s3.client import S3Client

T = TypeVar("T")

_OF_THE_OBJECT = (
    *("etag", "last-modified", "content-type", "content-encoding", "content-language", "content-disposition"),
    *("content-length", "content-range", "cache-control", "expires", "accept-ranges"),
)
# RFC 9110, section 15.4.5: the headers that a 304 repeats.
_OF_A_304 = ("etag", "last-modified", "cache-control", "expires")
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


@dataclass(frozen=True)
class Stored:
    """Object in S3: its bytes and the headers of a whole read."""

    body: bytes
    headers: Mapping[str, str]

    @property
    def etag(self) -> str:
        return self.headers["etag"]

    @property
    def modified(self) -> datetime:
        return datetime.strptime(self.headers["last-modified"], "%a, %d %b %Y %H:%M:%S GMT").replace(tzinfo=UTC)


@dataclass(frozen=True)
class Answer:
    """Comparable answer: status, the object's headers, body. Errors' headers and bodies are the front door's own."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    @classmethod
    def of(cls, status: int, headers: Mapping[str, str], body: bytes) -> Answer:
        """Return the comparable parts of an answer."""
        if status == 304:
            return cls(status, {name: headers[name] for name in _OF_A_304 if name in headers})
        if status == 416:
            return cls(status, {"content-range": headers.get("content-range", "")})
        if status not in (200, 206):
            return cls(status)
        kept = {
            name: value for name, value in headers.items() if name in _OF_THE_OBJECT or name.startswith("x-amz-meta-")
        }
        return cls(status, kept, body)


@dataclass(frozen=True)
class Tag:
    """Entity tag as a client writes it: the object's own or another."""

    is_own: bool
    is_weak: bool = False
    is_bare: bool = False  # without quotes, which S3 also accepts

    def text(self, etag: str) -> str:
        text = etag if self.is_own else '"other, tag"'
        return text.strip('"') if self.is_bare else f"W/{text}" if self.is_weak else text


@dataclass(frozen=True)
class Tags:
    """Value of If-Match or If-None-Match: any tag (`*`) or a list."""

    listed: tuple[Tag, ...] = ()
    between: str = ","

    def text(self, etag: str) -> str:
        return self.between.join(tag.text(etag) for tag in self.listed) or "*"

    def match(self, *, weakly: bool) -> bool:
        """Return whether a tag matches the object, by weak or strong comparison (RFC 9110, section 8.8.3.2)."""
        return not self.listed or any(tag.is_own and (weakly or not tag.is_weak) for tag in self.listed)

    @property
    def is_plain(self) -> bool:
        """Return whether the value is one strong, quoted tag."""
        return self.listed in ((Tag(is_own=True),), (Tag(is_own=False),))


@dataclass(frozen=True)
class Date:
    """HTTP date relative to the object's; with `no_date`, a malformed one."""

    after_s: int = 0
    form: int = 0  # of RFC 9110, section 5.6.7: 0 preferred, 1 RFC 850's, 2 asctime's
    no_date: str | None = None

    def text(self, modified: datetime) -> str:
        at = modified + timedelta(seconds=self.after_s)
        if self.no_date is not None:
            return self.no_date
        if self.form == 1:
            return f"{_WEEKDAYS[at.weekday()]}, {at:%d-%b-%y %H:%M:%S} GMT"
        return at.strftime("%a %b %e %H:%M:%S %Y") if self.form == 2 else format_datetime(at, usegmt=True)


@dataclass(frozen=True)
class Range:
    """Range header and the one range it means. None: recordings show that S3 ignores it."""

    text: str
    means: tuple[int | None, int | None] | None = None

    def part(self, size_bytes: int) -> slice | None:
        """Return the requested part of an object, or None if no byte of it exists (RFC 9110, section 14.1.2)."""
        assert self.means is not None
        first, last = self.means
        if first is None:
            return slice(max(0, size_bytes - (last or 0)), size_bytes) if last else None
        end = size_bytes if last is None else min(last + 1, size_bytes)
        return slice(first, end) if first < size_bytes else None


@dataclass(frozen=True)
class S3Request:
    """GET or HEAD of an object."""

    method: str = "GET"
    range: Range | None = None
    if_match: Tags | None = None
    if_none_match: Tags | None = None
    if_modified_since: Date | None = None
    if_unmodified_since: Date | None = None
    if_range: Tag | Date | None = None

    def headers(self, stored: Stored) -> dict[str, str]:
        """Return the request's headers, names in lower case."""
        headers = {} if self.range is None else {"range": self.range.text}
        for name in ("if_match", "if_none_match"):
            if (tags := getattr(self, name)) is not None:
                headers[name.replace("_", "-")] = tags.text(stored.etag)
        for name in ("if_modified_since", "if_unmodified_since"):
            if (date := getattr(self, name)) is not None:
                headers[name.replace("_", "-")] = date.text(stored.modified)
        if self.if_range is not None:
            is_tag = isinstance(self.if_range, Tag)
            headers["if-range"] = self.if_range.text(stored.etag if is_tag else stored.modified)  # type: ignore[arg-type]
        return headers


def right_answer(request: S3Request, stored: Stored, *, now: datetime) -> Answer:
    """Return S3's correct answer, by RFC 9110, section 13.2.2."""
    if request.if_match is not None:
        if not request.if_match.match(weakly=False):
            return Answer(412)
    elif (date := request.if_unmodified_since) is not None and date.no_date is None and date.after_s < 0:
        return Answer(412)
    if request.if_none_match is not None:
        if request.if_none_match.match(weakly=True):
            return Answer.of(304, stored.headers, b"")
    elif request.if_modified_since is not None and _is_unmodified(request.if_modified_since, now - stored.modified):
        return Answer.of(304, stored.headers, b"")
    whole = Answer(200, stored.headers, stored.body if request.method == "GET" else b"")
    if request.range is None or request.range.means is None or not _range_applies(request.if_range):
        return whole
    size_bytes = len(stored.body)
    if (part := request.range.part(size_bytes)) is None:
        return Answer(416, {"content-range": f"bytes */{size_bytes}"})
    if not size_bytes:  # the last bytes of an empty object: Versity's `GetObject_zero_len_with_range`
        return whole
    cut = {"content-range": f"bytes {part.start}-{part.stop - 1}/{size_bytes}"}
    cut["content-length"] = str(part.stop - part.start)
    return Answer(206, {**stored.headers, **cut}, stored.body[part] if request.method == "GET" else b"")


def _is_unmodified(since: Date, age: timedelta) -> bool:
    """Return whether If-Modified-Since yields a 304. S3 ignores a future date: `obj-ignore-future-modified-since`."""
    return since.no_date is None and 0 <= since.after_s <= max(0.0, age.total_seconds())


def _range_applies(condition: Tag | Date | None) -> bool:
    """Return whether If-Range permits the range (RFC 9110, section 13.1.5): a strong match or the same date."""
    if isinstance(condition, Tag):
        return condition.is_own and not condition.is_weak
    return condition is None or (condition.no_date is None and condition.after_s == 0)


class Moto:
    """Client of moto's S3 that sends any headers, including those that botocore would reject."""

    def __init__(self, s3: S3Client, bucket: str) -> None:
        self._s3, self._bucket, self._headers = s3, bucket, dict[str, str]()
        s3.meta.events.register("before-sign.s3", self._add)

    def close(self) -> None:
        """Restore the client."""
        self._s3.meta.events.unregister("before-sign.s3", self._add)

    def stored(self, key: str) -> Stored:
        """Return the whole object."""
        whole = self.answer(key, "GET", {})
        return Stored(whole.body, whole.headers)

    def answer(self, key: str, method: str, headers: Mapping[str, str]) -> Answer:
        """Return moto's answer, or a 500 if moto fails."""
        self._headers = dict(headers)
        try:
            return self._answer(key, method)
        except ValueError:  # moto's parsers do not catch it
            return Answer(500)
        finally:
            self._headers = {}

    def _answer(self, key: str, method: str) -> Answer:
        found: Any
        try:
            found = (self._s3.get_object if method == "GET" else self._s3.head_object)(Bucket=self._bucket, Key=key)
        except ClientError as error:
            found = error.response
        body = found["Body"].read() if "Body" in found else b""
        status, headers = found["ResponseMetadata"]["HTTPStatusCode"], found["ResponseMetadata"]["HTTPHeaders"]
        if status == 416:  # S3 puts the size into the error's body; RFC 9110, section 15.5.17, has a header for it
            size = found["Error"].get("ActualObjectSize")
            headers = {"content-range": f"bytes */{size}"} if size else {}
        return Answer.of(status, headers, body)

    def _add(self, request: Any, **_: object) -> None:
        for name, value in self._headers.items():
            request.headers[name] = value


@dataclass(frozen=True)
class Difference:
    """Known error of moto: the violated rule, the requests it applies to, and an example."""

    rule: str
    applies: Callable[[S3Request], bool]
    example: S3Request


_OWN, _OTHER = Tag(is_own=True), Tag(is_own=False)
_DAY_S = 24 * 3600


def _is_future(date: Date | None) -> bool:
    return date is not None and date.no_date is None and date.after_s >= _DAY_S


def _is_no_date(date: Date | None) -> bool:
    return date is not None and (date.no_date is not None or date.form != 0)


# Where a rule names a recording, real S3 was recorded to follow it. There is no recording for the others.
DIFFERENCES = (
    Difference(
        "13.1.1: If-Match takes * for any object (in Versity's table of S3) and a list of tags",
        lambda request: request.if_match is not None and not request.if_match.is_plain,
        S3Request(if_match=Tags()),
    ),
    Difference(
        "13.1.2: so does If-None-Match, compared weakly; tags without quotes in a HEAD (LocalStack's snapshot)",
        lambda request: request.if_none_match is not None and not request.if_none_match.is_plain,
        S3Request(if_none_match=Tags((_OTHER, _OWN))),
    ),
    Difference(
        "13.1.3: If-None-Match takes precedence over If-Modified-Since (S3's API reference, GetObject)",
        lambda request: request.if_none_match is not None and request.if_modified_since is not None,
        S3Request(if_none_match=Tags((_OTHER,)), if_modified_since=Date()),
    ),
    Difference(
        "13.1.4: If-Match takes precedence over If-Unmodified-Since (S3's API reference, GetObject)",
        lambda request: request.if_match is not None and request.if_unmodified_since is not None,
        S3Request(if_match=Tags((_OWN,)), if_unmodified_since=Date(-1)),
    ),
    Difference(
        "5.6.7, 13.1.3, 13.1.4: dates have three accepted forms, and malformed dates are ignored",
        lambda request: _is_no_date(request.if_modified_since) or _is_no_date(request.if_unmodified_since),
        S3Request(if_modified_since=Date(no_date="yesterday")),
    ),
    Difference(
        "an If-Modified-Since in the future is ignored (LocalStack's snapshot)",
        lambda request: _is_future(request.if_modified_since),
        S3Request(if_modified_since=Date(_DAY_S)),
    ),
    Difference(
        "13.1.5: If-Range, which S3's API reference does not list",
        lambda request: request.range is not None and request.if_range is not None,
        S3Request(range=Range("bytes=0-0", (0, 0)), if_range=_OTHER),
    ),
    Difference(
        "15.5.17: a 416 to a HEAD has no body, so it cannot name the size",
        lambda request: request.range is not None and request.method == "HEAD",
        S3Request("HEAD", range=Range("bytes=99-", (99, None))),
    ),
)

_POSITIONS = st.integers(0, 20) | st.integers(0, 2_000_000) | st.integers(0, 2**70)
_FORMS = st.sampled_from(["bytes", "Bytes", "BYTES"])


@st.composite
def _ranges(draw: st.DrawFn) -> Range:
    unit, first, length = draw(_FORMS), draw(_POSITIONS), draw(_POSITIONS)
    return draw(
        st.sampled_from(
            [
                Range(f"{unit}={first}-{first + length}", (first, first + length)),
                Range(f"{unit}=00{first}-", (first, None)),
                Range(f"{unit}=-{length}", (None, length)),
            ]
        )
    )


_ODD_RANGES = ["bytes", "bytes=", "bytes=-", "bytes=,", "bytes=0-1,", "bytes=0-1,3-4", "bytes=2-1", "bytes= 0-1"]
_ODD_RANGES += ["bytes=0 -1", "bytes=0--1", "bytes=-1-", "bytes=+1-2", "bytes=1_0-", "bytes:0-1", "0-1", "items=0-1"]
_ODD_RANGES += ["bytes=0-1=", "bytes=0x0-0x1", "=0-1", "bytes=a-b", "bytes==0-1", "bytes=0-1;"]
_WITHOUT_DIGITS = st.text(st.characters(min_codepoint=33, max_codepoint=126, exclude_categories=["Nd"]), min_size=1)
_NO_DATES = ["yesterday", "0", "1795168800", "2026-11-22T10:00:00Z", "Sun, 06 Nov 1994 08:49:37 +0100"]
_NO_DATES += ["Sun, 31 Feb 2026 10:00:00 GMT", "Sun, 06 Nov 1994 08:49:37", "sun, 06 nov 1994 08:49:37 gmt"]


def _maybe(strategy: st.SearchStrategy[T]) -> st.SearchStrategy[T | None]:
    return st.none() | st.none() | strategy


def requests() -> st.SearchStrategy[S3Request]:
    """Return GETs and HEADs with all kinds of ranges and conditions."""
    quoted = st.builds(Tag, is_own=st.booleans(), is_weak=st.booleans())
    tag = quoted | st.just(Tag(is_own=True, is_bare=True))
    listed = st.lists(tag, min_size=1, max_size=4).map(tuple)
    tags = st.just(Tags()) | st.builds(Tags, listed, st.sampled_from([",", ", ", " , ", ",,"]))
    after_s = st.sampled_from([-(10**9), -_DAY_S, -1, 0, 1, _DAY_S, 10 * _DAY_S])
    date = st.builds(Date, after_s, st.sampled_from([0, 0, 1, 2])) | st.sampled_from(_NO_DATES).map(
        lambda text: Date(no_date=text)
    )
    ranges = _ranges() | st.sampled_from(_ODD_RANGES).map(Range) | _WITHOUT_DIGITS.map(lambda text: Range(text.strip()))
    return st.builds(
        S3Request,
        method=st.sampled_from(["GET", "GET", "HEAD"]),
        range=_maybe(ranges),
        if_match=_maybe(tags),
        if_none_match=_maybe(tags),
        if_modified_since=_maybe(date),
        if_unmodified_since=_maybe(date),
        if_range=_maybe(quoted | date),
    )


def parts() -> st.SearchStrategy[S3Request]:
    """Return unconditional GETs of a part. Most of `requests` have a condition that ends the read."""
    return st.builds(S3Request, range=_ranges())


def plain_requests() -> st.SearchStrategy[S3Request]:
    """Return GETs and HEADs without any known difference between moto and S3."""
    tags = _maybe(st.booleans().map(lambda is_own: Tags((Tag(is_own),))))
    dates = _maybe(st.sampled_from([-_DAY_S, -1, 0, 1]).map(Date))
    return st.one_of(
        st.builds(S3Request, if_match=tags, if_none_match=tags, range=_maybe(_ranges())),
        st.builds(S3Request, if_match=tags, if_modified_since=dates, method=st.sampled_from(["GET", "HEAD"])),
        st.builds(S3Request, if_unmodified_since=dates, if_none_match=tags, method=st.sampled_from(["GET", "HEAD"])),
        st.builds(S3Request, if_unmodified_since=dates, if_modified_since=dates, range=_maybe(_ranges())),
    )


def arguments() -> st.SearchStrategy[S3Request]:
    """Return GETs that the client library can express by its arguments, so without malformed dates or ranges."""
    tag = st.builds(Tag, is_own=st.booleans(), is_weak=st.booleans())
    tags = _maybe(st.just(Tags()) | st.lists(tag, min_size=1, max_size=3).map(lambda listed: Tags(tuple(listed))))
    dates = _maybe(st.sampled_from([-_DAY_S, -1, 0, 1]).map(Date))
    return st.builds(
        S3Request,
        range=_maybe(_ranges()),
        if_match=tags,
        if_none_match=tags,
        if_modified_since=dates,
        if_unmodified_since=dates,
    )
