"""Bodies: AWS's published examples of aws-chunked, any split of any body, and bodies that are refused."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from burstcache.gateway.aws_chunked import (
    MAX_CHUNK_HEADER_BYTES,
    MAX_TRAILER_BYTES,
    AwsChunkedDecoder,
    BodyError,
    PayloadDigest,
    RequestBody,
    is_chunked,
    request_body,
)
from burstcache.gateway.signatures import (
    SIGNED_CHUNKS,
    SIGNED_CHUNKS_TRAILER,
    UNSIGNED,
    UNSIGNED_CHUNKS_TRAILER,
    Header,
    Signature,
    SigningKey,
)
from support.signing import EXAMPLE_KEY, EXAMPLE_SCOPE, EXAMPLE_SECRET, EXAMPLE_TIME

_EXAMPLE_BYTES = 65536, 1024, 0
_EXAMPLE_SEED = "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9"
_EXAMPLE_CHUNKS = (
    "ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648",
    "0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497",
    "b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9",
)
_TRAILER_SEED = "106e2a8a18243abcf37539882f36619c00e2dfc72633413f02d3b74544bfeb8e"
_TRAILER_CHUNKS = (
    "b474d8862b1487a5145d686f57f013e54db672cee1c953b3010fb58501ef5aa2",
    "1c1344b170168f8e65b41376b44b20fe354e373826ccbbe2c1d40a8cae51e5c7",
    "2ca2aba2005185cf7159c6277faf83795951dd77a3a99e6e65d5c9f85863f992",
)
_TRAILER_SIGNATURE = "d81f82fc3505edab99d459891051a732e8730629a2e4a59689829ca17fe2e435"
_CRC = (b"x-amz-checksum-crc32c", b"sOO8/Q==")
_CHUNKS = st.lists(st.binary(min_size=1, max_size=40), max_size=5)
_PAYLOADS = st.sampled_from([SIGNED_CHUNKS, SIGNED_CHUNKS_TRAILER, UNSIGNED_CHUNKS_TRAILER])


def _signature(payload: str, seed: str = "ab" * 32) -> Signature:
    key = SigningKey(EXAMPLE_SECRET, b"20130524", b"us-east-1")
    time, scope = EXAMPLE_TIME.encode(), EXAMPLE_SCOPE.encode()
    return Signature(EXAMPLE_KEY, False, (b"host",), payload, key, time, scope, seed.encode())


def _example(signatures: Sequence[str]) -> bytes:
    """Return the chunks of the S3 API Reference, without the line that ends the body."""
    chunks = [
        f"{size:x};chunk-signature={signature}\r\n".encode() + b"a" * size + (b"\r\n" if size else b"")
        for size, signature in zip(_EXAMPLE_BYTES, signatures, strict=True)
    ]
    return b"".join(chunks)


def _encode(payload: str, chunks: Sequence[bytes], trailers: Sequence[Header] = (), seed: str = "ab" * 32) -> bytes:
    """Encode a body as a client does."""
    signature, previous, body = _signature(payload), seed, b""
    prefix = f"{EXAMPLE_TIME}\n{EXAMPLE_SCOPE}\n"
    for chunk in (*chunks, b""):
        text = (
            f"AWS4-HMAC-SHA256-PAYLOAD\n{prefix}{previous}\n{hashlib.sha256().hexdigest()}\n"
            f"{hashlib.sha256(chunk).hexdigest()}"
        )
        previous = signature.signing_key.sign(text.encode()).decode()
        extension = "" if payload == UNSIGNED_CHUNKS_TRAILER else f";chunk-signature={previous}"
        body += f"{len(chunk):x}{extension}\r\n".encode() + chunk + (b"\r\n" if chunk else b"")
    body += b"".join(name + b":" + value + b"\r\n" for name, value in trailers)
    if payload == SIGNED_CHUNKS_TRAILER:
        canonical = b"".join(name + b":" + value + b"\n" for name, value in sorted(trailers))
        text = f"AWS4-HMAC-SHA256-TRAILER\n{prefix}{previous}\n{hashlib.sha256(canonical).hexdigest()}"
        body += b"x-amz-trailer-signature:" + signature.signing_key.sign(text.encode()) + b"\r\n"
    return body + b"\r\n"


def _decoder(payload: str, length: int, trailers: Sequence[Header] = ()) -> AwsChunkedDecoder:
    return AwsChunkedDecoder(_signature(payload), length, [name for name, _ in trailers])


def _read(body: RequestBody, data: bytes, splits: Sequence[int] = ()) -> bytes:
    """Feed a body in pieces, and return the decoded bytes."""
    decoded = []
    for start, stop in pairwise([0, *sorted(splits), len(data)]):
        decoded += body.feed(data[start:stop])
    return b"".join(decoded + body.finish())


def _trailers_of(payload: str) -> list[Header]:
    return [_CRC] if payload != SIGNED_CHUNKS else []


def test_the_signed_chunks_of_aws_are_decoded() -> None:
    decoder = AwsChunkedDecoder(_signature(SIGNED_CHUNKS, _EXAMPLE_SEED), 66560)

    assert _read(decoder, _example(_EXAMPLE_CHUNKS) + b"\r\n") == b"a" * 66560
    assert decoder.trailers == []


@pytest.mark.parametrize("end", [b"\r\n\r\n", b"\r\n", b""])
@pytest.mark.parametrize("between", [b"\r\n", b"\n\r\n"])
def test_the_signed_trailer_of_aws_is_verified(between: bytes, end: bytes) -> None:
    decoder = AwsChunkedDecoder(_signature(SIGNED_CHUNKS_TRAILER, _TRAILER_SEED), 66560, [_CRC[0]])
    trailer = b":".join(_CRC) + between + f"x-amz-trailer-signature:{_TRAILER_SIGNATURE}".encode()

    assert _read(decoder, _example(_TRAILER_CHUNKS) + trailer + end) == b"a" * 66560
    assert decoder.trailers == [_CRC]


@pytest.mark.parametrize("number", range(3))
def test_a_chunk_with_the_signature_of_another_is_refused(number: int) -> None:
    signatures = list(_EXAMPLE_CHUNKS)
    signatures[number] = signatures[number - 1]
    decoder = AwsChunkedDecoder(_signature(SIGNED_CHUNKS, _EXAMPLE_SEED), 66560)

    with pytest.raises(BodyError) as raised:
        _read(decoder, _example(signatures) + b"\r\n")

    assert (raised.value.code, raised.value.status) == ("SignatureDoesNotMatch", 403)


@given(payload=_PAYLOADS, chunks=_CHUNKS, data=st.data())
def test_any_split_of_a_body_is_decoded_alike(payload: str, chunks: list[bytes], data: st.DataObject) -> None:
    trailers = _trailers_of(payload)
    body = _encode(payload, chunks, trailers)
    splits = data.draw(st.lists(st.integers(0, len(body))))
    decoder = _decoder(payload, len(b"".join(chunks)), trailers)

    assert _read(decoder, body, splits) == b"".join(chunks)
    assert decoder.trailers == trailers


@given(payload=_PAYLOADS, chunks=_CHUNKS, data=st.data())
def test_a_body_of_any_bytes_has_one_outcome_however_it_is_split(
    payload: str, chunks: list[bytes], data: st.DataObject
) -> None:
    body, trailers = bytearray(_encode(payload, chunks, _trailers_of(payload))), _trailers_of(payload)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(body) - 1))
        body[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3) | st.just(b"\r\n"))
        if not body:
            return
    outcomes = []
    for splits in ([], range(len(body)), data.draw(st.lists(st.integers(0, len(body))))):
        decoder = _decoder(payload, len(b"".join(chunks)), trailers)
        try:
            outcomes.append((_read(decoder, bytes(body), splits), decoder.trailers))
        except BodyError:
            outcomes.append((b"", [(b"refused", b"")]))

    assert outcomes[0] == outcomes[1] == outcomes[2]
    if payload != UNSIGNED_CHUNKS_TRAILER:
        assert outcomes[0] in [(b"".join(chunks), trailers), (b"", [(b"refused", b"")])]


@given(
    payload=st.sampled_from([SIGNED_CHUNKS, SIGNED_CHUNKS_TRAILER]),
    chunks=st.lists(st.binary(min_size=1, max_size=40), min_size=1, max_size=4),
    data=st.data(),
)
def test_a_signed_body_gives_out_its_last_bytes_only_once_it_is_verified(
    payload: str, chunks: list[bytes], data: st.DataObject
) -> None:
    body, length = _encode(payload, chunks, _trailers_of(payload)), len(b"".join(chunks))
    splits = data.draw(st.lists(st.integers(0, len(body))))
    decoder, given_out = _decoder(payload, length, _trailers_of(payload)), 0

    for start, stop in pairwise([0, *sorted(splits), len(body)]):
        given_out += sum(map(len, decoder.feed(body[start:stop])))

    assert given_out < length
    assert given_out + sum(map(len, decoder.finish())) == length


@pytest.mark.parametrize("payload", [SIGNED_CHUNKS, SIGNED_CHUNKS_TRAILER, UNSIGNED_CHUNKS_TRAILER])
def test_a_body_of_another_length_is_refused(payload: str) -> None:
    body, trailers = _encode(payload, [b"12345", b"678"], _trailers_of(payload)), _trailers_of(payload)

    assert _read(_decoder(payload, 8, trailers), body) == b"12345678"
    for length in (0, 4, 7, 9):
        with pytest.raises(BodyError) as raised:
            _read(_decoder(payload, length, trailers), body)
        assert (raised.value.code, raised.value.status) == ("IncompleteBody", 400)


def test_a_body_that_is_too_long_is_refused_before_its_bytes_are_read() -> None:
    decoder = _decoder(UNSIGNED_CHUNKS_TRAILER, 10)

    with pytest.raises(BodyError, match="IncompleteBody"):
        decoder.feed(b"b\r\n")


@pytest.mark.parametrize("payload", [SIGNED_CHUNKS, SIGNED_CHUNKS_TRAILER, UNSIGNED_CHUNKS_TRAILER])
def test_a_body_that_ends_early_is_refused(payload: str) -> None:
    trailers = _trailers_of(payload)
    body = _encode(payload, [b"12345", b"678"], trailers)
    complete = body.rindex(b"\r\n0") + 2
    complete += body[complete:].index(b"\r\n") + 2

    for stop in range(complete):
        with pytest.raises(BodyError, match="IncompleteBody"):
            _read(_decoder(payload, 8, trailers), body[:stop])


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"5\n12345\r\n0\r\n\r\n", "InvalidRequest"),
        (b"5\r\n12345\n0\r\n\r\n", "InvalidRequest"),
        (b"5\r\n123456\r\n0\r\n\r\n", "InvalidRequest"),
        (b"5\r\n12345678901\r\n0\r\n\r\n", "InvalidRequest"),
        (b"-5\r\n12345\r\n0\r\n\r\n", "InvalidRequest"),
        (b"0x5\r\n12345\r\n0\r\n\r\n", "InvalidRequest"),
        (b"\r\n5\r\n12345\r\n0\r\n\r\n", "InvalidRequest"),
        (b"5_\r\n12345\r\n0\r\n\r\n", "InvalidRequest"),
        (b"0" * 17 + b"\r\n", "InvalidRequest"),
        (b"f" * 16 + b"\r\n", "IncompleteBody"),
        (b"5;" + b"a" * MAX_CHUNK_HEADER_BYTES + b"\r\n12345\r\n0\r\n\r\n", "InvalidRequest"),
        (b"5;" + b"a" * MAX_CHUNK_HEADER_BYTES, "InvalidRequest"),
        (b"5\r\n12345\r\n0\r\n" + b"a" * (MAX_TRAILER_BYTES + 1), "InvalidRequest"),
        (b"5\r\n12345\r\n0\r\nx-amz-checksum-crc32:AAAAAA==\r\n\r\n", "MalformedTrailerError"),
        (b"5\r\n12345\r\n0\r\nnonsense\r\n\r\n", "MalformedTrailerError"),
    ],
)
def test_a_malformed_body_is_refused_however_it_is_split(body: bytes, code: str) -> None:
    for splits in (range(0), range(len(body))):
        with pytest.raises(BodyError) as raised:
            _read(_decoder(UNSIGNED_CHUNKS_TRAILER, 5), body, splits)
        assert (raised.value.code, raised.value.status) == (code, 400)


def test_extensions_of_unsigned_chunks_are_ignored() -> None:
    assert _read(_decoder(UNSIGNED_CHUNKS_TRAILER, 5), b"5;a=b\r\n12345\r\n0;c\r\n\r\n") == b"12345"


@pytest.mark.parametrize(
    "body", [b"1\r\na\r\n0\r\n\r\n", b"1;chunk-signature=\r\na\r\n", b"1;chunk-signature=" + b"A" * 64 + b"\r\na\r\n"]
)
def test_a_chunk_without_a_signature_is_refused_where_chunks_are_signed(body: bytes) -> None:
    with pytest.raises(BodyError, match="InvalidRequest"):
        _read(_decoder(SIGNED_CHUNKS, 1), body)


def test_bytes_behind_the_last_chunk_are_refused() -> None:
    body = _encode(SIGNED_CHUNKS, [b"12345"])

    for end in (b"0\r\n", b"\r\n\r\n", b"x-amz-checksum-crc32:AAAAAA==\r\n\r\n", b"0", b"\n0"):
        with pytest.raises(BodyError, match="InvalidRequest"):
            _read(_decoder(SIGNED_CHUNKS, 5), body.removesuffix(b"\r\n") + end)


@pytest.mark.parametrize(
    ("sent", "announced"),
    [
        ([], [_CRC]),
        ([_CRC], []),
        ([_CRC, _CRC], [_CRC]),
        ([(b"x-amz-checksum-crc32", b"AAAAAA==")], [_CRC]),
    ],
)
@pytest.mark.parametrize("payload", [SIGNED_CHUNKS_TRAILER, UNSIGNED_CHUNKS_TRAILER])
def test_trailers_must_be_the_announced_ones(payload: str, sent: list[Header], announced: list[Header]) -> None:
    with pytest.raises(BodyError) as raised:
        _read(_decoder(payload, 5, announced), _encode(payload, [b"12345"], sent))

    assert (raised.value.code, raised.value.status) == ("MalformedTrailerError", 400)


def test_several_trailers_are_signed_in_the_order_of_their_names() -> None:
    trailers = [(b"x-amz-checksum-sha256", b"b"), (b"x-amz-checksum-crc32", b"a")]
    decoder = _decoder(SIGNED_CHUNKS_TRAILER, 5, trailers)

    assert _read(decoder, _encode(SIGNED_CHUNKS_TRAILER, [b"12345"], trailers)) == b"12345"
    assert decoder.trailers == trailers


def test_an_unsigned_trailer_is_refused_where_trailers_are_signed() -> None:
    body = _encode(SIGNED_CHUNKS_TRAILER, [b"12345"], [_CRC])
    without = body[: body.index(b"x-amz-trailer-signature")] + b"\r\n"

    with pytest.raises(BodyError, match="MalformedTrailerError"):
        _read(_decoder(SIGNED_CHUNKS_TRAILER, 5, [_CRC]), without)


def test_names_of_trailers_are_compared_without_case_and_spaces() -> None:
    decoder = AwsChunkedDecoder(_signature(UNSIGNED_CHUNKS_TRAILER), 1, [b" X-Amz-Checksum-CRC32C", b""])

    assert _read(decoder, b"1\r\na\r\n0\r\nX-Amz-checksum-crc32c: sOO8/Q== \r\n\r\n") == b"a"
    assert decoder.trailers == [_CRC]


@given(chunks=_CHUNKS, is_upper=st.booleans())
def test_a_plain_body_is_verified_by_its_digest(chunks: list[bytes], is_upper: bool) -> None:
    whole = b"".join(chunks)
    payload = hashlib.sha256(whole).hexdigest()
    body, decoded = PayloadDigest(payload.upper() if is_upper else payload), b""

    for chunk in chunks:
        decoded += b"".join(body.feed(chunk))
        assert len(decoded) < len(whole)

    assert decoded + b"".join(body.finish()) == whole


@pytest.mark.parametrize("sent", [b"", b"another"])
def test_a_plain_body_with_another_digest_is_refused_before_its_end_is_given_out(sent: bytes) -> None:
    body = PayloadDigest(hashlib.sha256(b"expected").hexdigest())
    assert body.feed(sent) == []

    with pytest.raises(BodyError) as raised:
        body.finish()

    assert (raised.value.code, raised.value.status) == ("XAmzContentSHA256Mismatch", 400)
    assert dict(raised.value.details)["S3ComputedContentSHA256"] == hashlib.sha256(sent).hexdigest()


def test_an_unsigned_plain_body_is_passed_on_at_once() -> None:
    body = PayloadDigest(UNSIGNED)

    assert [body.feed(b"a"), body.feed(b""), body.finish()] == [[b"a"], [], []]


def test_the_signature_says_how_a_body_is_read() -> None:
    plain = _signature(UNSIGNED)
    chunked = _signature(UNSIGNED_CHUNKS_TRAILER)

    assert not is_chunked(plain)
    assert _read(request_body(plain, decoded_length=None), b"ab") == b"ab"
    assert is_chunked(chunked)
    body = request_body(chunked, decoded_length=2, trailers=[_CRC[0]])
    assert _read(body, b"2\r\nab\r\n0\r\nx-amz-checksum-crc32c:sOO8/Q==\r\n\r\n") == b"ab"
    assert body.trailers == [_CRC]


def test_a_chunked_body_needs_its_decoded_length() -> None:
    with pytest.raises(BodyError) as raised:
        request_body(_signature(SIGNED_CHUNKS), decoded_length=None)

    assert (raised.value.code, raised.value.status) == ("MissingContentLength", 411)
