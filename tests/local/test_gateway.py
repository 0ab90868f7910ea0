"""The gateway in front of moto: its answers beside S3's own, cold and hot, its writes, and its forward proxy."""

from __future__ import annotations

import gzip
import http.client
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlsplit

import boto3
import pytest
from botocore.auth import S3SigV4Auth, S3SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials
from botocore.exceptions import ClientError

from burstcache_local.moto.server import MotoServer
from burstcache_local.moto.services import Services
from support.gateway_process import gateway

pytestmark = pytest.mark.slow

BUCKET, REGION = "gateway-tests", "us-east-1"
KEYS, OTHER_KEYS = ("AKIDOFTHECLIENT", "secret-of-the-client"), ("AKIDOFANOTHER", "secret-of-another")
OWN = ("AKIDOFTHEGATEWAY", "secret-of-the-gateway")
SMALL, LARGE = b"0123456789" * 100, os.urandom(9 << 20)
OBJECTS: Mapping[str, bytes] = {
    "small": SMALL,
    "empty": b"",
    "odd/a b+c=ä%41&x": b"odd",
    "zipped": gzip.compress(b"zipped"),
    "large": LARGE,
}
# Headers that differ between two answers to one request.
_VARYING = {"date", "server", "x-amz-request-id", "x-amzn-requestid", "connection", "transfer-encoding"}
# moto's own, which S3 does not send.
_OF_MOTO = {"access-control-allow-origin", "x-amz-sdk-checksum-algorithm", "x-amz-content-sha256"}
_OF_CACHE = {"age", "x-cache", "x-cache-tier", "x-cache-bound"}


@dataclass
class WatchedS3:
    """A real S3 protocol server that counts its requests, holds them up, and refuses a caller."""

    url: str = ""
    requests: list[tuple[str, str, int]] = field(default_factory=list)
    refused: str = "no such access key"
    held: threading.Event | None = None  # answers wait for it
    arrived: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))

    def client(self, **arguments: Any) -> Any:
        """Return a client for it, or for a gateway."""
        keys = dict(zip(("aws_access_key_id", "aws_secret_access_key"), KEYS, strict=True))
        config = Config(retries={"total_max_attempts": 1}, signature_version="s3v4", s3={"addressing_style": "path"})
        if "proxies" in arguments:
            config = config.merge(Config(proxies=arguments.pop("proxies")))
        return boto3.client(
            "s3", **{"endpoint_url": self.url, "region_name": REGION, "config": config} | keys | arguments
        )

    def drain(self, method: str = "GET") -> list[tuple[str, int]]:
        """Return the requests with this method since the last call."""
        found = [(path, status) for each, path, status in self.requests if each == method]
        self.requests.clear()
        return found

    def middleware(self, application: Callable[..., Iterable[bytes]]) -> Callable[..., Iterable[bytes]]:
        """Wrap moto's application."""

        def serve(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
            if self.refused in environ.get("HTTP_AUTHORIZATION", ""):
                start_response("403 Forbidden", [("content-type", "application/xml")])
                return [b"<Error><Code>AccessDenied</Code></Error>"]

            def start(status: str, headers: list[tuple[str, str]], *error: Any) -> Any:
                self.requests.append((environ["REQUEST_METHOD"], environ["PATH_INFO"], int(status[:3])))
                return start_response(status, headers, *error)

            self.arrived.release()
            if (held := self.held) is not None:
                assert held.wait(60)
            return application(environ, start)

        return serve


@contextmanager
def watched_s3() -> Iterator[WatchedS3]:
    """Run the server for the duration of a `with`."""
    watched, services = WatchedS3(), Services()
    server = MotoServer(services, before=lambda application: watched.middleware(application))
    try:
        watched.url = server.start()
        try:
            watched.client().create_bucket(Bucket=BUCKET)
            yield watched
        finally:
            server.stop()
    finally:
        services.close()


@pytest.fixture(scope="module")
def s3() -> Iterator[WatchedS3]:
    with watched_s3() as watched:
        client = watched.client()
        for key, body in OBJECTS.items():
            encoding = {"ContentEncoding": "gzip"} if key == "zipped" else {}
            client.put_object(
                Bucket=BUCKET, Key=key, Body=body, ContentType="text/x-test", Metadata={"colour": "blue"}, **encoding
            )
        yield watched


@pytest.fixture(scope="module", params=["memory", "disk", "processes"])
def url(request: pytest.FixtureRequest, s3: WatchedS3, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    options = {
        "memory": [],
        "disk": ["--memory-mib", "0", "--disk", str(tmp_path_factory.mktemp("disk"))],
        "processes": ["--processes", "2"],
    }
    with gateway(s3.url, BUCKET, dict([KEYS]), OWN, [*options[request.param], "--forward-proxy"]) as running:
        yield running


def sent(
    url: str, method: str, path: str, headers: Mapping[str, str] | None = None
) -> tuple[int, dict[str, str], bytes]:
    """Send a signed request on a connection of its own, and return status, headers and body."""
    request = AWSRequest(method=method, url=url + path, headers=dict(headers or {}))
    S3SigV4Auth(Credentials(*KEYS), "s3", REGION).add_auth(request)
    address = urlsplit(url)
    assert address.hostname
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=60)
    try:
        connection.request(method, path, headers=dict(request.headers.items()))
        response = connection.getresponse()
        return response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()
    finally:
        connection.close()


ETAG, OLD, NEW = '"781e5e245d69b566979b86e28d23f2c7"', "Mon, 01 Jan 2001 00:00:00 GMT", "Tue, 01 Jan 2030 00:00:00 GMT"
READS: Mapping[str, tuple[str, str, dict[str, str]]] = {
    **{f"get {key}": ("GET", f"/{BUCKET}/{quote(key)}", {}) for key in OBJECTS},
    **{f"head {key}": ("HEAD", f"/{BUCKET}/{quote(key)}", {}) for key in OBJECTS},
    "first bytes": ("GET", f"/{BUCKET}/small", {"Range": "bytes=0-9"}),
    "last bytes": ("GET", f"/{BUCKET}/small", {"Range": "bytes=-7"}),
    "from an offset": ("GET", f"/{BUCKET}/small", {"Range": "bytes=990-"}),
    "a range across slices": ("GET", f"/{BUCKET}/large", {"Range": "bytes=262100-524400"}),
    "a long range": ("GET", f"/{BUCKET}/large", {"Range": "bytes=100-5000000"}),
    "a range beyond the end": ("GET", f"/{BUCKET}/small", {"Range": "bytes=5000-6000"}),
    "a range beyond a large end": ("GET", f"/{BUCKET}/large", {"Range": "bytes=50000000-"}),
    "a malformed range": ("GET", f"/{BUCKET}/small", {"Range": "bytes=9-3"}),
    "head of a range": ("HEAD", f"/{BUCKET}/large", {"Range": "bytes=5-9"}),
    "the same etag": ("GET", f"/{BUCKET}/small", {"If-None-Match": ETAG}),
    "another etag": ("GET", f"/{BUCKET}/small", {"If-None-Match": '"other"'}),
    "if the etag matches": ("GET", f"/{BUCKET}/small", {"If-Match": ETAG}),
    "if another etag matches": ("GET", f"/{BUCKET}/small", {"If-Match": '"other"'}),
    "if modified since": ("GET", f"/{BUCKET}/small", {"If-Modified-Since": OLD}),
    "if unmodified since": ("GET", f"/{BUCKET}/small", {"If-Unmodified-Since": OLD}),
    "absent": ("GET", f"/{BUCKET}/absent", {}),
    "absent head": ("HEAD", f"/{BUCKET}/absent", {}),
    "absent bucket": ("GET", "/absent-bucket/key", {}),
    "type overridden": ("GET", f"/{BUCKET}/small?response-content-type=text%2Fother", {}),
    "attachment": ("GET", f"/{BUCKET}/small?response-content-disposition=attachment%3B%20filename%3Da.txt", {}),
    "sdk's operation": ("GET", f"/{BUCKET}/small?x-id=GetObject", {}),
    "tags": ("GET", f"/{BUCKET}/small?tagging", {}),
    "acl": ("GET", f"/{BUCKET}/small?acl", {}),
    "list": ("GET", f"/{BUCKET}?list-type=2&prefix=odd%2F&encoding-type=url", {}),
    "location": ("GET", f"/{BUCKET}?location", {}),
    "buckets": ("GET", "/", {}),
    "checksum": ("GET", f"/{BUCKET}/small", {"x-amz-checksum-mode": "ENABLED"}),
}


@pytest.mark.parametrize("name", READS)
def test_a_read_is_answered_as_by_s3_cold_and_hot(name: str, url: str, s3: WatchedS3) -> None:
    method, path, headers = READS[name]
    status, expected, body = sent(s3.url, method, path, headers)
    for answer in [sent(url, method, path, headers) for _ in range(3)]:
        assert answer[0] == status
        if status < 400:
            assert answer[2] == body
        elif method == "GET":
            code = b"<Code>" + body.partition(b"<Code>")[2].partition(b"</Code>")[0]
            assert code in answer[2]
        received = {key: value for key, value in answer[1].items() if key not in _VARYING | _OF_CACHE | _OF_MOTO}
        if status in (200, 206):
            wanted = {key: value for key, value in expected.items() if key not in _VARYING | _OF_MOTO}
            has_checksum = headers.get("x-amz-checksum-mode") == "ENABLED"
            wanted = {key: value for key, value in wanted.items() if has_checksum or "checksum" not in key}
            assert received == wanted


def test_a_second_read_is_a_hit(url: str, s3: WatchedS3) -> None:
    s3.drain()
    answers = [sent(url, "GET", f"/{BUCKET}/small")[1] for _ in range(20)]

    assert answers[-1]["x-cache"] == "hit"
    assert [status for _, status in s3.drain()].count(200) <= 2  # one for each process


WRITES: Mapping[str, Callable[[Any, str, bytes], object]] = {
    "put": lambda client, key, body: client.put_object(Bucket=BUCKET, Key=key, Body=body),
    "copy": lambda client, key, body: (
        client.put_object(Bucket=BUCKET, Key="source", Body=body),
        client.copy_object(Bucket=BUCKET, Key=key, CopySource={"Bucket": BUCKET, "Key": "source"}),
    ),
    "multipart": lambda client, key, body: _upload_in_parts(client, key, body),
}


def _upload_in_parts(client: Any, key: str, body: bytes) -> None:
    upload = client.create_multipart_upload(Bucket=BUCKET, Key=key)["UploadId"]
    names = {"Bucket": BUCKET, "Key": key, "UploadId": upload}
    part = client.upload_part(**names, PartNumber=1, Body=body)
    client.complete_multipart_upload(**names, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]})


@pytest.mark.parametrize("write", WRITES)
def test_a_read_after_a_write_has_the_new_object(write: str, url: str, s3: WatchedS3) -> None:
    writer, key = s3.client(endpoint_url=url), f"written by {write}"
    bodies = [b"first", b"second", LARGE, LARGE[::-1], b"last"]
    for body in bodies:
        WRITES[write](writer, key, body)
        for _ in range(2):
            for reader in (s3.client(endpoint_url=url), writer):  # one of them may reach another process
                assert reader.get_object(Bucket=BUCKET, Key=key)["Body"].read() == body


@pytest.mark.parametrize("delete", ["one", "many"])
def test_a_read_after_a_delete_finds_nothing(delete: str, url: str, s3: WatchedS3) -> None:
    client, key = s3.client(endpoint_url=url), "odd/deleted & <gone>"
    client.put_object(Bucket=BUCKET, Key=key, Body=b"there")
    assert client.get_object(Bucket=BUCKET, Key=key)["Body"].read() == b"there"
    if delete == "one":
        client.delete_object(Bucket=BUCKET, Key=key)
    else:
        client.delete_objects(Bucket=BUCKET, Delete={"Objects": [{"Key": key}, {"Key": "other"}]})
    for _ in range(2):
        with pytest.raises(ClientError, match="NoSuchKey"):
            s3.client(endpoint_url=url).get_object(Bucket=BUCKET, Key=key)


@pytest.mark.parametrize("before", ["", f"/{BUCKET}/"])
def test_a_read_of_the_source_of_a_rename_asks_s3(before: str, url: str, s3: WatchedS3) -> None:
    client, source = s3.client(endpoint_url=url), f"to be renamed/ä{len(before)}"
    client.put_object(Bucket=BUCKET, Key=source, Body=b"before")
    assert client.get_object(Bucket=BUCKET, Key=source)["Body"].read() == b"before"

    s3.client().delete_object(Bucket=BUCKET, Key=source)  # as S3 does it: moto cannot rename
    client.rename_object(Bucket=BUCKET, Key="renamed", RenameSource=quote(before + source))

    for _ in range(2):
        with pytest.raises(ClientError, match="NoSuchKey"):
            s3.client(endpoint_url=url).get_object(Bucket=BUCKET, Key=source)


def test_a_delete_marker_is_in_each_answer_of_its_absence(s3: WatchedS3) -> None:
    bucket = "gateway-tests-versioned"
    straight = s3.client()
    straight.create_bucket(Bucket=bucket)
    straight.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    straight.put_object(Bucket=bucket, Key="deleted", Body=b"")
    straight.delete_object(Bucket=bucket, Key="deleted")
    with gateway(s3.url, bucket, dict([KEYS]), OWN) as url:
        client = s3.client(endpoint_url=url)
        for _ in range(2):
            with pytest.raises(ClientError) as error:
                client.head_object(Bucket=bucket, Key="deleted")

            answer = error.value.response["ResponseMetadata"]
            assert (answer["HTTPStatusCode"], answer["HTTPHeaders"].get("x-amz-delete-marker")) == (404, "true")


def test_an_upload_in_signed_chunks_arrives_whole(url: str, s3: WatchedS3) -> None:
    body = os.urandom(200_000)
    client = s3.client(endpoint_url=url)
    client.put_object(Bucket=BUCKET, Key="with trailer", Body=body, ChecksumAlgorithm="CRC32")
    assert s3.client().get_object(Bucket=BUCKET, Key="with trailer")["Body"].read() == body


def test_reads_of_a_cold_object_at_once_cost_one_get(s3: WatchedS3) -> None:
    s3.client().put_object(Bucket=BUCKET, Key="cold", Body=SMALL)
    with gateway(s3.url, BUCKET, dict([KEYS]), OWN) as url, ThreadPoolExecutor(20) as threads:
        s3.drain()
        while s3.arrived.acquire(blocking=False):
            pass
        s3.held = threading.Event()
        try:
            reads = [threads.submit(sent, url, "GET", f"/{BUCKET}/cold")]
            assert s3.arrived.acquire(timeout=60)
            reads += [threads.submit(sent, url, "GET", f"/{BUCKET}/cold") for _ in range(19)]
        finally:
            s3.held.set()
            s3.held = None
        assert {each.result()[2] for each in reads} == {SMALL}
    assert s3.drain() == [(f"/{BUCKET}/cold", 200)]


def test_a_large_object_that_is_overwritten_is_never_mixed(s3: WatchedS3) -> None:
    versions = [bytes([number]) * (9 << 20) for number in range(6)]
    direct = s3.client()
    direct.put_object(Bucket=BUCKET, Key="mixed", Body=versions[0])
    stop = threading.Event()

    def read(client: Any) -> int:
        count = 0
        while not stop.is_set():
            with suppress(Exception):  # a body that breaks off is no answer
                body = client.get_object(Bucket=BUCKET, Key="mixed")["Body"].read()
                assert body in versions
                count += 1
        return count

    with gateway(s3.url, BUCKET, dict([KEYS]), OWN) as url, ThreadPoolExecutor(3) as threads:
        readers = [threads.submit(read, s3.client(endpoint_url=url)) for _ in range(3)]
        for version in versions[1:]:
            direct.put_object(Bucket=BUCKET, Key="mixed", Body=version)
        stop.set()
        assert sum(each.result() for each in readers) > 0


def test_the_proxy_gives_a_hit_only_to_whom_s3_permits_it(s3: WatchedS3) -> None:
    other = dict(zip(("aws_access_key_id", "aws_secret_access_key"), OTHER_KEYS, strict=True))
    with gateway(s3.url, BUCKET, dict([KEYS]), OWN, ["--forward-proxy", "--permitted-s", "60"]) as url:
        permitted = s3.client(proxies={"http": url})
        refused = s3.client(proxies={"http": url}, **other)
        for _ in range(2):
            assert permitted.get_object(Bucket=BUCKET, Key="small")["Body"].read() == SMALL
        s3.refused, before = OTHER_KEYS[0], s3.refused
        try:
            with pytest.raises(ClientError, match="AccessDenied"):
                refused.get_object(Bucket=BUCKET, Key="small")
        finally:
            s3.refused = before


@pytest.mark.parametrize(("permitted_s", "statuses"), [("0", [200, 304, 304]), ("60", [200])])
def test_the_proxy_asks_s3_as_often_as_it_is_told(permitted_s: str, statuses: list[int], s3: WatchedS3) -> None:
    options = ["--forward-proxy", "--permitted-s", permitted_s, "--max-stale-ms", "60000"]
    with gateway(s3.url, BUCKET, dict([KEYS]), OWN, options) as url:
        client = s3.client(proxies={"http": url})
        s3.drain()
        assert {client.get_object(Bucket=BUCKET, Key="small")["Body"].read() for _ in range(3)} == {SMALL}
        assert [status for _, status in s3.drain()] == statuses


def test_the_proxy_never_widens_a_signed_range(s3: WatchedS3) -> None:
    with gateway(s3.url, BUCKET, dict([KEYS]), OWN, ["--forward-proxy"]) as url:
        client = s3.client(proxies={"http": url})
        s3.drain()
        for _ in range(2):
            part = client.get_object(Bucket=BUCKET, Key="large", Range="bytes=100000-900000")
            assert part["Body"].read() == LARGE[100_000:900_001]
        assert s3.drain() == [(f"/{BUCKET}/large", 206)] * 2  # whole slices alone are kept, so the ends are missing
        for _ in range(2):
            part = client.get_object(Bucket=BUCKET, Key="large", Range="bytes=262144-524287")
            assert part["Body"].read() == LARGE[262_144:524_288]
        assert s3.drain() == [(f"/{BUCKET}/large", 304)] * 2


def test_an_upload_by_a_form_is_refused_as_not_implemented(url: str, s3: WatchedS3) -> None:
    s3.drain("POST")
    form = b'--x\r\nContent-Disposition: form-data; name="key"\r\n\r\nform\r\n--x--\r\n'

    status, _, body = _fetched(f"{url}/{BUCKET}", "POST", form, {"Content-Type": "multipart/form-data; boundary=x"})

    assert (status, b"<Code>NotImplemented</Code>" in body) == (501, True)
    assert s3.drain("POST") == []


def test_the_proxy_sends_requests_to_s3_alone(url: str) -> None:
    address = urlsplit(url)
    assert address.hostname
    for target in ("http://example.com/", "http://169.254.169.254/latest/meta-data/", "http://s3.evil.com/"):
        connection = http.client.HTTPConnection(address.hostname, address.port, timeout=60)
        connection.request("GET", target)
        response = connection.getresponse()
        assert (response.status, b"AccessDenied" in response.read()) == (403, True)
        connection.close()


@pytest.mark.parametrize("headers", [{"Host": "evil.example.com"}, {"Host": "gateway-tests.evil.example.com"}])
def test_without_signatures_only_the_gateways_own_names_are_answered(headers: dict[str, str], s3: WatchedS3) -> None:
    with gateway(s3.url, BUCKET, {}, OWN, ["--unsigned"]) as url:
        address = urlsplit(url)
        assert address.hostname
        connection = http.client.HTTPConnection(address.hostname, address.port, timeout=60)
        connection.request("GET", f"/{BUCKET}/small", headers=headers)
        assert connection.getresponse().status == 403
        connection.close()
        connection.request("GET", "/small", headers={"Host": f"{BUCKET}.localhost:{address.port}"})
        assert connection.getresponse().read() == SMALL
        connection.close()


def test_headers_in_the_query_of_a_presigned_url_reach_s3(url: str, s3: WatchedS3) -> None:
    hoisted = "x-amz-storage-class=STANDARD_IA&x-amz-meta-a=b"  # as the SDK for JavaScript signs them
    request = AWSRequest(method="PUT", url=f"{url}/{BUCKET}/presigned?{hoisted}")
    S3SigV4QueryAuth(Credentials(*KEYS), "s3", REGION, 60).add_auth(request)
    address = urlsplit(str(request.url))
    with closing(http.client.HTTPConnection(address.netloc, timeout=60)) as connection:
        connection.request("PUT", f"{address.path}?{address.query}", SMALL)
        response = connection.getresponse()
        assert (response.status, response.read()) == (200, b"")
    head = s3.client().head_object(Bucket=BUCKET, Key="presigned")
    assert (head["ContentLength"], head["StorageClass"], head["Metadata"]) == (len(SMALL), "STANDARD_IA", {"a": "b"})


def _fetched(
    url: str, method: str = "GET", body: bytes | None = None, headers: Mapping[str, str] | None = None
) -> tuple[int, dict[str, str], bytes]:
    """Send an unsigned request for a presigned URL, and return status, headers and body."""
    address = urlsplit(url)
    with closing(http.client.HTTPConnection(address.netloc, timeout=60)) as connection:
        connection.request(method, f"{address.path}?{address.query}", body, dict(headers or {}))
        response = connection.getresponse()
        return response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()


def _presigner(url: str, keys: tuple[str, str] = KEYS) -> Any:
    """Return a client with boto3's defaults, which presigns by version 2 for this endpoint."""
    return boto3.client(
        "s3", endpoint_url=url, region_name=REGION, aws_access_key_id=keys[0], aws_secret_access_key=keys[1]
    )


def test_urls_that_boto3_presigns_by_default_are_served_and_cached(url: str, s3: WatchedS3) -> None:
    client, key = _presigner(url), "presigned by default/ä b"
    put = client.generate_presigned_url(
        "put_object", {"Bucket": BUCKET, "Key": key, "ContentType": "text/x-test", "Metadata": {"a": "b"}}
    )
    get = client.generate_presigned_url("get_object", {"Bucket": BUCKET, "Key": key})
    overrides = {"Bucket": BUCKET, "Key": key, "ResponseContentDisposition": 'attachment; filename="a b.txt"'}
    attachment = client.generate_presigned_url("get_object", overrides)
    assert "AWSAccessKeyId=" in get

    for body in (b"first", b"second"):
        assert _fetched(put, "PUT", body, {"Content-Type": "text/x-test"})[0] == 200
        s3.drain()
        assert [_fetched(get)[2], _fetched(get)[2]] == [body, body]
    status, headers, body = _fetched(attachment)

    assert [status for _, status in s3.drain()].count(200) in (1, 2)  # one for each process that was asked
    assert (status, body, headers["content-disposition"]) == (200, b"second", 'attachment; filename="a b.txt"')
    assert (headers["content-type"], headers["x-amz-meta-a"]) == ("text/x-test", "b")


def test_a_presigned_url_of_version_2_that_is_not_valid_is_refused_by_the_code_of_s3(url: str) -> None:
    parameters = {"Bucket": BUCKET, "Key": "small"}
    client = _presigner(url)
    get = client.generate_presigned_url("get_object", parameters)
    refused = {
        client.generate_presigned_url("get_object", parameters, ExpiresIn=-1): b"AccessDenied",
        get.replace("/small", "/large"): b"SignatureDoesNotMatch",
        get + "&versionId=1": b"SignatureDoesNotMatch",
        _presigner(url, (KEYS[0], "wrong")).generate_presigned_url("get_object", parameters): b"SignatureDoesNotMatch",
        _presigner(url, OTHER_KEYS).generate_presigned_url("get_object", parameters): b"InvalidAccessKeyId",
    }

    answers = {each: _fetched(each) for each in refused}

    assert _fetched(get)[2] == SMALL
    for each, code in refused.items():
        assert answers[each][0] == 403
        assert b"<Code>" + code + b"</Code>" in answers[each][2]
    assert _fetched(get, "PUT", b"other")[0] == 403


def test_requests_signed_by_version_2_in_the_header_are_answered(url: str, s3: WatchedS3) -> None:
    client = s3.client(endpoint_url=url, config=Config(signature_version="s3", retries={"total_max_attempts": 1}))

    client.put_object(Bucket=BUCKET, Key="version 2", Body=b"written")

    assert client.get_object(Bucket=BUCKET, Key="version 2")["Body"].read() == b"written"
    assert [each["Key"] for each in client.list_objects_v2(Bucket=BUCKET, Prefix="version")["Contents"]] == [
        "version 2"
    ]
