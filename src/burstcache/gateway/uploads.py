"""Uploads: the body of a request as S3 gets it, verified while it passes.

A body with signed chunks is sent on without them, since their signatures are of the client's key.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

from burstcache.gateway.aws_chunked import PayloadDigest, RequestBody, request_body
from burstcache.gateway.http_messages import HttpRequest
from burstcache.gateway.signatures import (
    SIGNED_CHUNKS,
    SIGNED_CHUNKS_TRAILER,
    UNSIGNED,
    UNSIGNED_CHUNKS_TRAILER,
    Signature,
    SigningKey,
)

EMPTY_SHA256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

_ENCODING, _DECODED_LENGTH, _TRAILER = "content-encoding", "x-amz-decoded-content-length", "x-amz-trailer"
_TRAILER_SIGNATURE = b"x-amz-trailer-signature"
_NOBODY = SigningKey("", b"", b"")

Headers = list[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Upload:
    """A body on its way to S3.

    Attributes:
        headers: All headers of the request to S3 that are not of its signature.
        payload: The value of `x-amz-content-sha256`.
        content: The bytes. None: there are none.
    """

    headers: Headers
    payload: str
    content: AsyncIterator[bytes] | None


def upload_of(request: HttpRequest, headers: Headers) -> Upload:
    """Return the body of a request for S3.

    Args:
        request: The client's request, whose signature has been verified.
        headers: The headers to send, without those of the body's length.

    Raises:
        S3Error: The body is not as announced. Iterating over the content raises it, too.
    """
    signature = request.signature or _unverified(request)
    if request.body is None:
        if signature.payload not in (UNSIGNED, SIGNED_CHUNKS, SIGNED_CHUNKS_TRAILER, UNSIGNED_CHUNKS_TRAILER):
            PayloadDigest(signature.payload).finish()
        return Upload(headers, EMPTY_SHA256, None)
    received = aiter(request.body)
    if signature.payload in (SIGNED_CHUNKS, SIGNED_CHUNKS_TRAILER):
        return _decoded(request, headers, signature, received)
    if (length := request.header(b"content-length")) is not None:
        headers = [*headers, ("content-length", length.decode("latin-1"))]
    if request.header(b"expect") is not None:
        headers = [*headers, ("expect", "100-continue")]
    if signature.payload in (UNSIGNED, UNSIGNED_CHUNKS_TRAILER):
        return Upload(headers, signature.payload, received)
    return Upload(headers, signature.payload, _pieces(received, PayloadDigest(signature.payload)))


def _decoded(request: HttpRequest, headers: Headers, signature: Signature, received: AsyncIterator[bytes]) -> Upload:
    length = (request.header(_DECODED_LENGTH.encode()) or b"").strip()
    announced = (request.header(_TRAILER.encode()) or b"").split(b",")
    has_trailer = signature.payload == SIGNED_CHUNKS_TRAILER
    if request.signature is None:  # no signature is verified, so those of the chunks and of the trailer are no better
        signature = signature._replace(payload=UNSIGNED_CHUNKS_TRAILER)
        announced = [*announced, _TRAILER_SIGNATURE] if has_trailer else announced
    body = request_body(signature, decoded_length=int(length) if length.isdigit() else None, trailers=announced)
    if has_trailer:
        return Upload(headers, UNSIGNED_CHUNKS_TRAILER, _in_chunks(received, body))
    plain = [(name, value) for name, value in headers if name not in (_ENCODING, _DECODED_LENGTH, _TRAILER)]
    encodings = [each.strip() for name, value in headers if name == _ENCODING for each in value.split(",")]
    if kept := [each for each in encodings if each.lower() != "aws-chunked"]:
        plain.append((_ENCODING, ",".join(kept)))
    plain.append(("content-length", length.decode("latin-1")))
    return Upload(plain, UNSIGNED, _pieces(received, body))


async def _pieces(received: AsyncIterator[bytes], body: RequestBody) -> AsyncIterator[bytes]:
    """Yield the verified bytes of a body."""
    async for data in received:
        for piece in body.feed(data):
            yield piece
    for piece in body.finish():
        yield piece


async def _in_chunks(received: AsyncIterator[bytes], body: RequestBody) -> AsyncIterator[bytes]:
    """Yield a body in chunks without signatures, with its trailers."""
    async for piece in _pieces(received, body):
        yield b"%x\r\n%b\r\n" % (len(piece), piece)
    trailers = [b"%b:%b\r\n" % each for each in body.trailers if each[0] != _TRAILER_SIGNATURE]
    yield b"0\r\n%b\r\n" % b"".join(trailers)


def _unverified(request: HttpRequest) -> Signature:
    """Return the signature of a request that needs none."""
    payload = (request.header(b"x-amz-content-sha256") or UNSIGNED.encode()).decode("latin-1")
    return Signature("", False, (), payload, _NOBODY, b"", b"", b"")
