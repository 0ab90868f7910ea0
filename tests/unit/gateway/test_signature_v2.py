"""Verification of signature version 2: AWS's published examples, botocore as the signer, and S3's errors."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any
from unittest.mock import patch
from urllib.parse import parse_qsl, quote, unquote_to_bytes

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from burstcache.gateway.s3_requests import Targets, parse_target
from burstcache.gateway.signature_v2 import Version2Verifier, is_version_2
from burstcache.gateway.signatures import UNSIGNED, UNSIGNED_CHUNKS_TRAILER, Header, Secret, SignatureError
from support.clock import ManualClock
from support.signing import EXAMPLE_KEY, EXAMPLE_SECRET, BotocoreSigner, SignedRequest

_HOST = "s3.example:9000"
_PATH_STYLE = BotocoreSigner(f"http://{_HOST}", signature_version="s3", s3={"addressing_style": "path"})
_VIRTUAL = BotocoreSigner(f"http://{_HOST}", "to/ken+==", signature_version="s3", s3={"addressing_style": "virtual"})
_TARGETS = Targets(("s3.example",))
_KEYS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=30)
_VISIBLE = st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=1, max_size=30)
_EXPIRES_S = 1175139620
# Examples of the S3 User Guide, "Signing and authenticating REST requests (AWS signature version 2)".
_EXAMPLES = {
    "object GET": ("GET", "/photos/puppy.jpg", "johnsmith", {"date": "Tue, 27 Mar 2007 19:36:42 +0000"}),
    "object PUT": (
        "PUT",
        "/photos/puppy.jpg",
        "johnsmith",
        {"date": "Tue, 27 Mar 2007 21:15:45 +0000", "content-type": "image/jpeg"},
    ),
    "list": (
        "GET",
        "/?prefix=photos&max-keys=50&marker=puppy",
        "johnsmith",
        {"date": "Tue, 27 Mar 2007 19:42:41 +0000"},
    ),
    "fetch": ("GET", "/?acl", "johnsmith", {"date": "Tue, 27 Mar 2007 19:44:46 +0000"}),
    "list all my buckets": ("GET", "/", "", {"date": "Wed, 28 Mar 2007 01:29:59 +0000"}),
    "Unicode keys": (
        "GET",
        "/dictionary/fran%C3%A7ais/pr%c3%a9f%c3%a8re",
        "",
        {"date": "Wed, 28 Mar 2007 01:49:49 +0000"},
    ),
}
_SIGNATURES = {
    "object GET": "bWq2s1WEIj+Ydj0vQ697zp+IXMU=",
    "object PUT": "MyyxeRY7whkBe+bq8fHCL/2kKUg=",
    "list": "htDYFYduRNen8P9ZfE/s9SuKy0U=",
    "fetch": "c2WLPFtWHVgbEmeEG93a4cG37dM=",
    "list all my buckets": "qGdzdERIC03wnaRNKh6OqZehG9s=",
    "Unicode keys": "DNEZGsoieTZ92F3bUfSPQcbGmlM=",
}


def _verifier(now_s: float, token: str | None = None) -> Version2Verifier:
    return Version2Verifier({EXAMPLE_KEY: Secret(EXAMPLE_SECRET, token)}.get, ManualClock(now_s))


def _bucket(request: SignedRequest) -> str:
    return _TARGETS.bucket_of(dict(request.headers)[b"host"])


def _refusal(verifier: Version2Verifier, request: SignedRequest, bucket: str = "") -> SignatureError:
    with pytest.raises(SignatureError) as raised:
        verifier.verify(*request, bucket)
    return raised.value


def _example(name: str) -> tuple[SignedRequest, str, float]:
    method, target, bucket, headers = _EXAMPLES[name]
    lines = [*headers.items(), ("authorization", f"AWS {EXAMPLE_KEY}:{_SIGNATURES[name]}")]
    request = SignedRequest(method.encode(), target.encode(), [(n.encode(), v.encode()) for n, v in lines])
    return request, bucket, time.mktime(time.strptime(headers["date"][5:25] + " GMT", "%d %b %Y %H:%M:%S %Z"))


def _presigned(request: SignedRequest) -> tuple[SignedRequest, int]:
    found = re.search(rb"[?&]Expires=([0-9]+)", request.target)
    assert found is not None
    return request, int(found[1])


@pytest.mark.parametrize("name", _EXAMPLES)
def test_an_example_of_aws_is_accepted(name: str) -> None:
    request, bucket, at_s = _example(name)

    signature = _verifier(at_s).verify(*request, bucket)

    assert (signature.access_key, signature.is_presigned, signature.version) == (EXAMPLE_KEY, False, "SigV2")
    assert signature.payload == UNSIGNED
    assert is_version_2(request.target, dict(request.headers)[b"authorization"])
    assert _refusal(_verifier(at_s + 901), request, bucket).code == "RequestTimeTooSkewed"
    assert _refusal(_verifier(at_s), request._replace(method=b"DELETE"), bucket).code == "SignatureDoesNotMatch"


def _calls(draw: st.DrawFn) -> Callable[[Any], object]:
    key = draw(_KEYS)
    operation = draw(st.sampled_from(["get", "head", "list", "put", "acl", "part", "delete"]))
    if operation == "get":
        kind = draw(_VISIBLE)
        return lambda client: client.get_object(Bucket="bucket", Key=key, Range="bytes=0-9", ResponseContentType=kind)
    if operation == "head":
        return lambda client: client.head_object(Bucket="bucket", Key=key, PartNumber=1)
    if operation == "list":
        return lambda client: client.list_objects_v2(Bucket="bucket", Prefix=key, Delimiter="/", ContinuationToken=key)
    if operation == "put":
        body, metadata = draw(st.binary(max_size=20)), draw(st.dictionaries(st.sampled_from("abc"), _VISIBLE))
        return lambda client: client.put_object(
            Bucket="bucket", Key=key, Body=body, Metadata=metadata, ContentType="text/x-test"
        )
    if operation == "acl":
        return lambda client: client.get_object_acl(Bucket="bucket", Key=key)
    if operation == "part":
        return lambda client: client.upload_part(Bucket="bucket", Key=key, UploadId="a/b+c", PartNumber=2, Body=b"1")
    return lambda client: client.delete_object(Bucket="bucket", Key=key, VersionId="a b")


@given(call=st.composite(_calls)(), is_virtual=st.booleans())
def test_whatever_botocore_signs_is_accepted(call: Callable[[Any], object], is_virtual: bool) -> None:
    request = (_VIRTUAL if is_virtual else _PATH_STYLE).sign(call)

    signature = _verifier(time.time(), "to/ken+==" if is_virtual else None).verify(*request, _bucket(request))

    assert _bucket(request) == ("bucket" if is_virtual else "")
    assert (signature.version, signature.is_presigned) == ("SigV2", False)


@given(key=_KEYS, disposition=_VISIBLE, expires_s=st.integers(1, 10**9), is_virtual=st.booleans())
def test_whatever_botocore_presigns_is_accepted_until_it_expires(
    key: str, disposition: str, expires_s: int, is_virtual: bool
) -> None:
    parameters = {"Bucket": "bucket", "Key": key, "VersionId": "a+b", "ResponseContentDisposition": disposition}
    signer, token = (_VIRTUAL, "to/ken+==") if is_virtual else (_PATH_STYLE, None)
    request, end_s = _presigned(signer.presign("get_object", parameters, ExpiresIn=expires_s))

    signature = _verifier(end_s, token).verify(*request, _bucket(request))
    late = _refusal(_verifier(end_s + 1, token), request, _bucket(request))

    assert is_version_2(request.target, None)
    assert (signature.is_presigned, signature.payload, signature.access_key) == (True, UNSIGNED, EXAMPLE_KEY)
    assert (late.code, late.status, late.message) == ("AccessDenied", 403, "Request has expired")
    target = parse_target(request.target, _bucket(request))
    assert (target.bucket, target.key, target.headers) == ("bucket", key, ())
    assert sorted(target.query) == [("response-content-disposition", disposition), ("versionId", "a+b")]


@given(key=_KEYS, value=_VISIBLE)
def test_headers_that_botocore_moves_to_the_query_are_signed_and_reach_s3(key: str, value: str) -> None:
    parameters = {
        "Bucket": "bucket",
        "Key": key,
        "Metadata": {"a": value},
        "ContentType": "text/x-test",
        "ACL": "private",
    }
    request, end_s = _presigned(_PATH_STYLE.presign("put_object", parameters))
    request = request._replace(method=b"PUT", headers=[*request.headers, (b"content-type", b"text/x-test")])

    _verifier(end_s).verify(*request)

    assert dict(parse_target(request.target, "").headers)["x-amz-acl"] == "private"
    changed = request._replace(target=request.target.replace(b"x-amz-acl=private", b"x-amz-acl=public-read"))
    assert _refusal(_verifier(end_s), changed).code == "SignatureDoesNotMatch"
    changed = request._replace(headers=[*request.headers[:-1], (b"content-type", b"text/html")])
    assert _refusal(_verifier(end_s), changed).code == "SignatureDoesNotMatch"


def _meaning(target: bytes) -> object:
    """Return the meaning of a request's target: two that differ in none of it are the same to S3."""
    path, _, query = target.partition(b"?")
    pairs = parse_qsl(query.decode("latin-1"), keep_blank_values=True, encoding="latin-1")
    return unquote_to_bytes(path), sorted(pairs)


@given(data=st.data(), key=_KEYS)
def test_a_presigned_url_with_any_byte_changed_is_refused(data: st.DataObject, key: str) -> None:
    parameters = {"Bucket": "bucket", "Key": key, "VersionId": "1"}
    with patch("botocore.auth.time.time", return_value=_EXPIRES_S):  # the URL's length depends on the signature
        request, end_s = _presigned(_PATH_STYLE.presign("get_object", parameters))
    at, byte = data.draw(st.integers(0, len(request.target) - 1)), data.draw(st.integers(33, 126))
    changed = request._replace(target=request.target[:at] + bytes([byte]) + request.target[at + 1 :])

    assume(_meaning(changed.target) != _meaning(request.target))
    _refusal(_verifier(end_s), changed)


@pytest.mark.parametrize(
    "added",
    [
        "acl",
        "tagging",
        "retention",
        "legal-hold=",
        "renameObject",
        "uploadId=1",
        "%61cl",
        "response-expires=1",
        "unknown",
    ],
)
def test_a_parameter_that_selects_another_operation_cannot_be_added(added: str) -> None:
    request, end_s = _presigned(_PATH_STYLE.presign("put_object", {"Bucket": "bucket", "Key": "key"}))
    request = request._replace(method=b"PUT")
    _verifier(end_s).verify(*request)

    refusal = _refusal(_verifier(end_s), request._replace(target=request.target + b"&" + added.encode()))

    assert (refusal.code, refusal.status) == ("SignatureDoesNotMatch", 403)


@pytest.mark.parametrize(
    "added", [(b"x-amz-acl", b"public-read"), (b"x-amz-copy-source", b"/b/k"), (b"content-md5", b"1")]
)
def test_a_header_that_was_not_signed_cannot_be_added(added: Header) -> None:
    request, end_s = _presigned(_PATH_STYLE.presign("put_object", {"Bucket": "bucket", "Key": "key"}))
    request = request._replace(method=b"PUT", headers=[*request.headers, added])

    assert _refusal(_verifier(end_s), request).code == "SignatureDoesNotMatch"


def test_the_host_names_the_bucket_that_was_signed() -> None:
    request, end_s = _presigned(_VIRTUAL.presign("get_object", {"Bucket": "bucket", "Key": "key"}))
    verifier = _verifier(end_s, "to/ken+==")

    verifier.verify(*request, "bucket")

    assert _refusal(verifier, request, "other").code == "SignatureDoesNotMatch"
    assert _refusal(verifier, request).code == "SignatureDoesNotMatch"


def test_a_path_is_received_in_another_form_than_signed() -> None:
    request, end_s = _presigned(_PATH_STYLE.presign("get_object", {"Bucket": "bucket", "Key": "a!(b)"}))
    assert b"/bucket/a%21%28b%29?" in request.target

    _verifier(end_s).verify(*request._replace(target=request.target.replace(b"a%21%28b%29", b"a!(b)")))


def _target(**parameters: str) -> bytes:
    defaults = {
        "AWSAccessKeyId": EXAMPLE_KEY,
        "Signature": "NpgCjnDzrM%2BWFzoENXmpNDUsSn8%3D",
        "Expires": f"{_EXPIRES_S}",
    }
    pairs = "&".join(f"{name}={value}" for name, value in (defaults | parameters).items() if value)
    return f"/photos/puppy.jpg?{pairs}".encode()


def test_the_presigned_example_of_aws_is_accepted() -> None:
    signature = _verifier(_EXPIRES_S).verify(b"GET", _target() + b"&prefix=unsigned", [(b"host", b"h")], "johnsmith")

    assert signature.is_presigned


@pytest.mark.parametrize(
    ("target", "code", "words"),
    [
        (_target(Expires=""), "AccessDenied", "requires the Signature, Expires"),
        (_target(Signature=""), "AccessDenied", "requires the Signature, Expires"),
        (_target(AWSAccessKeyId=""), "AccessDenied", "requires the Signature, Expires"),
        (_target() + b"&Expires=1", "AccessDenied", "each once"),
        (_target(Expires="") + b"&Signature=a", "AccessDenied", "each once"),
        (_target(Expires="tomorrow"), "AccessDenied", "Invalid date"),
        (_target(Expires="-1"), "AccessDenied", "Invalid date"),
        (_target(Expires="1"), "AccessDenied", "Request has expired"),
        (_target(AWSAccessKeyId="AKIDOFNOBODY"), "InvalidAccessKeyId", "does not exist"),
        (_target(**{"x-amz-security-token": "t"}), "InvalidToken", "token"),
        (_target(**{"x-amz-meta-a": quote("b\nx-amz-acl:private")}), "InvalidArgument", "malformed"),
        (_target(**{"x-amz-meta-a%3Ab": "c"}), "InvalidArgument", "malformed"),
        (_target() + b"#a", "InvalidURI", "parse"),
    ],
)
def test_another_presigned_url_is_refused_with_the_code_of_s3(target: bytes, code: str, words: str) -> None:
    refusal = _refusal(_verifier(_EXPIRES_S), SignedRequest(b"GET", target, [(b"host", b"h")]))

    assert refusal.code == code
    assert words in refusal.message


@pytest.mark.parametrize(
    ("authorization", "query", "date", "code"),
    [
        ("AWS ", "", "Tue, 27 Mar 2007 19:36:42 +0000", "InvalidArgument"),
        ("AWS key", "", "Tue, 27 Mar 2007 19:36:42 +0000", "InvalidArgument"),
        ("AWS key:", "", "Tue, 27 Mar 2007 19:36:42 +0000", "InvalidArgument"),
        ("AWS key:c2ln", "", "Tue, 27 Mar 2007 19:36:42 +0000", "InvalidAccessKeyId"),
        ("AWS key:c2ln", "", "1175024202", "AccessDenied"),
        ("AWS key:c2ln", "", "", "AccessDenied"),
        ("AWS key:c2ln", "?Signature=a", "Tue, 27 Mar 2007 19:36:42 +0000", "InvalidArgument"),
        ("AWS key:c2ln", "?X-Amz-Algorithm=a", "Tue, 27 Mar 2007 19:36:42 +0000", "InvalidArgument"),
    ],
)
def test_another_authorization_is_refused_with_the_code_of_s3(
    authorization: str, query: str, date: str, code: str
) -> None:
    headers = [(b"authorization", authorization.encode()), (b"date", date.encode())]

    refusal = _refusal(_verifier(1175024202), SignedRequest(b"GET", f"/b/k{query}".encode(), headers))

    assert refusal.code == code


def test_a_mismatch_names_the_string_that_the_client_should_have_signed() -> None:
    request, bucket, at_s = _example("fetch")

    refusal = _refusal(_verifier(at_s), request._replace(target=b"/?acl&prefix=a&versions"), bucket)

    expected = "GET\n\n\nTue, 27 Mar 2007 19:44:46 +0000\n/johnsmith/?acl&versions"
    assert dict(refusal.details)["StringToSign"] == expected
    assert EXAMPLE_SECRET not in str(refusal.details)


@pytest.mark.parametrize(
    ("headers", "payload"),
    [
        ({"x-amz-content-sha256": "a" * 64}, "a" * 64),
        ({"x-amz-content-sha256": UNSIGNED}, UNSIGNED),
        ({"x-amz-decoded-content-length": "3"}, UNSIGNED_CHUNKS_TRAILER),
        ({"x-amz-content-sha256": "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"}, None),
    ],
)
def test_the_payload_is_unsigned_unless_a_header_has_its_digest(headers: dict[str, str], payload: str | None) -> None:
    def put(client: Any) -> None:
        def add(request: Any, **_: object) -> None:
            for name, value in headers.items():
                request.headers[name] = value

        client.meta.events.register_first("before-sign.s3", add)
        client.put_object(Bucket="bucket", Key="key")

    request = BotocoreSigner(f"http://{_HOST}", signature_version="s3").sign(put)

    if payload is None:
        assert _refusal(_verifier(time.time()), request).code == "InvalidArgument"
    else:
        assert _verifier(time.time()).verify(*request).payload == payload


@pytest.mark.parametrize(
    ("target", "authorization", "expected"),
    [
        (b"/b/k", None, False),
        (b"/b/k", b"AWS key:signature", True),
        (b"/b/k", b"AWS4-HMAC-SHA256 Credential=a", False),
        (b"/b/k?a=b&Signature=a", None, True),
        (b"/b/k?AWSAccessKeyId=a", None, True),
        (b"/b/k?X-Amz-Algorithm=a&X-Amz-Signature=b", None, False),
        (b"/b/k?X-Amz-Algorithm=a&Signature=b", None, False),
    ],
)
def test_requests_of_version_2_are_told_apart(target: bytes, authorization: bytes | None, expected: bool) -> None:
    assert is_version_2(target, authorization) is expected
