"""Signature version 2, verified as S3 verifies it: boto3 presigns URLs with it for an endpoint that is not AWS's.

The HMAC-SHA1 of a few headers and of the resource is in the query (a presigned URL) or in the Authorization header.
Version 2 signs neither the host nor the body, and of a query only what selects an operation or a representation. Here
it signs every parameter of a query, except for those of listings and those without an effect. S3's list of signed
parameters is not public, and a parameter that is missing in it could turn a request into another one.

Source:
    Amazon S3 User Guide, "Signing and authenticating REST requests (AWS signature version 2)".
"""

from __future__ import annotations

import hmac
import re
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from urllib.parse import unquote_to_bytes

from burstcache.adapters.clock import Clock
from burstcache.gateway.signatures import (
    SHA256_HEX,
    UNSIGNED,
    UNSIGNED_CHUNKS_TRAILER,
    Header,
    ReceivedRequest,
    Secret,
    Signature,
    SignatureError,
    SigningKey,
    check_single_mechanism,
    check_skew,
    encode_path,
    find_secret,
    header_time,
    invalid_payload,
    mismatch,
    received_request,
    time_in_error,
)

_IN_HEADER = b"AWS "
_IN_QUERY = re.compile(rb"[?&](?:AWSAccessKeyId|Signature)=")
_VERSION_4_IN_QUERY = b"X-Amz-Algorithm="
_QUERY_AUTH = (b"Signature", b"Expires", b"AWSAccessKeyId")
_AMZ_NAME = re.compile(rb"x-amz-[!#$%&'*+\-.^_`|~0-9a-z]+")
_SIGNED_HEADERS = (b"content-md5", b"content-type", b"date")
# Parameters that version 2 does not sign: of listings, and those that signers leave behind.
_UNSIGNED_PARAMETERS = frozenset(
    {
        *_QUERY_AUTH,
        b"content-md5",
        b"content-type",
        b"continuation-token",
        b"delimiter",
        b"encoding-type",
        b"fetch-owner",
        b"key-marker",
        b"list-type",
        b"marker",
        b"max-keys",
        b"max-parts",
        b"max-uploads",
        b"part-number-marker",
        b"prefix",
        b"start-after",
        b"upload-id-marker",
        b"version-id-marker",
        b"x-id",
    }
)
_UNSIGNED_PAYLOADS = (UNSIGNED.encode(), UNSIGNED_CHUNKS_TRAILER.encode())
_NO_KEY = SigningKey("", b"", b"")  # version 2 signs no chunks


def is_version_2(target: bytes, authorization: bytes | None) -> bool:
    """Return True if a request has a signature of version 2, and none of version 4 in its query."""
    if authorization is not None:
        return authorization.startswith(_IN_HEADER)
    return _IN_QUERY.search(target) is not None and _VERSION_4_IN_QUERY not in target


class Version2Verifier:
    """Verifier of signatures of version 2. Its secrets must be looked up without I/O that blocks an event loop."""

    def __init__(self, secrets: Callable[[str], Secret | None], clock: Clock, *, max_skew_s: int = 900) -> None:
        """Set the secrets and limits.

        Args:
            secrets: Return the secret of an access key, or None if the key is unknown.
            clock: Clock that the signatures' times are compared with.
            max_skew_s: The largest accepted difference between a client's clock and this one.
        """
        self._secrets = secrets
        self._clock = clock
        self._max_skew_s = max_skew_s

    def verify(self, method: bytes, target: bytes, headers: Sequence[Header], bucket: str = "") -> Signature:
        """Verify a request's signature.

        Args:
            method: The method, such as GET.
            target: Path and query exactly as received.
            headers: Names in lower case, and values as received.
            bucket: The bucket that the host names. Empty: the path names it.

        Raises:
            SignatureError: The request is not signed, or not by a known key, or not now.
        """
        request = received_request(method, target, headers)
        parameters = _parameters(target.partition(b"?")[2])
        authorization = request.values.get(b"authorization")
        now_us = self._clock.now_us()
        if authorization is None:
            date, access_key, signature = self._parse_query(request, now_us)
        else:
            date, access_key, signature = self._parse_header(request, authorization, now_us)
        amz = _amz_headers(request, parameters)
        secret = find_secret(self._secrets, access_key, amz.get(b"x-amz-security-token"), now_us)
        lines = [method, *(request.values.get(name, b"").strip() for name in _SIGNED_HEADERS[:2]), date]
        lines += [b"%b:%b" % (name, amz[name]) for name in sorted(amz)]
        before = b"\n".join(lines) + b"\n"
        key = secret.secret_key.encode()
        texts = [before + resource for resource in _resources(request.path, bucket, parameters)]
        if not any(hmac.compare_digest(b64encode(hmac.digest(key, each, "sha1")), signature) for each in texts):
            raise mismatch(access_key, texts[0], signature)
        signed = (name for name in request.values if name in _SIGNED_HEADERS or name.startswith(b"x-amz-"))
        return Signature(
            access_key=access_key,
            is_presigned=authorization is None,
            signed_headers=tuple(sorted(signed)),
            payload=_payload(amz),
            signing_key=_NO_KEY,
            timestamp=b"",
            scope=b"",
            seed=signature,
            version="SigV2",
        )

    def _parse_query(self, request: ReceivedRequest, now_us: int) -> tuple[bytes, str, bytes]:
        """Return the end, the access key and the signature of a presigned URL that is not expired."""
        given: dict[bytes, bytes] = {}
        for name, value in request.pairs:
            if name in given or (name in _QUERY_AUTH and not value):
                raise _incomplete()
            if name in _QUERY_AUTH:
                given[name] = unquote_to_bytes(value)
        if len(given) != len(_QUERY_AUTH):
            raise _incomplete()
        signature, expires, access_key = (given[name] for name in _QUERY_AUTH)
        if not re.fullmatch(rb"[0-9]{1,18}", expires):
            raise SignatureError("AccessDenied", f"Invalid date (should be seconds since epoch): {_text(expires)}")
        if now_us > int(expires) * 1_000_000:
            times = ("Expires", time_in_error(int(expires))), ("ServerTime", time_in_error(now_us // 1_000_000))
            raise SignatureError("AccessDenied", "Request has expired", times)
        return expires, _text(access_key), signature

    def _parse_header(self, request: ReceivedRequest, authorization: bytes, now_us: int) -> tuple[bytes, str, bytes]:
        """Return the date to sign, the access key and the signature of an Authorization header."""
        check_single_mechanism(request)
        access_key, colon, signature = authorization.removeprefix(_IN_HEADER).strip().rpartition(b":")
        if not (access_key and colon and signature):
            raise SignatureError(
                "InvalidArgument", "AWS authorization header is invalid. Expected AwsAccessKeyId:signature"
            )
        date = request.values.get(b"date", b"").strip()
        own_date = request.values.get(b"x-amz-date")
        timestamp, at_s = header_time({b"date": date if own_date is None else own_date})
        check_skew(timestamp, at_s, now_us, self._max_skew_s)
        return b"" if own_date is not None else date, _text(access_key), signature


def _parameters(query: bytes) -> list[tuple[bytes, bytes | None]]:
    """Return the decoded parameters of a query. None: a parameter has no equals sign. A plus sign is a space."""
    parameters: list[tuple[bytes, bytes | None]] = []
    for part in query.replace(b"+", b" ").split(b"&"):
        if part:
            name, equals, value = part.partition(b"=")
            parameters.append((unquote_to_bytes(name), unquote_to_bytes(value) if equals else None))
    return parameters


def _amz_headers(request: ReceivedRequest, parameters: list[tuple[bytes, bytes | None]]) -> dict[bytes, bytes]:
    """Return the x-amz-* headers of a request, also those that a signer has moved to the query."""
    amz = {name: value.strip() for name, value in request.values.items() if name.startswith(b"x-amz-")}
    for name, value in parameters:
        if (lower := name.lower()).startswith(b"x-amz-"):
            text = (value or b"").strip()
            # Two of them in one, or one in two, would have the same string to sign.
            if not _AMZ_NAME.fullmatch(lower) or b"\n" in text or b"\r" in text:
                raise SignatureError("InvalidArgument", "A header in the query is malformed.")
            amz[lower] = amz[lower] + b"," + text if lower in amz else text
    return amz


def _resources(path: bytes, bucket: str, parameters: list[tuple[bytes, bytes | None]]) -> Iterator[bytes]:
    """Yield the canonical resource with the path as received, then with other paths of the same meaning."""
    signed = [
        (name, value)
        for name, value in parameters
        if name not in _UNSIGNED_PARAMETERS and not name.lower().startswith(b"x-amz-")
    ]
    signed.sort(key=lambda pair: pair[0])
    query = b"&".join([name if value is None else b"%b=%b" % (name, value) for name, value in signed])
    before, after = f"/{bucket}".encode() if bucket else b"", b"?" + query if query else b""
    paths = [path, encode_path(path)]
    if not bucket and path.count(b"/") == 1:
        paths = [path, path + b"/"]  # botocore signs a bucket as in the virtual-host style
    for each in dict.fromkeys(paths):
        yield before + each + after


def _payload(amz: dict[bytes, bytes]) -> str:
    """Return the value of x-amz-content-sha256. Without it the payload is unsigned."""
    payload = amz.get(b"x-amz-content-sha256")
    if payload is None:
        return UNSIGNED_CHUNKS_TRAILER if b"x-amz-decoded-content-length" in amz else UNSIGNED
    if payload not in _UNSIGNED_PAYLOADS and not SHA256_HEX.fullmatch(payload):
        raise invalid_payload(payload)
    return payload.decode()


def _incomplete() -> SignatureError:
    return SignatureError(
        "AccessDenied",
        "Query-string authentication requires the Signature, Expires and AWSAccessKeyId parameters, each once",
    )


def _text(value: bytes) -> str:
    return value.decode("utf-8", "backslashreplace")
