"""Faults around a gateway: of S3, the disk, keys, credentials and clients. Each read is compared byte by byte.

No fault may end in wrong bytes. The number of failed reads is asserted without retries, and with those of boto3.
"""

from __future__ import annotations

import hashlib
import ipaddress
import json
import os
import random
import resource
import shutil
import socket
import struct
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache, cached_property
from http.client import HTTPConnection, HTTPResponse
from io import BytesIO
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from burstcache_local.moto.server import MotoServer
from burstcache_local.moto.services import Services
from support.gateway_processes import BUCKET, CREDENTIALS, Gateway, gateway
from support.mounts import small_file_system
from support.waiting import LIMIT_S, free_port, until

pytestmark = pytest.mark.slow

KB, MB = 1 << 10, 1 << 20
SIZE_BYTES, LARGE_BYTES = 20 * KB, 10 * MB
READS = 6
WAITING = 64  # as many as the cache has threads
_FRESH = ("--max-stale-ms", "600000")
_RETRIED = Config(retries={"mode": "standard", "total_max_attempts": 3})
_NOT_RETRIED = Config(retries={"total_max_attempts": 1})

Application = Callable[..., Iterable[bytes]]
Fault = Callable[[Application, dict[str, Any], Callable[..., Any]], Iterable[bytes]]


@cache
def body_of(key: str) -> bytes:
    """Return the bytes of an object: they follow from its key."""
    return random.Random(key).randbytes(LARGE_BYTES if key.startswith("large") else SIZE_BYTES)


@dataclass
class FaultyS3:
    """moto, behind a middleware that injects faults by key.

    Attributes:
        url: Its URL.
        server: The server, which has further threads while requests wait.
        requests: Requests that have arrived, by method and key.
        arrived: Released by each read that has a fault, and by each upload that has begun.
        faults: The fault of each key, and how many of its requests have it.
        uploads: Bodies of PUT by key, as many bytes as have arrived.
    """

    url: str = ""
    server: MotoServer = None  # type: ignore[assignment]
    requests: Counter[tuple[str, str]] = field(default_factory=Counter)
    arrived: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    faults: dict[str, list[Fault]] = field(default_factory=dict)
    uploads: dict[str, int] = field(default_factory=dict)
    expired_token: str = "no token"

    def put(self, *keys: str) -> None:
        """Write objects, not through the gateway."""
        for key in keys:
            self.client.put_object(Bucket=BUCKET, Key=key, Body=body_of(key), ChecksumAlgorithm="CRC32")

    @cached_property
    def client(self) -> Any:
        """A client of S3 itself."""
        return client_of(self.url, _NOT_RETRIED)

    def fail(self, fault: Fault, *keys: str, times: int = 1) -> None:
        """Inject a fault into the next requests of each key."""
        for key in keys:
            self.faults[key] = [fault] * times

    def middleware(self, application: Application) -> Application:
        """Wrap moto's application."""

        def serve(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
            method, key = environ["REQUEST_METHOD"], environ["PATH_INFO"].removeprefix(f"/{BUCKET}/")
            self.requests[method, key] += 1
            if environ.get("HTTP_X_AMZ_SECURITY_TOKEN") == self.expired_token:
                return refused("400 Bad Request", "ExpiredToken")(application, environ, start_response)
            if method == "PUT" and (length := environ.get("CONTENT_LENGTH", "")):
                self.arrived.release()
                body = environ["wsgi.input"].read(int(length))
                self.uploads[key] = len(body)
                environ["wsgi.input"] = BytesIO(body)
            if method in ("GET", "HEAD") and (faults := self.faults.get(key)):
                fault = faults.pop()
                self.arrived.release()
                return fault(application, environ, start_response)
            return application(environ, start_response)

        return serve


def refused(status: str, code: str) -> Fault:
    """Return the fault of an S3 that answers an error."""

    def fault(_: Application, __: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        body = f"<Error><Code>{code}</Code><Message>A sentence of S3.</Message></Error>".encode()
        start_response(status, [("content-type", "application/xml"), ("content-length", str(len(body)))])
        return [body]

    return fault


def held(until_set: threading.Event) -> Fault:
    """Return the fault of an S3 whose response takes until an event."""

    def fault(application: Application, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        assert until_set.wait(LIMIT_S)
        return application(environ, start_response)

    return fault


def broken_off(
    application: Application, environ: dict[str, Any], start_response: Callable[..., Any]
) -> Iterator[bytes]:
    """Send half of a body, and close the connection."""
    body = b"".join(application(environ, start_response))
    yield body[: len(body) // 2]
    raise ConnectionResetError


def damaged(application: Application, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Send a body with a flipped bit, whose checksum in the headers does not match."""
    body = bytearray(b"".join(application(environ, start_response)))
    body[len(body) // 2] ^= 1
    return [bytes(body)]


@pytest.fixture(scope="module")
def s3() -> Iterator[FaultyS3]:
    faulty, services = FaultyS3(), Services()
    faulty.server = MotoServer(services, before=lambda application: faulty.middleware(application))
    try:
        faulty.url = faulty.server.start()
        try:
            faulty.client.create_bucket(Bucket=BUCKET)
            with faulty.server.more_threads(2 * WAITING):
                yield faulty
        finally:
            faulty.server.stop()
    finally:
        services.close()


def client_of(url: str, config: Config, **arguments: Any) -> Any:
    """Return a boto3 client."""
    return boto3.client(
        "s3",
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id=CREDENTIALS["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
        config=config.merge(Config(s3={"addressing_style": "path"}, max_pool_connections=WAITING)),
        **arguments,
    )


def failed_reads(client: Any, keys: Iterable[str]) -> Counter[str]:
    """Read objects at once. Return how many reads failed, by error. No read may return wrong bytes."""

    def read(key: str) -> str:
        try:
            body = client.get_object(Bucket=BUCKET, Key=key)["Body"].read()
        except ClientError as error:
            return str(error.response["Error"]["Code"])
        except BotoCoreError as error:
            return type(error).__name__
        assert body == body_of(key), f"wrong bytes of {key}"
        return ""

    with ThreadPoolExecutor(READS) as pool:
        return Counter(each for each in pool.map(read, keys) if each)


def names(prefix: str, count: int = READS) -> list[str]:
    return [f"{prefix}-{number}" for number in range(count)]


def begin(connection: HTTPConnection, key: str, **headers: str) -> HTTPConnection:
    """Send a GET, whose response is read later."""
    connection.request("GET", f"/{BUCKET}/{key}", headers=headers)
    return connection


def check(connection: HTTPConnection, key: str) -> HTTPResponse:
    """Read the response to a GET, and compare its body."""
    response = connection.getresponse()
    body = response.read()
    assert response.status == 200, (response.status, body[:300])
    assert body == body_of(key), f"wrong bytes of {key}"
    return response


def read(gateway: Gateway, *keys: str) -> None:
    """Read objects over one connection."""
    connection = gateway.connect()
    for key in keys:
        check(begin(connection, key), key)
    connection.close()


def close_hard(connection: HTTPConnection) -> None:
    """Reset a connection, as a client does that is killed."""
    connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.sock.close()
    connection.close()


# S3


def test_s3_that_is_slow_delays_neither_hits_nor_other_misses(s3: FaultyS3, tmp_path: Path) -> None:
    stale, missing = names("slow-stale", WAITING + 1), names("slow-missing", WAITING)
    s3.put(*stale, *missing, "slow-other", "slow-hit", "large-slow")
    answers = threading.Event()
    options = ("--unsigned", "--disk", str(tmp_path / "disk"), "--max-stale-ms", "600000")
    # After a restart, S3 has to confirm the objects on disk: those reads wait in threads.
    with gateway(s3.url, *options) as former:
        read(former, *stale)
        until(lambda: len(slices(tmp_path)) >= len(stale))
    with gateway(s3.url, *options) as running:
        read(running, "slow-hit", "large-slow", "large-slow")
        s3.fail(held(answers), *stale, *missing, times=9)
        s3.requests.clear()
        try:
            waiting = [(begin(running.connect(), key), key) for key in (*stale, *missing)]
            for _ in waiting:
                assert s3.arrived.acquire(timeout=LIMIT_S)

            read(running, *["slow-hit", "large-slow", "slow-other"] * 3)
            # No request to S3 was given up, which would have let others go on.
            assert [s3.requests["GET", key] for key in (*stale, *missing)] == [1] * len(waiting)
        finally:
            answers.set()
        for connection, key in waiting:
            check(connection, key)
            connection.close()
    s3.faults.clear()


@pytest.mark.parametrize(
    ("name", "status", "code"),
    [("throttles", "503 Slow Down", "SlowDown"), ("fails", "500 Internal Server Error", "InternalError")],
)
def test_s3_that_refuses_reads_is_passed_on_and_hits_go_on(s3: FaultyS3, name: str, status: str, code: str) -> None:
    cached, once, again = names(f"{name}-cached"), names(f"{name}-once"), names(f"{name}-again")
    s3.put(*cached, *once, *again)
    fault = refused(status, code)
    with gateway(s3.url, "--unsigned", *_FRESH) as running:
        single, retrying = client_of(running.url, _NOT_RETRIED), client_of(running.url, _RETRIED)
        assert not failed_reads(single, cached)
        s3.fail(fault, *cached, times=100)
        s3.fail(fault, *once, *again)

        assert failed_reads(single, [*cached, *once]) == {code: READS}
        assert not failed_reads(retrying, [*cached, *again])
        assert not failed_reads(single, once)


def test_s3_that_refuses_leaves_expired_copies_unserved(s3: FaultyS3) -> None:
    keys = names("expired")
    s3.put(*keys)
    with gateway(s3.url, "--unsigned", "--max-stale-ms", "1") as running:
        single = client_of(running.url, _NOT_RETRIED)
        assert not failed_reads(single, keys)
        s3.fail(refused("503 Slow Down", "SlowDown"), *keys, times=100)

        failed = failed_reads(single, keys)

        s3.fail(refused("503 Slow Down", "SlowDown"), *keys, times=0)
        assert failed == {"SlowDown": READS}
        assert not failed_reads(single, keys)


def test_a_body_that_s3_breaks_off_is_broken_for_the_client_and_not_cached(s3: FaultyS3) -> None:
    once, again = names("broken-once"), names("broken-again")
    s3.put(*once, *again)
    s3.fail(broken_off, *once, *again)
    with gateway(s3.url, "--unsigned", *_FRESH) as running:
        failed = failed_reads(client_of(running.url, _NOT_RETRIED), once)
        # The SDK has returned the response by then, so it does not repeat the request.
        failed_with_retries = failed_reads(client_of(running.url, _RETRIED), again)

        assert (failed.total(), failed_with_retries.total()) == (READS, READS)
        for _ in range(2):
            assert not failed_reads(client_of(running.url, _NOT_RETRIED), [*once, *again])
    assert all(s3.requests["GET", key] == 2 for key in (*once, *again))


def test_a_slice_that_s3_breaks_off_is_read_again(s3: FaultyS3) -> None:
    s3.put("large-broken")
    with gateway(s3.url, "--unsigned", *_FRESH) as running:
        connection = running.connect()
        connection.request("HEAD", f"/{BUCKET}/large-broken")
        connection.getresponse().read()
        s3.fail(broken_off, "large-broken")

        for _ in range(2):
            check(begin(connection, "large-broken"), "large-broken")
        connection.close()
        assert not s3.faults["large-broken"]


def test_a_body_with_a_wrong_checksum_is_refused_by_the_sdk_and_not_cached(s3: FaultyS3) -> None:
    once, again = names("damaged-once"), names("damaged-again")
    s3.put(*once, *again)
    s3.fail(damaged, *once, *again)
    with gateway(s3.url, "--unsigned", *_FRESH) as running:
        single = client_of(running.url, _NOT_RETRIED)
        assert failed_reads(single, once) == {"FlexibleChecksumError": READS}
        assert failed_reads(client_of(running.url, _RETRIED), again) == {"FlexibleChecksumError": READS}

        assert not failed_reads(single, [*once, *again])


def test_s3_that_is_unreachable_is_named_and_comes_back(s3: FaultyS3) -> None:
    cached, missing = names("reachable-cached"), names("reachable-missing")
    s3.put(*cached, *missing)
    port, services = free_port(), Services()
    try:
        with gateway(f"http://127.0.0.1:{port}", "--unsigned", *_FRESH) as running:
            single = client_of(running.url, _NOT_RETRIED)
            for _ in range(2):
                assert failed_reads(single, missing) == {"ServiceUnavailable": READS}
                with pytest.raises(ClientError, match=r"S3 cannot be reached at the moment \(.*\)\. Try again\."):
                    single.get_object(Bucket=BUCKET, Key=missing[0])
                other = MotoServer(services, port)
                other.start()
                try:
                    assert not failed_reads(single, [*cached, missing[0]])
                finally:
                    other.stop()
                assert not failed_reads(single, [*cached, missing[0]])
                missing = [*missing[1:], "reachable-other"]
                s3.put("reachable-other")
    finally:
        services.close()


def test_expired_credentials_of_a_role_are_named_and_their_successors_used(s3: FaultyS3, tmp_path: Path) -> None:
    source, config = tmp_path / "credentials.json", tmp_path / "config"
    config.write_text(f"[default]\ncredential_process = cat {source}\n")

    def issue(token: str) -> None:
        # botocore asks the source again for credentials with less than ten minutes left.
        expires = (datetime.now(UTC) + timedelta(minutes=5)).isoformat()
        keys = {"Version": 1, "AccessKeyId": "ASIAROLE", "SecretAccessKey": "secret-of-the-role"}
        written = tmp_path / "next"
        written.write_text(json.dumps({**keys, "SessionToken": token, "Expiration": expires}))
        written.rename(source)

    keys, cached = names("role"), names("role-cached")
    s3.put(*keys, *cached)
    issue("first")
    with gateway(
        s3.url,
        "--unsigned",
        *_FRESH,
        AWS_ACCESS_KEY_ID="",
        AWS_SECRET_ACCESS_KEY="",
        AWS_CONFIG_FILE=str(config),
    ) as running:
        single = client_of(running.url, _NOT_RETRIED)
        assert not failed_reads(single, cached)
        s3.expired_token = "first"
        assert failed_reads(single, [*keys, *cached]) == {"ExpiredToken": READS}
        source.unlink()
        assert failed_reads(single, [*keys, *cached]) == {"ServiceUnavailable": READS}
        with pytest.raises(ClientError, match="The gateway's AWS credentials cannot be read at the moment"):
            single.get_object(Bucket=BUCKET, Key=keys[0])
        issue("second")
        assert not failed_reads(single, [*keys, *cached])


# The disk and memory


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """Return a directory on a file system of its own of 16 MiB."""
    with small_file_system(tmp_path / "disk", 16) as path:
        yield path


def on_disk(path: Path) -> tuple[str, ...]:
    """Return the options of a gateway that keeps objects on disk alone."""
    return ("--unsigned", "--memory-mib", "0", "--disk", str(path), *_FRESH)


def slices(path: Path) -> list[Path]:
    return list(path.glob("**/*.slice"))


def test_a_full_disk_fails_no_read(s3: FaultyS3, disk: Path) -> None:
    keys = names("large-full", 3)
    s3.put(*keys, *names("full"))
    with gateway(s3.url, *on_disk(disk / "slices")) as running:
        for _ in range(3):
            read(running, *keys, *names("full"))
        assert slices(disk)
        assert not failed_reads(client_of(running.url, _NOT_RETRIED), [*keys, *names("full")])


def test_a_limit_on_file_sizes_fails_no_read(s3: FaultyS3, tmp_path: Path) -> None:
    keys = [*names("limited"), "large-limited"]
    s3.put(*keys)
    with gateway(s3.url, *on_disk(tmp_path / "slices")) as running:
        resource.prlimit(running.process.pid, resource.RLIMIT_FSIZE, (10 * KB, 10 * KB))
        for _ in range(3):
            read(running, *keys)
        assert all(each.stat().st_size <= 10 * KB for each in slices(tmp_path))


def test_a_disk_directory_that_is_removed_fails_no_read_and_is_made_anew(s3: FaultyS3, tmp_path: Path) -> None:
    keys = [*names("removed"), "large-removed"]
    s3.put(*keys)
    with gateway(s3.url, *on_disk(tmp_path / "slices")) as running:
        read(running, *keys, *keys)
        until(lambda: slices(tmp_path))
        shutil.rmtree(tmp_path / "slices", ignore_errors=True)
        for _ in range(3):
            read(running, *keys)
        until(lambda: slices(tmp_path))


def test_a_response_names_the_slowest_tier_that_its_bytes_came_from(s3: FaultyS3, tmp_path: Path) -> None:
    s3.put("large-told")

    def told(running: Gateway) -> list[str]:
        client = client_of(running.url, _NOT_RETRIED)
        tiers = []
        for last in (99_999, 999_999, LARGE_BYTES - 1):
            found = client.get_object(Bucket=BUCKET, Key="large-told", Range=f"bytes=0-{last}")
            found["Body"].read()
            tiers.append(found["ResponseMetadata"]["HTTPHeaders"]["x-cache-tier"])
        return tiers

    with gateway(s3.url, *on_disk(tmp_path / "slices")) as running:
        read(running, "large-told")
        until(lambda: len(slices(tmp_path)) > LARGE_BYTES // (256 * KB))  # and the head
        assert told(running) == ["disk"] * 3
    with gateway(s3.url, *on_disk(tmp_path / "slices")) as running:
        assert told(running) == ["disk"] * 3
        for path in slices(tmp_path):
            path.unlink()
        assert told(running) == ["s3"] * 3


def test_damaged_slices_are_read_from_s3(s3: FaultyS3, tmp_path: Path) -> None:
    keys = [*names("flipped"), "large-flipped"]
    s3.put(*keys)
    with gateway(s3.url, *on_disk(tmp_path / "slices")) as running:
        read(running, *keys, *keys)
        for _ in range(2):
            until(lambda: len(slices(tmp_path)) >= LARGE_BYTES // (256 * KB))
            for path in slices(tmp_path):
                with path.open("r+b") as file:
                    file.seek(-100, os.SEEK_END)
                    byte = file.read(1)[0]
                    file.seek(-100, os.SEEK_END)
                    file.write(bytes([byte ^ 1]))
            before = s3.requests["GET", "large-flipped"]
            read(running, *keys)
            assert s3.requests["GET", "large-flipped"] > before


def test_a_disk_that_becomes_read_only_goes_on_being_read(s3: FaultyS3, disk: Path) -> None:
    keys, others = [*names("kept"), "large-kept"], [*names("later"), "large-later"]
    s3.put(*keys, *others)
    with gateway(s3.url, *on_disk(disk / "slices")) as running:
        read(running, *keys, *keys)
        until(lambda: len(slices(disk)) >= LARGE_BYTES // (256 * KB))
        until(lambda: not subprocess.run(["mount", "-o", "remount,ro", disk], capture_output=True).returncode)
        before = s3.requests["GET", "large-kept"]
        for _ in range(2):
            read(running, *keys, *others)
        assert s3.requests["GET", "large-kept"] == before
        assert not failed_reads(client_of(running.url, _NOT_RETRIED), [*keys, *others])


def test_a_memory_of_one_mib_serves_everything(s3: FaultyS3) -> None:
    keys = [*names("tiny", 80), "large-tiny"]
    s3.put(*keys)
    with gateway(s3.url, "--unsigned", "--memory-mib", "1", *_FRESH) as running:
        for _ in range(2):
            assert not failed_reads(client_of(running.url, _NOT_RETRIED), keys)


# Keys


@pytest.mark.parametrize("fault", ["deleted", "world-readable"])
def test_keys_stay_valid_while_their_file_cannot_be_read(s3: FaultyS3, fault: str, tmp_path: Path) -> None:
    keys, file, log = names(f"key-{fault}"), tmp_path / "keys", tmp_path / "log"
    s3.put(*keys)
    file.touch(mode=0o600)
    file.write_text(f"{CREDENTIALS['AWS_ACCESS_KEY_ID']} {CREDENTIALS['AWS_SECRET_ACCESS_KEY']}\n")
    with gateway(s3.url, "--keys-file", str(file), *_FRESH, log=log) as running:
        single = client_of(running.url, _NOT_RETRIED)
        assert not failed_reads(single, keys)
        if fault == "deleted":
            file.unlink()
        else:
            file.chmod(0o644)
        reason = "cannot be read" if fault == "deleted" else "every user may read"

        def is_logged() -> bool:
            assert not failed_reads(single, keys)
            return "The former ones stay" in log.read_text()

        until(is_logged)
        assert reason in log.read_text()
        assert CREDENTIALS["AWS_SECRET_ACCESS_KEY"] not in log.read_text()
        assert not failed_reads(single, keys)


# Clients


def test_an_upload_whose_client_disconnects_is_not_written(s3: FaultyS3) -> None:
    s3.put("cut-upload")
    with gateway(s3.url, "--unsigned", *_FRESH) as running:
        read(running, "cut-upload")
        while s3.arrived.acquire(blocking=False):
            pass
        s3.uploads.clear()
        for close in (close_hard, HTTPConnection.close):
            uploading = running.connect()
            uploading.putrequest("PUT", f"/{BUCKET}/cut-upload")
            uploading.putheader("content-length", str(MB))
            uploading.endheaders(bytes(MB // 2))
            assert s3.arrived.acquire(timeout=LIMIT_S)

            close(uploading)

            assert until(lambda: s3.uploads.pop("cut-upload", None)) < MB
            read(running, "cut-upload", "cut-upload")
    assert s3.client.get_object(Bucket=BUCKET, Key="cut-upload")["Body"].read() == body_of("cut-upload")


def test_a_download_whose_client_disconnects_leaves_others_alone(s3: FaultyS3) -> None:
    keys = ["large-cut-download", "cut-download"]
    s3.put(*keys)
    with gateway(s3.url, "--unsigned", *_FRESH) as running:
        for key in keys * 3:
            connection = begin(running.connect(), key)
            connection.getresponse().read(1000)
            close_hard(connection)
        read(running, *keys, *keys)
        until(lambda: not running.accepted(running.process.pid))


def test_reads_that_wait_for_one_whose_client_disconnects_share_the_next_one(s3: FaultyS3) -> None:
    s3.put("led", "led-hit")
    answers = threading.Event()
    with gateway(s3.url, "--unsigned", *_FRESH) as running:
        read(running, "led-hit")
        while s3.arrived.acquire(blocking=False):
            pass
        s3.fail(held(answers), "led", times=100)
        try:
            leader = begin(running.connect(), "led")
            assert s3.arrived.acquire(timeout=LIMIT_S)
            followers = [begin(running.connect(), "led") for _ in range(20)]
            read(running, "led-hit", "led-hit")  # the gateway has received the requests before

            close_hard(leader)
            assert s3.arrived.acquire(timeout=LIMIT_S)
            read(running, "led-hit", "led-hit")
        finally:
            answers.set()
        for each in followers:
            check(each, "led")
            each.close()
    assert s3.requests["GET", "led"] == 2


def test_connections_left_idle_take_no_threads_and_stay_usable(s3: FaultyS3) -> None:
    s3.put("idle")
    with gateway(s3.url, "--unsigned", *_FRESH) as running:
        read(running, "idle")
        threads = len(os.listdir(f"/proc/{running.process.pid}/task"))
        idle = [running.connect() for _ in range(200)]
        read(running, *["idle"] * 20)
        assert len(os.listdir(f"/proc/{running.process.pid}/task")) == threads
        for each in idle:
            check(begin(each, "idle"), "idle")
            each.close()


def test_a_slow_upload_delays_no_hits_and_is_not_held_in_memory(s3: FaultyS3) -> None:
    s3.put("uploading-hit")
    piece, digest = random.Random(1).randbytes(MB), hashlib.md5()
    with gateway(s3.url, "--unsigned", *_FRESH) as running:
        hits, uploading = running.connect(), running.connect()
        check(begin(hits, "uploading-hit"), "uploading-hit")
        before_kb = peak_memory_kb(running)
        uploading.putrequest("PUT", f"/{BUCKET}/uploaded")
        uploading.putheader("content-length", str(100 * MB))
        uploading.endheaders()
        for _ in range(100):
            uploading.send(piece)
            digest.update(piece)
            assert check(begin(hits, "uploading-hit"), "uploading-hit").headers["x-cache"] == "hit"
        response = uploading.getresponse()
        assert (response.status, response.headers["etag"]) == (200, f'"{digest.hexdigest()}"')
        assert peak_memory_kb(running) - before_kb < 20 * KB
        hits.close()
        uploading.close()
    s3.client.delete_object(Bucket=BUCKET, Key="uploaded")


def peak_memory_kb(gateway: Gateway) -> int:
    status = Path(f"/proc/{gateway.process.pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0])


# TLS


def certificate(folder: Path) -> tuple[Path, Path]:
    """Write a self-signed certificate for 127.0.0.1, and return its file and that of its key."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=True)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem, key_pem = folder / "certificate.pem", folder / "key.pem"
    pem.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    encryption = serialization.NoEncryption()
    key_pem.touch(mode=0o600)
    key_pem.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption))
    return pem, key_pem


def test_faults_are_the_same_over_tls(s3: FaultyS3, tmp_path: Path) -> None:
    cached, refusals, broken = names("tls-cached"), names("tls-refused"), names("tls-broken")
    s3.put(*cached, *refusals, *broken, "large-tls")
    pem, key_pem = certificate(tmp_path)
    options = ("--unsigned", "--tls-certificate", str(pem), "--tls-key", str(key_pem), *_FRESH)
    with gateway(s3.url, *options) as running:
        url = running.url.replace("http:", "https:")
        single, retrying = (client_of(url, each, verify=str(pem)) for each in (_NOT_RETRIED, _RETRIED))
        assert not failed_reads(single, [*cached, "large-tls", "large-tls"])
        s3.fail(refused("503 Slow Down", "SlowDown"), *cached, *refusals)
        s3.fail(broken_off, *broken)
        with socket.create_connection(("127.0.0.1", running.port)) as plain:  # no TLS: the handshake fails
            plain.sendall(b"GET / HTTP/1.1\r\n\r\n")
            assert b"HTTP" not in plain.recv(1000)

        assert not failed_reads(retrying, [*cached, *refusals])
        assert failed_reads(single, broken).total() == READS
        assert not failed_reads(single, [*cached, *refusals, *broken, "large-tls"])

        connection = single.get_object(Bucket=BUCKET, Key="large-tls")["Body"]
        connection.read(1000)
        connection.close()
        assert not failed_reads(single, ["large-tls"])
