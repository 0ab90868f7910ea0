"""Signatures of requests: AWS Signature Version 4, verified as S3 verifies it.

A request is signed in its Authorization header, or in its query (a presigned URL). The path is not normalised and is
encoded once. A client that signs the path or the query as it sends it, instead of in canonical form, is accepted too:
both forms decode to the same key and parameters.
"""

from __future__ import annotations

import calendar
import hashlib
import hmac
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import NamedTuple, TypeVar
from urllib.parse import quote_from_bytes, unquote_to_bytes

from burstcache.adapters.clock import Clock
from burstcache.gateway.s3_errors import S3Error

UNSIGNED = "UNSIGNED-PAYLOAD"
SIGNED_CHUNKS = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"
SIGNED_CHUNKS_TRAILER = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER"
UNSIGNED_CHUNKS_TRAILER = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"

_ALGORITHM = b"AWS4-HMAC-SHA256"
_SIGV4A = b"AWS4-ECDSA-P256-SHA256"
_MAX_EXPIRES_S = 7 * 24 * 3600
_MAX_CACHED = 1024
_BLOCK_BYTES = 64  # of SHA-256
_INNER, _OUTER = (bytes(byte ^ pad for byte in range(256)) for pad in (0x36, 0x5C))
_UNRESERVED = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~"
_UNRESERVED_IN_PATH = _UNRESERVED + b"/"
_BAD_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")
SHA256_HEX = re.compile(rb"[0-9A-Fa-f]{64}")
_TIMESTAMP = re.compile(rb"[0-9]{8}T(?:[01][0-9]|2[0-3])[0-5][0-9][0-5][0-9]Z")
_HEADER_NAMES = re.compile(rb"[!#$%&'*+\-.^_`|~0-9a-z]+(?:;[!#$%&'*+\-.^_`|~0-9a-z]+)*")
_PAYLOADS = frozenset(
    name.encode() for name in (UNSIGNED, SIGNED_CHUNKS, SIGNED_CHUNKS_TRAILER, UNSIGNED_CHUNKS_TRAILER)
)
_USUAL_PAYLOADS = _PAYLOADS | {hashlib.sha256().hexdigest().encode()}
Header = tuple[bytes, bytes]
_K = TypeVar("_K")
_V = TypeVar("_V")
_Pairs = list[tuple[bytes, bytes]]


class SignatureError(S3Error):
    """A request, or its body, is not signed as S3 requires."""


@dataclass(frozen=True, slots=True)
class Secret:
    """The secret of an access key. A temporary one has a session token, and may have an end [us since the epoch]."""

    secret_key: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)
    expires_us: int | None = None


class SigningKey:
    """The key that signs for an access key on one day in one region, with the HMAC of its padded key prepared.

    `hmac` initialises OpenSSL's HMAC each time, which takes longer than the hash.
    """

    __slots__ = ("_inner", "_outer")

    def __init__(self, secret_key: str, date: bytes, region: bytes) -> None:
        """Derive the key."""
        key = b"AWS4" + secret_key.encode()
        for part in (date, region, b"s3", b"aws4_request"):
            key = hmac.digest(key, part, "sha256")
        padded = key.ljust(_BLOCK_BYTES, b"\0")
        self._inner, self._outer = hashlib.sha256(padded.translate(_INNER)), hashlib.sha256(padded.translate(_OUTER))

    def sign(self, text: bytes) -> bytes:
        """Return the signature of a string to sign, in hexadecimal."""
        inner, outer = self._inner.copy(), self._outer.copy()
        inner.update(text)
        outer.update(inner.digest())
        return outer.hexdigest().encode()


class Signature(NamedTuple):
    """A verified signature.

    Attributes:
        access_key: The access key that signed.
        is_presigned: The signature is in the query.
        signed_headers: Names of the signed headers, sorted.
        payload: The value of x-amz-content-sha256: a digest, or one of this module's constants.
        signing_key: The key that signs the body's chunks.
        timestamp: The time of the signature, such as 20130524T000000Z.
        scope: The scope of the signature, such as 20130524/us-east-1/s3/aws4_request.
        seed: The signature in hexadecimal, which the first chunk's signature includes.
        version: The signature's version, as S3's access logs name it.
    """

    access_key: str
    is_presigned: bool
    signed_headers: tuple[bytes, ...]
    payload: str
    signing_key: SigningKey
    timestamp: bytes
    scope: bytes
    seed: bytes
    version: str = "SigV4"


class ReceivedRequest(NamedTuple):
    """A request as received. The query is split into pairs, and the values of repeated headers are joined."""

    method: bytes
    path: bytes
    pairs: _Pairs
    values: dict[bytes, bytes]


class _Claim(NamedTuple):
    """An unverified claim: the signer, the scope and the signed headers, the same in many requests."""

    access_key: str
    date: bytes
    region: bytes
    scope: bytes
    names: tuple[bytes, ...]
    name_set: frozenset[bytes]
    tail: bytes  # of the canonical request, to be formatted with the values of the headers and the payload


class _Claimed(NamedTuple):
    """The unverified signature of one request."""

    is_presigned: bool
    payload: bytes
    timestamp: bytes
    signature: bytes


class SignatureVerifier:
    """Verifier of requests' signatures. Its secrets must be looked up without I/O that blocks an event loop."""

    def __init__(
        self,
        secrets: Callable[[str], Secret | None],
        clock: Clock,
        *,
        max_skew_s: int = 900,
        region: str | None = None,
    ) -> None:
        """Set the secrets and limits.

        Args:
            secrets: Return the secret of an access key, or None if the key is unknown.
            clock: Clock that the signatures' times are compared with.
            max_skew_s: The largest accepted difference between a client's clock and this one.
            region: The only accepted region. None: any.
        """
        self._secrets = secrets
        self._clock = clock
        self._max_skew_s = max_skew_s
        self._region = region.encode() if region is not None else None
        # Only verified signatures enter these, so a stranger cannot fill them.
        self._claims: dict[bytes, _Claim] = {}
        self._keys: dict[tuple[str, bytes, bytes], tuple[str, SigningKey]] = {}

    def verify(self, method: bytes, target: bytes, headers: Sequence[Header]) -> Signature:
        """Verify a request's signature.

        Args:
            method: The method, such as GET.
            target: Path and query exactly as received.
            headers: Names in lower case, and values as received.

        Raises:
            SignatureError: The request is not signed, or not by a known key, not now, or not in this form.
        """
        request = received_request(method, target, headers)
        authorization = request.values.get(b"authorization")
        if authorization is None:
            return self._verify_query(request)
        return self._verify_header(request, authorization)

    def _verify_header(self, request: ReceivedRequest, authorization: bytes) -> Signature:
        values = request.values
        if request.pairs:
            check_single_mechanism(request)
        prefix, _, signature = authorization.rpartition(b"Signature=")
        claim = self._claims.get(prefix)
        is_new = claim is None
        if claim is None:
            claim, signature = self._parse_header(authorization)
        timestamp, at_s = header_time(values)
        if timestamp[:8] != claim.date:
            raise _malformed(
                f'Invalid credential date "{_text(claim.date)}". This date is not the same as X-Amz-Date: '
                f'"{_text(timestamp[:8])}".'
            )
        now_us = self._clock.now_us()
        check_skew(timestamp, at_s, now_us, self._max_skew_s)
        payload = values.get(b"x-amz-content-sha256")
        if payload is None:
            raise SignatureError("InvalidRequest", "Missing required header for this request: x-amz-content-sha256")
        secret = find_secret(self._secrets, claim.access_key, values.get(b"x-amz-security-token"), now_us)
        result = self._compare(request, claim, secret, _Claimed(False, payload, timestamp, signature))
        if is_new and authorization.endswith(signature):
            _put_bounded(self._claims, prefix, claim)
        return result

    def _verify_query(self, request: ReceivedRequest) -> Signature:
        values = request.values
        parameters: dict[bytes, bytes] = {}
        for name, value in request.pairs:
            if name in _AUTH_PARAMETERS:
                if name in parameters:
                    raise _malformed_query(f"{_text(name)} must be given once")
                parameters[name] = unquote_to_bytes(value)
        if b"X-Amz-Algorithm" not in parameters:
            raise SignatureError("AccessDenied", "Access Denied. The request is not signed.")
        algorithm = parameters[b"X-Amz-Algorithm"]
        if algorithm == _SIGV4A:
            raise _asymmetric()
        if algorithm != _ALGORITHM:
            raise _malformed_query('X-Amz-Algorithm only supports "AWS4-HMAC-SHA256"')
        if missing := [_text(name) for name in _QUERY_AUTH if name not in parameters]:
            raise _malformed_query(
                "Query-string authentication version 4 requires the X-Amz-Algorithm, X-Amz-Credential, "
                f"X-Amz-Signature, X-Amz-Date, X-Amz-SignedHeaders, and X-Amz-Expires parameters. "
                f"Missing: {', '.join(missing)}"
            )
        claim = self._parse_claim(parameters[b"X-Amz-Credential"], parameters[b"X-Amz-SignedHeaders"], _malformed_query)
        timestamp = parameters[b"X-Amz-Date"]
        if (at_s := _epoch_s(timestamp)) is None:
            raise _malformed_query("X-Amz-Date must be in the ISO8601 Long Format \"yyyyMMdd'T'HHmmss'Z'\"")
        if timestamp[:8] != claim.date:
            raise _malformed_query(
                f'Invalid credential date "{_text(claim.date)}". This date is not the same as X-Amz-Date: '
                f'"{_text(timestamp[:8])}".'
            )
        now_us = self._clock.now_us()
        self._check_expiry(parameters[b"X-Amz-Expires"], at_s, now_us / 1e6)
        # A header that is present but unsigned is refused with the other x-amz-* headers below.
        payload = parameters.get(b"X-Amz-Content-Sha256") or values.get(b"x-amz-content-sha256") or UNSIGNED.encode()
        token = parameters.get(b"X-Amz-Security-Token", values.get(b"x-amz-security-token"))
        secret = find_secret(self._secrets, claim.access_key, token, now_us)
        signed = [pair for pair in request.pairs if pair[0] != b"X-Amz-Signature"]
        claimed = _Claimed(True, payload, timestamp, parameters[b"X-Amz-Signature"])
        return self._compare(request._replace(pairs=signed), claim, secret, claimed)

    def _check_expiry(self, expires: bytes, at_s: float, now_s: float) -> None:
        if not re.fullmatch(rb"-?[0-9]{1,18}", expires):
            raise _malformed_query("X-Amz-Expires should be a number")
        expires_s = int(expires)
        if expires_s < 1:
            raise _malformed_query("X-Amz-Expires must be positive")
        if expires_s > _MAX_EXPIRES_S:
            raise _malformed_query(
                "X-Amz-Expires must be less than a week (in seconds); that is, the given X-Amz-Expires must be less "
                f"than {_MAX_EXPIRES_S} seconds"
            )
        if at_s > now_s + self._max_skew_s:
            raise SignatureError("AccessDenied", "Request is not valid yet")
        if now_s > at_s + expires_s:
            raise SignatureError("AccessDenied", "Request has expired", [("X-Amz-Expires", str(expires_s))])

    def _parse_header(self, authorization: bytes) -> tuple[_Claim, bytes]:
        algorithm, _, rest = authorization.partition(b" ")
        if algorithm == _SIGV4A:
            raise _asymmetric()
        if algorithm != _ALGORITHM:
            raise SignatureError("InvalidArgument", "Unsupported Authorization Type")
        fields: dict[bytes, bytes] = {}
        for part in rest.split(b","):
            name, equals, value = part.strip().partition(b"=")
            if not equals or name in fields:
                raise _malformed("The authorization header is malformed; every component is given once as Name=Value.")
            fields[name] = value
        for name in (b"Credential", b"SignedHeaders", b"Signature"):
            if not fields.get(name):
                raise _malformed(f"The authorization header is malformed; missing {_text(name)}.")
        return self._parse_claim(fields[b"Credential"], fields[b"SignedHeaders"], _malformed), fields[b"Signature"]

    def _parse_claim(self, credential: bytes, signed_headers: bytes, refuse: Callable[[str], SignatureError]) -> _Claim:
        parts = credential.rsplit(b"/", 4)
        if len(parts) != 5 or not parts[0] or not re.fullmatch(rb"[0-9]{8}", parts[1]) or not parts[2]:
            raise refuse(
                'The Credential is malformed; expecting "<YOUR-AKID>/YYYYMMDD/REGION/SERVICE/aws4_request", got '
                f'"{_text(credential)}".'
            )
        access_key, date, region, service, ending = parts
        if service == b"s3express":
            raise refuse('Sessions of S3 Express are not verified here. Sign for the service "s3".')
        if service != b"s3":
            raise refuse(f'The Credential has the service "{_text(service)}". This service is "s3".')
        if ending != b"aws4_request":
            raise refuse(f'The Credential ends with "{_text(ending)}"; expecting "aws4_request".')
        if self._region is not None and region != self._region:
            raise refuse(f"The region '{_text(region)}' is wrong; expecting '{_text(self._region)}'")
        if not _HEADER_NAMES.fullmatch(signed_headers):
            raise refuse("SignedHeaders must be names in lower case, separated by semicolons.")
        names = tuple(sorted(set(signed_headers.split(b";"))))
        if b"host" not in names:
            raise refuse("SignedHeaders must include host.")
        scope = b"/".join(parts[1:])
        lines = b"".join([name.replace(b"%", b"%%") + b":%b\n" for name in names])
        tail = lines + b"\n" + b";".join(names).replace(b"%", b"%%") + b"\n%b"
        return _Claim(_text(access_key), date, region, scope, names, frozenset(names), tail)

    def _compare(self, request: ReceivedRequest, claim: _Claim, secret: Secret, claimed: _Claimed) -> Signature:
        """Compare the signature with the expected one, of the canonical request or of the request as received."""
        payload = claimed.payload
        if payload not in _USUAL_PAYLOADS and not SHA256_HEX.fullmatch(payload):
            raise invalid_payload(payload)
        _check_signed(claim, request.values, claimed.is_presigned)
        cached_as = claim.access_key, claim.date, claim.region
        key_of, key = self._keys.get(cached_as, _NO_KEY)
        if key is None or key_of != secret.secret_key:
            key = SigningKey(secret.secret_key, claim.date, claim.region)
        tail = _canonical_tail(claim, request.values, payload)
        before = b"%b\n%b\n%b\n" % (_ALGORITHM, claimed.timestamp, claim.scope)
        first = b""
        for canonical in _canonical_requests(request, tail):
            text = before + hashlib.sha256(canonical).hexdigest().encode()
            if hmac.compare_digest(key.sign(text), claimed.signature):
                break
            first = first or canonical
        else:
            text = before + hashlib.sha256(first).hexdigest().encode()
            raise mismatch(claim.access_key, text, claimed.signature, [("CanonicalRequest", _text(first))])
        if key_of != secret.secret_key:
            _put_bounded(self._keys, cached_as, (secret.secret_key, key))
        return Signature(
            claim.access_key,
            claimed.is_presigned,
            claim.names,
            payload.decode(),
            key,
            claimed.timestamp,
            claim.scope,
            claimed.signature,
        )


_NO_KEY: tuple[str | None, SigningKey | None] = None, None
_QUERY_AUTH = (b"X-Amz-Credential", b"X-Amz-Date", b"X-Amz-Expires", b"X-Amz-SignedHeaders", b"X-Amz-Signature")
_AUTH_PARAMETERS = frozenset(
    {
        *_QUERY_AUTH,
        b"X-Amz-Algorithm",
        b"X-Amz-Content-Sha256",
        b"X-Amz-Security-Token",
    }
)
_OTHER_MECHANISMS = frozenset({b"X-Amz-Algorithm", b"X-Amz-Signature", b"AWSAccessKeyId", b"Signature"})


def received_request(method: bytes, target: bytes, headers: Sequence[Header]) -> ReceivedRequest:
    """Return a request as a verifier needs it.

    Raises:
        SignatureError: The target is not a path with a query.
    """
    values: dict[bytes, bytes] = {}
    for name, value in headers:
        if name in values:
            value = _trim(values[name]) + b"," + _trim(value)
        values[name] = value
    path, _, query = target.partition(b"?")
    if not path.startswith(b"/") or b"#" in target or (b"%" in target and _BAD_ESCAPE.search(target)):
        raise SignatureError("InvalidURI", "Couldn't parse the specified URI.")
    return ReceivedRequest(method, path, _pairs(query) if query else [], values)


def check_single_mechanism(request: ReceivedRequest) -> None:
    """Check that a request with an Authorization header has no signature in its query."""
    if not _OTHER_MECHANISMS.isdisjoint(name for name, _ in request.pairs):
        raise SignatureError(
            "InvalidArgument",
            "Only one auth mechanism allowed; only the X-Amz-Algorithm query parameter, Signature query string "
            "parameter or the Authorization header should be specified",
        )


def time_in_error(at_s: float) -> str:
    """Return a time as S3's errors write it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at_s))


def check_skew(timestamp: bytes, at_s: float, now_us: int, max_skew_s: int) -> None:
    """Check that the time of a signature is close to this machine's."""
    if abs(now_us / 1e6 - at_s) > max_skew_s:
        raise SignatureError(
            "RequestTimeTooSkewed",
            "The difference between the request time and the current time is too large.",
            [
                ("RequestTime", _text(timestamp)),
                ("ServerTime", time_in_error(now_us / 1e6)),
                ("MaxAllowedSkewMilliseconds", str(max_skew_s * 1000)),
            ],
        )


def find_secret(
    secrets: Callable[[str], Secret | None], access_key: str, session_token: bytes | None, now_us: int
) -> Secret:
    """Return the secret of an access key, if the session token belongs to it and it is not expired."""
    secret, token = secrets(access_key), _optional_text(session_token)
    if secret is None or (secret.session_token is not None and token is None):
        raise SignatureError(
            "InvalidAccessKeyId",
            "The AWS Access Key Id you provided does not exist in our records.",
            [("AWSAccessKeyId", access_key)],
        )
    if token is not None or secret.session_token is not None:
        expected, given = (secret.session_token or "").encode(), (token or "").encode()
        if not expected or not hmac.compare_digest(expected, given):
            raise SignatureError(
                "InvalidToken",
                "The provided token is malformed or otherwise invalid.",
                [("AWSAccessKeyId", access_key)],
            )
    if secret.expires_us is not None and now_us >= secret.expires_us:
        raise SignatureError("ExpiredToken", "The provided token has expired.", [("AWSAccessKeyId", access_key)])
    return secret


def mismatch(
    access_key: str, string_to_sign: bytes, signature: bytes, details: Sequence[tuple[str, str]] = ()
) -> SignatureError:
    """Return the error of a wrong signature, with the string that the client should have signed."""
    return SignatureError(
        "SignatureDoesNotMatch",
        "The request signature we calculated does not match the signature you provided. Check your key and signing "
        "method.",
        [
            ("AWSAccessKeyId", access_key),
            ("StringToSign", _text(string_to_sign)),
            ("SignatureProvided", _text(signature)),
            *details,
        ],
    )


def _canonical_requests(request: ReceivedRequest, tail: bytes) -> Iterator[bytes]:
    """Yield the canonical request, then the requests that a client may have signed as it sent them."""
    method, path, pairs, _ = request
    paths = [encode_path(path)]
    queries = [_query(_encode_pair(name, value) for name, value in pairs)] if pairs else [b""]
    yield b"%b\n%b\n%b\n%b" % (method, paths[0], queries[0], tail)
    if path != paths[0]:
        paths.append(path)
    if pairs and (received := _query(pairs)) != queries[0]:
        queries.append(received)
    for number, (other_path, other_query) in enumerate((p, q) for p in paths for q in queries):
        if number > 0:
            yield b"%b\n%b\n%b\n%b" % (method, other_path, other_query, tail)


def _canonical_tail(claim: _Claim, values: dict[bytes, bytes], payload: bytes) -> bytes:
    """Return the canonical request from the signed headers on."""
    try:
        trimmed = [b" ".join(values[name].split()) for name in claim.names]
    except KeyError as error:
        name = _text(error.args[0])
        raise SignatureError("SignatureDoesNotMatch", f"The signed header {name} is not in the request.") from None
    return claim.tail % (*trimmed, payload)


def _check_signed(claim: _Claim, values: dict[bytes, bytes], is_presigned: bool) -> None:
    """Check that every x-amz-* header is signed. A canonical request ends with x-amz-content-sha256 in any case."""
    unsigned = [name for name in values if name not in claim.name_set and name.startswith(b"x-amz-")]
    if unsigned and (is_presigned or unsigned != [b"x-amz-content-sha256"]):
        raise SignatureError(
            "AccessDenied",
            "There were headers present in the request which were not signed",
            [("HeadersNotSigned", ", ".join(map(_text, unsigned)))],
        )


def header_time(values: dict[bytes, bytes]) -> tuple[bytes, int]:
    """Return the time of a request signed in its header, as in the string to sign and in seconds since the epoch."""
    timestamp = values.get(b"x-amz-date")
    if timestamp is None:
        timestamp = _trim(values.get(b"date", b""))
        with suppress(TypeError, ValueError):
            date = parsedate_to_datetime(_text(timestamp))  # botocore writes -0000, and not GMT as HTTP does
            date = date if date.tzinfo is None else date.astimezone(UTC)
            timestamp = date.strftime("%Y%m%dT%H%M%SZ").encode()
    if (at_s := _epoch_s(timestamp)) is None:
        raise SignatureError("AccessDenied", "AWS authentication requires a valid Date or x-amz-date header")
    return timestamp, at_s


@lru_cache(1024)  # a busy second has many requests
def _epoch_s(timestamp: bytes) -> int | None:
    """Return the seconds since the epoch of a timestamp, or None if it is malformed."""
    if not _TIMESTAMP.fullmatch(timestamp):
        return None
    try:
        return calendar.timegm(time.strptime(timestamp.decode(), "%Y%m%dT%H%M%SZ"))
    except ValueError:  # a day that does not exist
        return None


def _pairs(query: bytes) -> _Pairs:
    """Split a query into names and values as received. Empty parts carry nothing."""
    pairs = []
    for part in query.split(b"&"):
        if part:
            name, _, value = part.partition(b"=")
            pairs.append((name, value))
    return pairs


def _query(pairs: Iterable[tuple[bytes, bytes]]) -> bytes:
    return b"&".join([b"%b=%b" % pair for pair in sorted(pairs)])


def encode_path(path: bytes) -> bytes:
    """Return the path in canonical form: decoded, and encoded once."""
    if not path.translate(None, _UNRESERVED_IN_PATH):
        return path
    return quote_from_bytes(unquote_to_bytes(path), safe="/").encode()


def _encode_pair(name: bytes, value: bytes) -> tuple[bytes, bytes]:
    return _encode_parameter(name), _encode_parameter(value)


def _encode_parameter(text: bytes) -> bytes:
    """Return a name or value of the query in canonical form. A plus sign is a space."""
    if not text.translate(None, _UNRESERVED):
        return text
    return quote_from_bytes(unquote_to_bytes(text.replace(b"+", b" ")), safe="").encode()


def _trim(value: bytes) -> bytes:
    return b" ".join(value.split())


def _text(value: bytes) -> str:
    return value.decode("utf-8", "backslashreplace")


def _optional_text(value: bytes | None) -> str | None:
    return None if value is None else _text(_trim(value))


def _put_bounded(cache: dict[_K, _V], key: _K, value: _V) -> None:
    if len(cache) >= _MAX_CACHED:
        cache.clear()
    cache[key] = value


def _malformed(message: str) -> SignatureError:
    return SignatureError("AuthorizationHeaderMalformed", message)


def _malformed_query(message: str) -> SignatureError:
    return SignatureError("AuthorizationQueryParametersError", message)


def invalid_payload(payload: bytes) -> SignatureError:
    """Return the error of an unknown value of x-amz-content-sha256."""
    if payload.startswith(b"STREAMING-AWS4-ECDSA"):
        return _asymmetric()
    return SignatureError(
        "InvalidArgument",
        f"x-amz-content-sha256 must be {', '.join(sorted(map(_text, _PAYLOADS)))}, or a valid sha256 value.",
        [("ArgumentName", "x-amz-content-sha256"), ("ArgumentValue", _text(payload))],
    )


def _asymmetric() -> SignatureError:
    return SignatureError(
        "InvalidRequest",
        "The authorization mechanism you have provided (Signature Version 4A, AWS4-ECDSA-P256-SHA256) is not "
        "supported. Please use AWS4-HMAC-SHA256.",
    )
