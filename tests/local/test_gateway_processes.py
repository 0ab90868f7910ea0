"""Gateways of several processes: writes that all of them see, killed processes, and the end without a lost request."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config

from burstcache.gateway import probe
from support.gateway_processes import BUCKET, CREDENTIALS, Gateway, gateway
from support.store_of_writes import Store, store_of_writes
from support.waiting import LIMIT_S, until

pytestmark = pytest.mark.slow

_READERS = 50
_WRITES = 12
_MOST_CONNECTIONS = 1000
_SMALL, _LARGE = "small", "large"
_COPIES = {_SMALL: 1, _LARGE: 1_100_000}  # of the version's number: more than 8 MiB are kept in slices


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    with store_of_writes() as store:
        yield store


def client(url: str, **config: Any) -> Any:
    return boto3.client(
        "s3",
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id=CREDENTIALS["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
        config=Config(s3={"addressing_style": "path"}, **config),
    )


def request(connection: HTTPConnection, method: str, key: str, body: bytes | None = None, **headers: str) -> bytes:
    connection.request(method, f"/{BUCKET}/{key}", body, headers)
    response = connection.getresponse()
    read = response.read()
    assert response.status in (200, 206), (response.status, read)
    return read


def spread(gateway: Gateway, least: int, most: int = _MOST_CONNECTIONS) -> list[HTTPConnection]:
    """Open connections until each process has accepted some of them."""
    connections = list[HTTPConnection]()
    pids = gateway.processes()
    while len(connections) < least or not all(gateway.accepted(pid) for pid in pids):
        assert len(connections) < most, [gateway.accepted(pid) for pid in pids]
        connections.append(gateway.connect())
        request(connections[-1], "GET", _SMALL)
    return connections


def has_others(gateway: Gateway, former: set[int]) -> bool:
    """Tell if there are processes other than the former ones."""
    return not set(gateway.processes()) <= former


def busiest(gateway: Gateway) -> int | None:
    """Return the process that has accepted most connections."""
    pid = max(gateway.processes(), key=gateway.accepted)
    return pid if gateway.accepted(pid) else None


def body_of(key: str, version: int) -> bytes:
    return b"%08d" % version * _COPIES[key]


@pytest.mark.parametrize(
    ("way", "tier"),
    [
        ("tcp", "memory"),
        pytest.param("tcp", "disk", marks=pytest.mark.weekly),
        pytest.param("unix", "memory", marks=pytest.mark.weekly),
        ("unix", "disk"),
    ],
)
def test_what_one_process_has_written_none_of_them_answers_older(
    store: Store, way: str, tier: str, tmp_path: Path
) -> None:
    options = ["--unsigned", "--processes", "3", *(["--disk", str(tmp_path / "disk")] if tier == "disk" else [])]
    for key in (_SMALL, _LARGE):
        store.put(f"/{BUCKET}/{key}", body_of(key, 0))
    written = {_SMALL: 0, _LARGE: 0}
    is_over = threading.Event()

    def read(connection: HTTPConnection) -> int:
        count = 0
        while not is_over.is_set():
            for key, range_ in ((_SMALL, "bytes=0-7"), (_LARGE, "bytes=800000-919999")):
                least = written[key]
                body = request(connection, "GET", key, range=range_)
                assert body == body[:8] * (len(body) // 8), "two versions in one response"
                assert int(body[:8]) >= least, f"{key} is older than {least}"
                count += 1
        return count

    with (
        gateway(store.url, *options, unix_socket=str(tmp_path / "s3") if way == "unix" else "") as running,
        ThreadPoolExecutor(_READERS) as pool,
    ):
        connections = spread(running, _READERS)
        shares = [running.accepted(pid) for pid in running.processes()]
        writers = [running.connect() for _ in range(4)]
        reads = [pool.submit(read, each) for each in connections[-_READERS:]]
        try:
            for number in range(1, _WRITES + 1):
                for key in written:
                    request(writers[number % len(writers)], "PUT", key, body_of(key, number))
                    written[key] = number
        finally:
            is_over.set()
        counts = [each.result(LIMIT_S) for each in reads]
        for each in (*connections, *writers):
            each.close()

    print(f"{sum(counts)} reads over connections {shares}")
    assert min(counts) > 0


def test_a_killed_process_fails_no_client_that_retries_and_comes_back(store: Store) -> None:
    store.put(f"/{BUCKET}/{_SMALL}", body_of(_SMALL, 0))
    is_over = threading.Event()
    answered = threading.Semaphore(0)

    def load(url: str) -> tuple[int, int]:
        s3 = client(url, retries={"mode": "standard", "max_attempts": 5})
        count = retries = 0
        while not is_over.is_set():
            response = s3.get_object(Bucket=BUCKET, Key=_SMALL)
            assert response["Body"].read() == body_of(_SMALL, 0)
            count += 1
            retries += response["ResponseMetadata"]["RetryAttempts"]
            answered.release()
        return count, retries

    with gateway(store.url, "--processes", "2") as running, ThreadPoolExecutor(8) as pool:
        loads = [pool.submit(load, running.url) for _ in range(8)]
        try:
            for _ in range(3):
                former = set(running.processes())
                os.kill(until(lambda: busiest(running)), signal.SIGKILL)
                until(partial(has_others, running, former))
                for _ in range(200):
                    assert answered.acquire(timeout=LIMIT_S)
        finally:
            is_over.set()
        counts = [each.result(LIMIT_S) for each in loads]
        (other,) = set(running.processes()) - former
        held = list[HTTPConnection]()
        while not running.accepted(other):
            assert len(held) < _MOST_CONNECTIONS
            held.append(running.connect())
            held[-1].request("GET", "/")
            held[-1].getresponse().read()
        for each in held:
            each.close()

    retries = sum(retried for _, retried in counts)
    print(f"{sum(count for count, _ in counts)} requests, {retries} retries, 0 failed")
    assert retries > 0


@pytest.mark.parametrize(
    ("processes", "way"),
    [
        ("1", "tcp"),
        pytest.param("1", "unix", marks=pytest.mark.weekly),
        pytest.param("2", "tcp", marks=pytest.mark.weekly),
        ("2", "unix"),
    ],
)
def test_a_stop_finishes_downloads_and_refuses_connections(
    store: Store, way: str, processes: str, tmp_path: Path
) -> None:
    body = os.urandom(1 << 20) * 24  # more than all buffers on its way
    store.put(f"/{BUCKET}/download", body)
    path = str(tmp_path / "s3") if way == "unix" else ""
    with gateway(store.url, "--unsigned", "--processes", processes, unix_socket=path) as running:
        connection, idle = running.connect(), running.connect()
        connection.request("GET", f"/{BUCKET}/download")
        response = connection.getresponse()
        first = response.read(1000)

        running.process.terminate()
        until(lambda: is_refused(running))
        read = first + response.read()
        ended = running.process.wait(LIMIT_S)
        idle.close()
        connection.close()

        assert read == body
        assert ended == 0
        assert not path or not Path(path).exists()


def is_refused(gateway: Gateway) -> bool:
    try:
        connection = gateway.connect()
    except (ConnectionRefusedError, FileNotFoundError):
        return True
    except ConnectionResetError:  # it closed between
        return False
    connection.close()
    return False


def test_a_download_that_takes_too_long_ends_the_stop_late(store: Store) -> None:
    store.put(f"/{BUCKET}/download", bytes(24 << 20))
    with gateway(store.url, "--unsigned", "--processes", "2", "--drain-s", "1") as running:
        connection = running.connect()
        connection.request("GET", f"/{BUCKET}/download")
        connection.getresponse()

        running.process.terminate()

        assert running.process.wait(LIMIT_S) == 0
        connection.close()


def test_the_probe_tells_a_running_gateway_from_none(store: Store) -> None:
    with gateway(store.url, "--processes", "2") as running:
        assert probe.main([str(running.port)]) == 0

        running.process.terminate()
        running.process.wait(LIMIT_S)

        assert probe.main([str(running.port)]) == 1


def test_processes_end_with_the_first_one(store: Store) -> None:
    with gateway(store.url, "--unsigned", "--processes", "2") as running:
        running.process.kill()

        until(lambda: is_refused(running))


def test_a_socket_of_the_service_manager_outlives_the_gateway(store: Store, tmp_path: Path) -> None:
    store.put(f"/{BUCKET}/{_SMALL}", body_of(_SMALL, 0))
    with (
        socket.create_server(("127.0.0.1", 0)) as listening,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as states,
    ):
        states.bind(str(tmp_path / "notify"))
        states.settimeout(LIMIT_S)

        def start() -> AbstractContextManager[Gateway]:
            return gateway(store.url, "--unsigned", listening=listening, NOTIFY_SOCKET=str(tmp_path / "notify"))

        with start() as former:
            assert states.recv(100).startswith(b"READY=1")
            former.process.terminate()
            assert states.recv(100).startswith(b"STOPPING=1")
            assert former.process.wait(LIMIT_S) == 0
        waiting = former.connect()
        with start() as later:
            assert later.port == listening.getsockname()[1]
            assert request(waiting, "GET", _SMALL) == body_of(_SMALL, 0)
        waiting.close()
