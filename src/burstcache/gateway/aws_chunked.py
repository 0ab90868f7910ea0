"""Bodies of requests: the aws-chunked encoding with its signatures and trailers, and digests of plain bodies.

A signed body withholds its last piece until `finish` has verified the whole. So a server can pass pieces on as they
come: S3 stores nothing before it has the last byte.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Collection
from typing import Protocol

from burstcache.gateway.signatures import (
    SIGNED_CHUNKS,
    SIGNED_CHUNKS_TRAILER,
    UNSIGNED,
    UNSIGNED_CHUNKS_TRAILER,
    Header,
    Signature,
    SignatureError,
)

MAX_CHUNK_HEADER_BYTES = 256
MAX_TRAILER_BYTES = 8 << 10

_EMPTY_SHA256 = hashlib.sha256().hexdigest().encode()
_CHUNK_SIZE = re.compile(rb"[0-9A-Fa-f]{1,16}")
_SIGNED_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,16});chunk-signature=([0-9a-f]{64})")
_TRAILER_SIGNATURE = b"x-amz-trailer-signature"
_CRLF = b"\r\n"


class BodyError(SignatureError):
    """A body is not what its request announces or signs."""


class RequestBody(Protocol):
    """A request's body, verified as it is received."""

    @property
    def trailers(self) -> list[Header]:
        """The trailers of a finished body: names in lower case, and values."""

    def feed(self, data: bytes) -> list[bytes]:
        """Take received bytes, and return pieces of the object.

        Raises:
            SignatureError: The body is malformed, too long, or not as signed.
        """

    def finish(self) -> list[bytes]:
        """End the body, verify it as a whole, and return the withheld pieces.

        Raises:
            SignatureError: The body is too short, or not as signed.
        """


def is_chunked(signature: Signature) -> bool:
    """Return True if the body is encoded in aws-chunked."""
    return signature.payload in (SIGNED_CHUNKS, SIGNED_CHUNKS_TRAILER, UNSIGNED_CHUNKS_TRAILER)


def request_body(signature: Signature, *, decoded_length: int | None, trailers: Collection[bytes] = ()) -> RequestBody:
    """Return the body of a request with a verified signature.

    Args:
        signature: The verified signature, which says how the body is encoded and signed.
        decoded_length: The value of x-amz-decoded-content-length, or None without that header.
        trailers: The names in x-amz-trailer.

    Raises:
        SignatureError: The body is chunked, and the request lacks x-amz-decoded-content-length.
    """
    if not is_chunked(signature):
        return PayloadDigest(signature.payload)
    if decoded_length is None:
        raise BodyError("MissingContentLength", "You must provide the x-amz-decoded-content-length HTTP header.")
    return AwsChunkedDecoder(signature, decoded_length, trailers)


class PayloadDigest:
    """A plain body, whose SHA-256 is signed, or which is not signed at all."""

    def __init__(self, payload: str) -> None:
        """Set the digest that x-amz-content-sha256 has, or UNSIGNED-PAYLOAD."""
        self._expected = payload
        self._digest = hashlib.sha256() if payload != UNSIGNED else None
        self._withheld: list[bytes] = []
        self.trailers: list[Header] = []

    def feed(self, data: bytes) -> list[bytes]:
        """Take received bytes, and return those before them."""
        if not data:
            return []
        if self._digest is None:
            return [data]
        self._digest.update(data)
        pieces, self._withheld = self._withheld, [data]
        return pieces

    def finish(self) -> list[bytes]:
        """Verify the digest, and return the last bytes. BodyError if the digest is another."""
        if self._digest is not None and self._digest.hexdigest() != self._expected.lower():
            raise BodyError(
                "XAmzContentSHA256Mismatch",
                "The provided 'x-amz-content-sha256' header does not match what was computed.",
                [
                    ("ClientComputedContentSHA256", self._expected),
                    ("S3ComputedContentSHA256", self._digest.hexdigest()),
                ],
            )
        pieces, self._withheld = self._withheld, []
        return pieces


class AwsChunkedDecoder:
    """A decoder of aws-chunked bodies, with or without signatures and trailers. After an error it is of no use.

    A chunk is `SIZE[;chunk-signature=SIGNATURE] CRLF BYTES CRLF`, and the last one has no bytes. Trailers follow it.
    S3's minimum of 8 KiB for a signed chunk is not enforced, since a smaller one harms nobody.
    """

    def __init__(self, signature: Signature, decoded_length: int, trailers: Collection[bytes] = ()) -> None:
        """Set what the request's headers announce.

        Args:
            signature: The verified signature of the headers, which the first chunk's signature includes.
            decoded_length: The length of the object.
            trailers: The names of the trailers.
        """
        self._is_signed = signature.payload != UNSIGNED_CHUNKS_TRAILER
        self._has_trailer = signature.payload != SIGNED_CHUNKS
        self._announced = frozenset(name.strip().lower() for name in trailers if name.strip())
        self._key = signature.signing_key
        self._scope = b"%b\n%b\n" % (signature.timestamp, signature.scope)
        self._previous = signature.seed
        self._signature = b""  # of the current chunk
        self._digest = hashlib.sha256()
        self._missing = decoded_length
        self._chunk_left = 0
        self._step = self._read_header
        self._received = bytearray()  # an incomplete header, chunk end or trailer
        self._withheld: list[bytes] = []
        self.trailers: list[Header] = []

    def feed(self, data: bytes) -> list[bytes]:
        """Take received bytes, and return decoded bytes. SignatureError if they are malformed or not as signed."""
        pieces: list[bytes] = []
        at, end = 0, len(data)
        while at < end:
            if self._chunk_left:
                piece = data[at : at + self._chunk_left]
                if self._is_signed:
                    self._digest.update(piece)
                self._chunk_left -= len(piece)
                at += len(piece)
                pieces += self._withheld
                self._withheld = [piece]
            else:
                at = self._step(data, at)
        return pieces

    def finish(self) -> list[bytes]:
        """Verify the end of the body, and return the last bytes. SignatureError if it is cut short or not as signed."""
        if self._step != self._read_end or self._missing:
            raise BodyError(
                "IncompleteBody",
                "You did not provide the number of bytes specified by the x-amz-decoded-content-length HTTP header.",
            )
        lines = [line.rstrip(b"\r") for line in bytes(self._received).split(b"\n")]
        if self._has_trailer:
            self._finish_trailers([line for line in lines if line])
        elif any(lines):
            raise _malformed("The body goes on after its last chunk.")
        pieces, self._withheld = self._withheld, []
        return pieces

    def _read_line(self, data: bytes, at: int) -> tuple[bytes | None, int]:
        """Return the line that ends in `data`, or None if it does not end yet, and the position behind it."""
        newline = data.find(b"\n", at, at + MAX_CHUNK_HEADER_BYTES)
        behind = min(at + MAX_CHUNK_HEADER_BYTES, len(data)) if newline < 0 else newline + 1
        self._received += data[at:behind]
        if len(self._received) > MAX_CHUNK_HEADER_BYTES or (newline < 0 and behind < len(data)):
            raise _malformed("The header of a chunk is too long.")
        if newline < 0:
            return None, behind
        line, self._received = bytes(self._received), bytearray()
        if not line.endswith(_CRLF):
            raise _malformed("A line of the body does not end with CRLF.")
        return line[:-2], behind

    def _read_header(self, data: bytes, at: int) -> int:
        line, behind = self._read_line(data, at)
        if line is None:
            return behind
        if self._is_signed:
            if not (found := _SIGNED_CHUNK.fullmatch(line)):
                raise _malformed("The header of a chunk must be its size and signature.")
            size, self._signature = int(found[1], 16), found[2]
        else:
            digits = line.partition(b";")[0].strip()
            if not _CHUNK_SIZE.fullmatch(digits):
                raise _malformed("The header of a chunk must begin with its size.")
            size = int(digits, 16)
        if size > self._missing:
            raise BodyError("IncompleteBody", "The body is longer than x-amz-decoded-content-length.")
        self._missing -= size
        self._chunk_left = size
        if size:
            self._step = self._read_chunk_end
        else:
            self._verify_chunk()
            self._step = self._read_end
        return behind

    def _read_chunk_end(self, data: bytes, at: int) -> int:
        """Read the CRLF after a chunk's bytes."""
        line, behind = self._read_line(data, at)
        if line is None:
            if len(self._received) > len(_CRLF):
                raise _malformed("A chunk is longer than its size.")
            return behind
        if line:
            raise _malformed("A chunk is longer than its size.")
        self._verify_chunk()
        self._step = self._read_header
        return behind

    def _read_end(self, data: bytes, at: int) -> int:
        """Collect everything behind the last chunk."""
        self._received += data[at : at + MAX_TRAILER_BYTES + 1]
        if len(self._received) > (MAX_TRAILER_BYTES if self._has_trailer else len(_CRLF)):
            raise _malformed(
                "The trailer is too long." if self._has_trailer else "The body goes on after its last chunk."
            )
        return len(data)

    def _verify_chunk(self) -> None:
        """Verify the signature of a complete chunk, which includes the signature of the chunk before it."""
        if not self._is_signed:
            return
        text = b"AWS4-HMAC-SHA256-PAYLOAD\n%b%b\n%b\n" % (self._scope, self._previous, _EMPTY_SHA256)
        self._verify_signature(text + self._digest.hexdigest().encode(), self._signature)
        self._digest = hashlib.sha256()

    def _verify_signature(self, text: bytes, signature: bytes) -> None:
        if not hmac.compare_digest(self._key.sign(text), signature):
            raise BodyError(
                "SignatureDoesNotMatch",
                "The signature of a chunk or trailer that we calculated does not match the signature you provided.",
            )
        self._previous = signature

    def _finish_trailers(self, lines: list[bytes]) -> None:
        """Read the trailers, which must be the announced ones, and verify their signature."""
        trailers: dict[bytes, bytes] = {}
        for line in lines:
            name, colon, value = line.partition(b":")
            name = name.strip().lower()
            if not colon or name in trailers:
                raise _malformed_trailer()
            trailers[name] = value.strip()
        signature = trailers.pop(_TRAILER_SIGNATURE, None) if self._is_signed else None
        if trailers.keys() != self._announced:
            raise _malformed_trailer()
        if self._is_signed:
            if signature is None:
                raise _malformed_trailer()
            canonical = b"".join([b"%b:%b\n" % trailer for trailer in sorted(trailers.items())])
            text = b"AWS4-HMAC-SHA256-TRAILER\n%b%b\n" % (self._scope, self._previous)
            self._verify_signature(text + hashlib.sha256(canonical).hexdigest().encode(), signature)
        self.trailers = list(trailers.items())


def _malformed(message: str) -> BodyError:
    return BodyError("InvalidRequest", message)


def _malformed_trailer() -> BodyError:
    return BodyError(
        "MalformedTrailerError",
        "The request contained trailing data that was not well-formed or did not conform to our published schema.",
    )
