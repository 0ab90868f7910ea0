"""Verification of signatures: AWS's published examples, botocore as the signer, and S3's errors."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl, unquote_to_bytes

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from burstcache.gateway.signatures import (
    SIGNED_CHUNKS,
    SIGNED_CHUNKS_TRAILER,
    UNSIGNED,
    UNSIGNED_CHUNKS_TRAILER,
    Header,
    Secret,
    SignatureError,
    SignatureVerifier,
    SigningKey,
)
from support.clock import ManualClock
from support.signing import (
    EXAMPLE_KEY,
    EXAMPLE_SCOPE,
    EXAMPLE_SECRET,
    EXAMPLE_TIME,
    BotocoreSigner,
    SignedRequest,
    example_request,
    example_verifier,
    seconds,
)

_EMPTY = hashlib.sha256().hexdigest()
_HOST = "examplebucket.s3.amazonaws.com"
_PLAIN = {"host": _HOST, "x-amz-content-sha256": _EMPTY, "x-amz-date": EXAMPLE_TIME}
_CHUNKED = {
    "content-encoding": "aws-chunked",
    "host": "s3.amazonaws.com",
    "x-amz-date": EXAMPLE_TIME,
    "x-amz-decoded-content-length": "66560",
    "x-amz-storage-class": "REDUCED_REDUNDANCY",
}
_PRESIGNED = (
    "/test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2F"
    "aws4_request&X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host&X-Amz-Signature="
    "aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404"
)
# Examples of the S3 API Reference.
_EXAMPLES = {
    "a range of an object": example_request(
        "GET",
        "/test.txt",
        "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
        {**_PLAIN, "range": "bytes=0-9"},
    ),
    "an upload": example_request(
        "PUT",
        "/test$file.text",
        "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
        {
            **_PLAIN,
            "x-amz-content-sha256": "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072",
            "date": "Fri, 24 May 2013 00:00:00 GMT",
            "x-amz-storage-class": "REDUCED_REDUNDANCY",
        },
    ),
    "a parameter without a value": example_request(
        "GET", "/?lifecycle", "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543", _PLAIN
    ),
    "a listing": example_request(
        "GET", "/?max-keys=2&prefix=J", "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7", _PLAIN
    ),
    "an upload in chunks": example_request(
        "PUT",
        "/examplebucket/chunkObject.txt",
        "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9",
        {**_CHUNKED, "content-length": "66824", "x-amz-content-sha256": SIGNED_CHUNKS},
    ),
    "an upload in chunks with a trailer": example_request(
        "PUT",
        "/examplebucket/chunkObject.txt",
        "106e2a8a18243abcf37539882f36619c00e2dfc72633413f02d3b74544bfeb8e",
        {**_CHUNKED, "x-amz-content-sha256": SIGNED_CHUNKS_TRAILER, "x-amz-trailer": "x-amz-checksum-crc32c"},
    ),
    "a presigned URL": SignedRequest(b"GET", _PRESIGNED.encode(), [(b"host", _HOST.encode())]),
}

_SIGNER = BotocoreSigner("http://127.0.0.1:9000")
_TLS_SIGNER = BotocoreSigner("https://s3.example:9000", "to/ken+==")
_KEYS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=30)
_VISIBLE = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=30)


def _calls(draw: st.DrawFn) -> Callable[[Any], object]:
    key = draw(_KEYS)
    operation = draw(st.sampled_from(["get", "head", "list", "put", "delete"]))
    if operation == "get":
        kind = draw(_VISIBLE)
        return lambda client: client.get_object(Bucket="bucket", Key=key, Range="bytes=0-9", ResponseContentType=kind)
    if operation == "head":
        return lambda client: client.head_object(Bucket="bucket", Key=key, PartNumber=1)
    if operation == "list":
        token = draw(_KEYS)
        return lambda client: client.list_objects_v2(
            Bucket="bucket", Prefix=key, Delimiter="/", ContinuationToken=token
        )
    if operation == "put":
        body, metadata = draw(st.binary(max_size=20)), draw(st.dictionaries(st.sampled_from("abc"), _VISIBLE))
        return lambda client: client.put_object(Bucket="bucket", Key=key, Body=body, Metadata=metadata)
    return lambda client: client.delete_object(Bucket="bucket", Key=key, VersionId="a b")


_CALLS = st.composite(_calls)()


def _header(request: SignedRequest, name: bytes) -> bytes:
    return dict(request.headers)[name]


def _verifier_of(request: SignedRequest, token: str | None = None, **limits: Any) -> SignatureVerifier:
    """Return a verifier that knows the key, at the time of the request's signature."""
    found = re.search(rb"X-Amz-Date=([0-9TZ]+)", request.target)
    timestamp = found[1] if found else _header(request, b"x-amz-date")
    clock = ManualClock(seconds(timestamp.decode()))
    return SignatureVerifier({EXAMPLE_KEY: Secret(EXAMPLE_SECRET, token)}.get, clock, **limits)


def _refusal(verifier: SignatureVerifier, request: SignedRequest) -> SignatureError:
    with pytest.raises(SignatureError) as raised:
        verifier.verify(*request)
    return raised.value


def _with(request: SignedRequest, *headers: Header, without: tuple[bytes, ...] = ()) -> SignedRequest:
    kept = [header for header in request.headers if header[0] not in without]
    return request._replace(headers=[*kept, *headers])


def _sign_as_written(target: str, **headers: str) -> SignedRequest:
    """Sign a GET by the definition, with the path and query in the canonical request as they are in the target."""
    path, _, query = target.partition("?")
    values = {"host": "h", "x-amz-content-sha256": UNSIGNED, "x-amz-date": EXAMPLE_TIME, **headers}
    canonical = "\n".join(
        [
            "GET",
            path,
            query,
            *(f"{name}:{values[name]}" for name in sorted(values)),
            "",
            ";".join(sorted(values)),
            UNSIGNED,
        ]
    )
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    text = f"AWS4-HMAC-SHA256\n{EXAMPLE_TIME}\n{EXAMPLE_SCOPE}\n{digest}"
    key = f"AWS4{EXAMPLE_SECRET}".encode()
    for part in EXAMPLE_SCOPE.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    return example_request("GET", target, hmac.new(key, text.encode(), "sha256").hexdigest(), values)


@pytest.mark.parametrize("request_", _EXAMPLES.values(), ids=_EXAMPLES)
def test_an_example_of_aws_is_accepted(request_: SignedRequest) -> None:
    signature = example_verifier().verify(*request_)

    assert signature.access_key == EXAMPLE_KEY
    assert signature.scope.decode() == EXAMPLE_SCOPE
    assert signature.timestamp.decode() == EXAMPLE_TIME
    assert signature.is_presigned == (b"X-Amz-Signature" in request_.target)
    assert b"host" in signature.signed_headers
    assert signature.payload == dict(request_.headers).get(b"x-amz-content-sha256", UNSIGNED.encode()).decode()


@given(secret=st.text(min_size=1, max_size=100), text=st.binary(max_size=300))
def test_a_prepared_key_signs_as_hmac_does(secret: str, text: bytes) -> None:
    key = b"AWS4" + secret.encode()
    for part in (b"20130524", b"us-east-1", b"s3", b"aws4_request"):
        key = hmac.digest(key, part, "sha256")

    signed = SigningKey(secret, b"20130524", b"us-east-1").sign(text)

    assert signed == hmac.new(key, text, "sha256").hexdigest().encode()


@given(call=_CALLS)
def test_whatever_botocore_signs_is_accepted(call: Callable[[Any], object]) -> None:
    request = _SIGNER.sign(call)

    signature = _verifier_of(request).verify(*request)

    assert signature.payload == _header(request, b"x-amz-content-sha256").decode()
    assert not signature.is_presigned


@given(call=_CALLS)
def test_whatever_botocore_signs_with_a_session_token_for_tls_is_accepted(call: Callable[[Any], object]) -> None:
    request = _TLS_SIGNER.sign(call)

    _verifier_of(request, "to/ken+==").verify(*request)


@given(key=_KEYS, disposition=_VISIBLE, expires_s=st.integers(1, 604800))
def test_whatever_botocore_presigns_is_accepted_until_it_expires(key: str, disposition: str, expires_s: int) -> None:
    parameters = {"Bucket": "bucket", "Key": key, "ResponseContentDisposition": disposition}
    request = _TLS_SIGNER.presign("get_object", parameters, ExpiresIn=expires_s)
    verifier, clock = _verifier_of(request, "to/ken+=="), ManualClock()
    began_s = verifier._clock.now_us() / 1e6
    verifier._clock = clock

    clock.now_s = began_s + expires_s
    signature = verifier.verify(*request)
    clock.now_s += 1
    late = _refusal(verifier, request)

    assert signature.is_presigned
    assert signature.payload == UNSIGNED
    assert (late.code, late.status, late.message) == ("AccessDenied", 403, "Request has expired")


def _meaning(request: SignedRequest, signed: tuple[bytes, ...]) -> object:
    """Return the meaning of a request: two requests that differ in none of it are the same to S3."""
    path, _, query = request.target.partition(b"?")
    pairs = sorted(parse_qsl(query.decode("latin-1"), keep_blank_values=True, encoding="latin-1"))
    headers = sorted((name, b" ".join(value.split())) for name, value in request.headers if name in signed)
    return request.method, unquote_to_bytes(path), pairs, headers


@given(data=st.data(), call=_CALLS)
def test_a_request_with_any_signed_byte_changed_is_refused(data: st.DataObject, call: Callable[[Any], object]) -> None:
    request = _SIGNER.sign(call)
    verifier = _verifier_of(request)
    signed = verifier.verify(*request).signed_headers
    fields = [request.method, request.target, *(value for name, value in request.headers if name in signed)]

    number = data.draw(st.integers(0, len(fields) - 1))
    at = data.draw(st.integers(0, max(0, len(fields[number]) - 1)))
    byte = data.draw(st.integers(33, 126))
    fields[number] = fields[number][:at] + bytes([byte]) + fields[number][at + 1 :]
    values = iter(fields[2:])
    headers = [(name, next(values) if name in signed else value) for name, value in request.headers]
    changed = SignedRequest(fields[0], fields[1], headers)

    assume(_meaning(changed, signed) != _meaning(request, signed))
    _refusal(verifier, changed)


@given(data=st.data(), key=_KEYS)
def test_a_presigned_url_with_any_byte_changed_is_refused(data: st.DataObject, key: str) -> None:
    request = _SIGNER.presign("get_object", {"Bucket": "bucket", "Key": key, "VersionId": "1"})
    verifier = _verifier_of(request)
    at, byte = data.draw(st.integers(0, len(request.target) - 1)), data.draw(st.integers(33, 126))
    changed = request._replace(target=request.target[:at] + bytes([byte]) + request.target[at + 1 :])

    assume(_meaning(changed, (b"host",)) != _meaning(request, (b"host",)))
    _refusal(verifier, changed)


@given(at=st.integers(0, 63), digit=st.sampled_from("0123456789abcdefABCDEF"))
def test_a_changed_signature_is_refused(at: int, digit: str) -> None:
    request = _EXAMPLES["a listing"]
    authorization = _header(request, b"authorization").decode()
    start = len(authorization) - 64 + at
    assume(authorization[start] != digit)
    changed = authorization[:start] + digit + authorization[start + 1 :]

    refusal = _refusal(
        example_verifier(), _with(request, (b"authorization", changed.encode()), without=(b"authorization",))
    )

    assert (refusal.code, refusal.status) == ("SignatureDoesNotMatch", 403)


def test_a_mismatch_names_the_canonical_request_that_the_client_should_have_signed() -> None:
    request = _with(_EXAMPLES["a listing"], (b"x-amz-date", b"20130524T000001Z"), without=(b"x-amz-date",))

    details = dict(_refusal(example_verifier(), request).details)

    assert details["CanonicalRequest"].splitlines()[:3] == ["GET", "/", "max-keys=2&prefix=J"]
    assert details["StringToSign"].splitlines()[:3] == ["AWS4-HMAC-SHA256", "20130524T000001Z", EXAMPLE_SCOPE]
    assert details["StringToSign"].splitlines()[3] == hashlib.sha256(details["CanonicalRequest"].encode()).hexdigest()
    assert EXAMPLE_SECRET not in str(details)


@pytest.mark.parametrize(
    ("canonical", "received"),
    [
        ("/a%20b", "/a%20b"),
        ("/a%2Bb", "/a+b"),
        ("/a%21%28c%29", "/a!(c)"),
        ("/caf%C3%A9", "/caf\u00e9"),
        ("/a/b", "/a%2fb"),
        ("//a/../b/./c//", "//a/../b/./c//"),
        ("/?prefix=a%20b", "/?prefix=a+b"),
        ("/?prefix=a%2Bb", "/?prefix=a%2bb"),
        ("/?prefix=a%3Db", "/?prefix=a=b"),
        ("/?a=&b=2&c=1&c=2", "/?c=2&c=1&b=2&a"),
        ("/?acl=", "/?acl&"),
        ("/?prefix=a%2Fb%3A%2A", "/?prefix=a/b:*"),
    ],
)
def test_path_and_query_are_received_in_other_forms_than_signed(canonical: str, received: str) -> None:
    signed = _sign_as_written(canonical)

    example_verifier().verify(*signed._replace(target=received.encode()))


@pytest.mark.parametrize("target", ["/a!(c)+d", "/a%2fb", "/?prefix=a/b", "/?prefix=a+b", "/a%41", "/a*?b=c'd"])
def test_a_path_or_query_that_is_signed_as_it_is_sent_is_accepted(target: str) -> None:
    request = _sign_as_written(target)

    example_verifier().verify(*request)


@pytest.mark.parametrize("target", [b"/a%2", b"/a%zz", b"/?a=%", b"/a#b", b"http://h/a", b"*", b""])
def test_a_target_that_is_no_path_and_query_is_refused(target: bytes) -> None:
    assert _refusal(example_verifier(), _EXAMPLES["a listing"]._replace(target=target)).code == "InvalidURI"


@pytest.mark.parametrize(
    ("signed", "received"),
    [("a b", [b"  a   b "]), ("a b", [b"a \t b"]), ("a,b c", [b" a", b"b  c "]), ("", [b""]), ("", [b"  "])],
)
def test_spaces_of_a_header_are_trimmed_and_repeated_headers_joined(signed: str, received: list[bytes]) -> None:
    request = _sign_as_written("/", **{"x-amz-meta-a": signed})
    headers = [(b"x-amz-meta-a", value) for value in received]

    example_verifier().verify(*_with(request, *headers, without=(b"x-amz-meta-a",)))


@pytest.mark.parametrize("presigned", [False, True])
@pytest.mark.parametrize("name", [b"x-amz-meta-a", b"x-amz-acl", b"x-amz-security-token"])
def test_an_unsigned_amz_header_is_refused(presigned: bool, name: bytes) -> None:
    request = _EXAMPLES["a presigned URL" if presigned else "a listing"]
    verifier = SignatureVerifier({EXAMPLE_KEY: Secret(EXAMPLE_SECRET, "t")}.get, ManualClock(seconds(EXAMPLE_TIME)))
    verifier = verifier if name == b"x-amz-security-token" else example_verifier()

    refusal = _refusal(verifier, _with(request, (name, b"t")))

    assert (refusal.code, refusal.status) == ("AccessDenied", 403)
    assert dict(refusal.details) == {"HeadersNotSigned": name.decode()}


def test_an_unsigned_payload_header_of_a_presigned_url_is_refused() -> None:
    request = _with(_EXAMPLES["a presigned URL"], (b"x-amz-content-sha256", _EMPTY.encode()))

    assert dict(_refusal(example_verifier(), request).details) == {"HeadersNotSigned": "x-amz-content-sha256"}


def test_other_unsigned_headers_are_accepted() -> None:
    added = [(b"user-agent", b"a"), (b"amz-sdk-request", b"attempt=1"), (b"content-type", b"b"), (b"accept", b"*/*")]

    example_verifier().verify(*_with(_EXAMPLES["a listing"], *added))


def test_a_signed_header_that_is_missing_is_refused() -> None:
    request = _with(_EXAMPLES["a range of an object"], without=(b"range",))

    assert _refusal(example_verifier(), request).code == "SignatureDoesNotMatch"


@pytest.mark.parametrize(
    ("replaced", "by", "code", "words"),
    [
        ("AWS4-HMAC-SHA256 ", "AWS4-ECDSA-P256-SHA256 ", "InvalidRequest", "4A"),
        ("AWS4-HMAC-SHA256 ", "Bearer ", "InvalidArgument", "Unsupported Authorization Type"),
        ("AWS4-HMAC-SHA256 ", "", "InvalidArgument", "Unsupported Authorization Type"),
        ("Credential=", "Credentials=", "AuthorizationHeaderMalformed", "missing Credential"),
        ("Signature=", "Credential=", "AuthorizationHeaderMalformed", "given once"),
        (",Signature=", "", "AuthorizationHeaderMalformed", "missing Signature"),
        ("/20130524/", "/2013-05-24/", "AuthorizationHeaderMalformed", "expecting"),
        ("/20130524/", "/20130523/", "AuthorizationHeaderMalformed", "not the same"),
        ("/s3/", "/s3express/", "AuthorizationHeaderMalformed", "S3 Express"),
        ("/s3/", "/sts/", "AuthorizationHeaderMalformed", "service"),
        ("/aws4_request", "/aws5_request", "AuthorizationHeaderMalformed", "aws4_request"),
        ("/us-east-1/", "//", "AuthorizationHeaderMalformed", "expecting"),
        ("/us-east-1/", "/eu-west-1/", "SignatureDoesNotMatch", "does not match"),
        ("host;", "", "AuthorizationHeaderMalformed", "include host"),
        ("host;", "Host;", "AuthorizationHeaderMalformed", "lower case"),
        ("host;", "host;;", "AuthorizationHeaderMalformed", "lower case"),
        (EXAMPLE_KEY, "AKIAOTHER", "InvalidAccessKeyId", "does not exist"),
    ],
)
def test_another_authorization_is_refused_with_the_code_of_s3(replaced: str, by: str, code: str, words: str) -> None:
    request = _EXAMPLES["a listing"]
    authorization = _header(request, b"authorization").decode()
    assert authorization.count(replaced) == 1
    changed = (b"authorization", authorization.replace(replaced, by).encode())

    refusal = _refusal(example_verifier(), _with(request, changed, without=(b"authorization",)))

    assert refusal.code == code
    assert words in refusal.message


@pytest.mark.parametrize(
    "order",
    [
        "AWS4-HMAC-SHA256 Credential={}, SignedHeaders={}, Signature={}",
        "AWS4-HMAC-SHA256 Credential={},SignedHeaders={},Signature={}",
        "AWS4-HMAC-SHA256   Credential={} , SignedHeaders={},  Signature={} ",
        "AWS4-HMAC-SHA256 Signature={2}, SignedHeaders={1}, Credential={0}",
    ],
)
def test_the_authorization_is_written_in_any_order_and_spacing(order: str) -> None:
    request = _EXAMPLES["a listing"]
    fields = re.findall(r"=([^,]+)", _header(request, b"authorization").decode())
    verifier = example_verifier()

    for _ in range(2):  # the second time from the cache
        authorization = (b"authorization", order.format(*fields).encode())
        verifier.verify(*_with(request, authorization, without=(b"authorization",)))


@pytest.mark.parametrize(
    ("replaced", "by", "code", "words"),
    [
        ("AWS4-HMAC-SHA256", "AWS4-ECDSA-P256-SHA256", "InvalidRequest", "4A"),
        ("AWS4-HMAC-SHA256", "AWS4-HMAC-SHA1", "AuthorizationQueryParametersError", "only supports"),
        ("X-Amz-Expires=86400", "", "AuthorizationQueryParametersError", "X-Amz-Expires"),
        ("=86400", "=0", "AuthorizationQueryParametersError", "positive"),
        ("=86400", "=-1", "AuthorizationQueryParametersError", "positive"),
        ("=86400", "=604801", "AuthorizationQueryParametersError", "less than a week"),
        ("=86400", "=1e3", "AuthorizationQueryParametersError", "number"),
        ("=86400", "=" + "9" * 5000, "AuthorizationQueryParametersError", "number"),
        ("=86400", "=86401", "SignatureDoesNotMatch", "does not match"),
        ("X-Amz-Date=2013", "X-Amz-Date=2012", "AuthorizationQueryParametersError", "not the same"),
        ("X-Amz-Date=2013", "X-Amz-Date=13", "AuthorizationQueryParametersError", "ISO8601"),
        ("%2Fs3%2F", "%2Fs3express%2F", "AuthorizationQueryParametersError", "S3 Express"),
        ("SignedHeaders=host", "SignedHeaders=range", "AuthorizationQueryParametersError", "include host"),
        ("X-Amz-Expires", "X-Amz-Date=1&X-Amz-Expires", "AuthorizationQueryParametersError", "once"),
        ("X-Amz-Algorithm", "x-amz-algorithm", "AccessDenied", "not signed"),
    ],
)
def test_another_presigned_url_is_refused_with_the_code_of_s3(replaced: str, by: str, code: str, words: str) -> None:
    assert _PRESIGNED.count(replaced) == 1
    request = _EXAMPLES["a presigned URL"]._replace(target=_PRESIGNED.replace(replaced, by).encode())

    refusal = _refusal(example_verifier(), request)

    assert refusal.code == code
    assert words in refusal.message


def test_a_request_without_a_signature_is_refused() -> None:
    refusal = _refusal(example_verifier(), SignedRequest(b"GET", b"/a", [(b"host", b"h")]))

    assert (refusal.code, refusal.status) == ("AccessDenied", 403)


def test_a_request_that_is_signed_twice_is_refused() -> None:
    authorization = _header(_EXAMPLES["a listing"], b"authorization")

    assert _refusal(example_verifier(), _with(_EXAMPLES["a listing"], (b"authorization", authorization))).status == 400
    request = _with(_EXAMPLES["a presigned URL"], (b"authorization", authorization))
    assert _refusal(example_verifier(), request).code == "InvalidArgument"


@pytest.mark.parametrize(
    ("now", "code"),
    [
        ("20130524T001500Z", None),
        ("20130524T001501Z", "RequestTimeTooSkewed"),
        ("20130523T234500Z", None),
        ("20130523T234459Z", "RequestTimeTooSkewed"),
    ],
)
def test_a_signature_of_another_time_is_refused(now: str, code: str | None) -> None:
    verifier, request = example_verifier(now), _EXAMPLES["a listing"]

    if code is None:
        verifier.verify(*request)
    else:
        assert (_refusal(verifier, request).code, _refusal(verifier, request).status) == (code, 403)


@pytest.mark.parametrize(
    ("now", "message"),
    [("20130525T000001Z", "Request has expired"), ("20130523T234459Z", "Request is not valid yet")],
)
def test_a_presigned_url_outside_of_its_time_is_refused(now: str, message: str) -> None:
    refusal = _refusal(example_verifier(now), _EXAMPLES["a presigned URL"])

    assert (refusal.code, refusal.message) == ("AccessDenied", message)


@pytest.mark.parametrize("date", [b"", b"20130524", b"20130524T250000Z", b"20131324T000000Z", b"Fri, 24 May 2013"])
def test_a_malformed_date_is_refused(date: bytes) -> None:
    request = _with(_EXAMPLES["a listing"], (b"x-amz-date", date), without=(b"x-amz-date",))

    assert _refusal(example_verifier(), request).code == "AccessDenied"


@pytest.mark.parametrize("zone", ["00:00:00 GMT", "00:00:00 -0000", "01:00:00 +0100"])  # botocore writes the second one
def test_the_date_header_counts_where_there_is_no_amz_date(zone: str) -> None:
    request = _sign_as_written("/", date=f"Fri, 24 May 2013 {zone}")
    authorization = _header(request, b"authorization").decode()

    # The signature covers x-amz-date here, so only the time is read from the date.
    refusal = _refusal(example_verifier(), _with(request, without=(b"x-amz-date",)))

    assert "x-amz-date" in authorization
    assert (refusal.code, refusal.message) == (
        "SignatureDoesNotMatch",
        "The signed header x-amz-date is not in the request.",
    )


@pytest.mark.parametrize(
    "payload", [UNSIGNED, SIGNED_CHUNKS, SIGNED_CHUNKS_TRAILER, UNSIGNED_CHUNKS_TRAILER, "ab" * 32, "AB" * 32]
)
def test_each_kind_of_payload_is_accepted(payload: str) -> None:
    assert _sign_payload(payload) == payload


def _sign_payload(payload: str) -> str:
    """Return the payload of a request that is signed with it, as verified."""
    values = {"host": "h", "x-amz-content-sha256": payload, "x-amz-date": EXAMPLE_TIME}
    lines = [*(f"{name}:{value}" for name, value in values.items()), "", ";".join(values), payload]
    digest = hashlib.sha256("\n".join(["PUT", "/a", "", *lines]).encode()).hexdigest()
    text = f"AWS4-HMAC-SHA256\n{EXAMPLE_TIME}\n{EXAMPLE_SCOPE}\n{digest}".encode()
    signature = SigningKey(EXAMPLE_SECRET, b"20130524", b"us-east-1").sign(text).decode()
    return example_verifier().verify(*example_request("PUT", "/a", signature, values)).payload


@pytest.mark.parametrize(
    ("payload", "code"),
    [
        (b"", "InvalidArgument"),
        (b"ab", "InvalidArgument"),
        (b"unsigned-payload", "InvalidArgument"),
        (b"STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD", "InvalidRequest"),
        (None, "InvalidRequest"),
    ],
)
def test_another_payload_is_refused(payload: bytes | None, code: str) -> None:
    added = [(b"x-amz-content-sha256", payload)] if payload is not None else []
    request = _with(_EXAMPLES["a listing"], *added, without=(b"x-amz-content-sha256",))

    assert _refusal(example_verifier(), request).code == code


@pytest.mark.parametrize(
    ("token", "expires_s", "code", "status"),
    [
        ("to/ken+==", 1, None, 0),
        ("to/ken+==", 0, "ExpiredToken", 400),
        ("other", 1, "InvalidToken", 400),
        (None, None, "InvalidToken", 400),
    ],
)
def test_a_session_token_must_be_the_key_s_and_not_expired(
    token: str | None, expires_s: int | None, code: str | None, status: int
) -> None:
    request = _TLS_SIGNER.sign(lambda client: client.get_object(Bucket="bucket", Key="key"))
    now_s = seconds(_header(request, b"x-amz-date").decode())
    expires_us = None if expires_s is None else round((now_s + expires_s) * 1e6)
    verifier = SignatureVerifier({EXAMPLE_KEY: Secret(EXAMPLE_SECRET, token, expires_us)}.get, ManualClock(now_s))

    if code is None:
        verifier.verify(*request)
    else:
        refusal = _refusal(verifier, request)
        assert (refusal.code, refusal.status) == (code, status)
        assert dict(refusal.details) == {"AWSAccessKeyId": EXAMPLE_KEY}


def test_a_temporary_key_without_its_token_is_unknown() -> None:
    verifier = SignatureVerifier({EXAMPLE_KEY: Secret(EXAMPLE_SECRET, "t")}.get, ManualClock(seconds(EXAMPLE_TIME)))

    assert _refusal(verifier, _EXAMPLES["a listing"]).code == "InvalidAccessKeyId"


def test_an_empty_token_is_not_the_token_of_a_key_without_one() -> None:
    request = _sign_as_written("/", **{"x-amz-security-token": ""})

    assert _refusal(example_verifier(), request).code == "InvalidToken"


def test_a_region_may_be_required() -> None:
    request = _SIGNER.sign(lambda client: client.get_object(Bucket="bucket", Key="key"))

    _verifier_of(request, region="eu-central-1").verify(*request)
    refusal = _refusal(_verifier_of(request, region="us-east-1"), request)

    assert refusal.code == "AuthorizationHeaderMalformed"
    assert "expecting 'us-east-1'" in refusal.message


def test_a_rotated_secret_is_used_at_once_and_the_former_one_is_refused() -> None:
    secrets = {EXAMPLE_KEY: Secret(EXAMPLE_SECRET)}
    verifier = SignatureVerifier(secrets.get, ManualClock(seconds(EXAMPLE_TIME)))
    verifier.verify(*_EXAMPLES["a listing"])

    secrets[EXAMPLE_KEY] = Secret("another")
    assert _refusal(verifier, _EXAMPLES["a listing"]).code == "SignatureDoesNotMatch"
    secrets[EXAMPLE_KEY] = Secret(EXAMPLE_SECRET)
    verifier.verify(*_EXAMPLES["a listing"])


def test_a_cached_authorization_does_not_admit_another_request() -> None:
    verifier = example_verifier()
    verifier.verify(*_EXAMPLES["a listing"])
    verifier.verify(*_EXAMPLES["a parameter without a value"])

    assert _refusal(verifier, _EXAMPLES["a listing"]._replace(target=b"/?lifecycle")).code == "SignatureDoesNotMatch"


def test_strangers_fill_no_cache_and_known_keys_a_bounded_one() -> None:
    verifier, request = example_verifier(), _EXAMPLES["a listing"]
    authorization = _header(request, b"authorization").decode()
    for number in range(50):
        other = authorization.replace("us-east-1", f"region-{number}").encode()
        _refusal(verifier, _with(request, (b"authorization", other), without=(b"authorization",)))
    assert not verifier._claims
    assert not verifier._keys

    verifier.verify(*request)
    assert len(verifier._claims) == len(verifier._keys) == 1


def test_caches_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("burstcache.gateway.signatures._MAX_CACHED", 3)
    verifier = example_verifier()

    for number in range(10):
        request = _sign_as_written("/", **{f"x-amz-meta-{number}": "a"})
        verifier.verify(*request)
        verifier.verify(*request)

    assert 0 < len(verifier._claims) <= 3


def test_names_of_signed_headers_are_sorted_and_counted_once() -> None:
    request = _EXAMPLES["a listing"]
    authorization = _header(request, b"authorization")
    other = authorization.replace(b"host;x-amz-content-sha256;x-amz-date", b"x-amz-date;host;x-amz-content-sha256;host")

    example_verifier().verify(*_with(request, (b"authorization", other), without=(b"authorization",)))


def test_a_secret_is_not_printed() -> None:
    assert EXAMPLE_SECRET not in repr(Secret(EXAMPLE_SECRET, EXAMPLE_SECRET))
