"""The gateway as a Lambda extension: started before the function, drained with the environment, or an error."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config

from support.extensions_api import ExtensionsApi, extensions_api
from support.gateway_processes import BUCKET, CREDENTIALS
from support.project import ROOT
from support.servers import frozen
from support.store_of_writes import Store, store_of_writes
from support.waiting import LIMIT_S, free_port, free_ports, until, wait_for_port

pytestmark = pytest.mark.slow

_BODY = b"body"
_EMULATOR = ROOT / "build" / "aws-lambda-rie"


@pytest.fixture
def store() -> Iterator[Store]:
    with store_of_writes() as store:
        store.put(f"/{BUCKET}/a.txt", _BODY)
        store.put(f"/{BUCKET}/large", bytes(24 << 20))
        yield store


@pytest.fixture
def api() -> Iterator[ExtensionsApi]:
    with extensions_api() as api:
        yield api


@pytest.fixture
def layer(tmp_path: Path) -> Path:
    """The layer's files, with the libraries of this environment."""
    (tmp_path / "extensions").mkdir()
    (tmp_path / "burstcache-gateway").mkdir()
    (tmp_path / "burstcache-gateway" / "burstcache").symlink_to(ROOT / "src" / "burstcache")
    shutil.copy(ROOT / "deploy" / "gateway" / "lambda-extension", tmp_path / "extensions" / "burstcache-gateway")
    return tmp_path


@contextmanager
def extension(layer: Path, api: ExtensionsApi, options: str) -> Iterator[subprocess.Popen[str]]:
    environ = {
        **CREDENTIALS,
        "PATH": "/usr/bin:/bin",
        "AWS_LAMBDA_RUNTIME_API": api.address,
        "BURSTCACHE_GATEWAY_PYTHON": sys.executable,
        "BURSTCACHE_GATEWAY_OPTIONS": options,
    }
    program = layer / "extensions" / "burstcache-gateway"
    process = subprocess.Popen([program], env=environ, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait(LIMIT_S)
        assert process.stderr is not None
        process.stderr.close()


def function_client(port: int) -> Any:
    """Return the function's client, without retries."""
    return boto3.client(
        "s3",
        endpoint_url=f"http://127.0.0.1:{port}",
        region_name=CREDENTIALS["AWS_DEFAULT_REGION"],
        aws_access_key_id=CREDENTIALS["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
        config=Config(s3={"addressing_style": "path"}, retries={"total_max_attempts": 1}),
    )


def test_the_gateway_answers_before_the_function_begins_and_ends_with_the_environment(
    layer: Path, api: ExtensionsApi, store: Store
) -> None:
    port = free_port()
    with extension(layer, api, f"--bucket {BUCKET} --port {port} --origin-endpoint {store.url}") as process:
        assert api.is_initialised.wait(LIMIT_S)
        s3 = function_client(port)
        tiers = []
        for _ in range(2):
            response = s3.get_object(Bucket=BUCKET, Key="a.txt")
            assert response["Body"].read() == _BODY
            tiers.append(response["ResponseMetadata"]["HTTPHeaders"]["x-cache-tier"])
        api.ends.set()

        assert process.wait(LIMIT_S) == 0
        assert tiers == ["s3", "memory"]
        assert (api.registered, api.error) == (("burstcache-gateway", ["SHUTDOWN"]), None)


def test_the_end_of_an_environment_does_not_wait_for_a_client_that_does_not_read(
    layer: Path, api: ExtensionsApi, store: Store
) -> None:
    port = free_port()
    options = f"--unsigned --bucket {BUCKET} --port {port} --origin-endpoint {store.url}"
    with extension(layer, api, options) as process:
        assert api.is_initialised.wait(LIMIT_S)
        connection = HTTPConnection("127.0.0.1", port, timeout=LIMIT_S)
        connection.request("GET", f"/{BUCKET}/large")
        connection.getresponse()
        api.ends.set()

        assert process.wait(LIMIT_S) == 0
        connection.close()


@pytest.mark.parametrize("count", [1, 8])
def test_a_thawed_environment_reads_although_s3_has_hung_up(
    layer: Path, api: ExtensionsApi, store: Store, count: int
) -> None:
    port = free_port()
    for number in range(2 * count):
        store.put(f"/{BUCKET}/{number}", _BODY)
    with (
        extension(layer, api, f"--bucket {BUCKET} --port {port} --origin-endpoint {store.url}") as process,
        ThreadPoolExecutor(count) as threads,
    ):
        assert api.is_initialised.wait(LIMIT_S)
        s3 = function_client(port)

        def read(number: int) -> bytes:
            return bytes(s3.get_object(Bucket=BUCKET, Key=str(number))["Body"].read())

        assert list(threads.map(read, range(count))) == [_BODY] * count
        with frozen(process):
            store.hang_up()
            until(lambda: not store.connections)

        assert list(threads.map(read, range(count, 2 * count))) == [_BODY] * count


@pytest.mark.parametrize(
    ("options", "named"),
    [("--bucket examples --nonsense", "--nonsense"), ("--bucket examples --processes none", "--processes")],
)
def test_a_gateway_that_does_not_start_fails_the_environment(
    layer: Path, api: ExtensionsApi, options: str, named: str
) -> None:
    with extension(layer, api, options) as process:
        assert process.wait(LIMIT_S) == 1
        assert process.stderr is not None
        said = process.stderr.read()

    assert said.startswith("burstcache: the gateway does not start: ")
    assert named in said
    assert not api.is_initialised.is_set()
    assert api.error is not None
    assert api.error["type"] == "Extension.InvalidSettingError"
    assert named in api.error["errorMessage"]


def test_a_port_that_is_taken_fails_the_environment(layer: Path, api: ExtensionsApi, store: Store) -> None:
    taken = store.url.rpartition(":")[2]
    with extension(layer, api, f"--bucket {BUCKET} --port {taken} --origin-endpoint {store.url}") as process:
        assert process.wait(LIMIT_S) == 1

    assert api.error is not None
    assert not api.is_initialised.is_set()


_FUNCTION = """
import boto3
s3 = boto3.client("s3")
def handler(event, context):
    responses = [s3.get_object(Bucket="examples", Key="a.txt") for _ in range(2)]
    return [each["ResponseMetadata"]["HTTPHeaders"]["x-cache-tier"] for each in responses]
"""


@pytest.mark.skipif(not _EMULATOR.exists(), reason="`make gateway-emulator` builds AWS's emulator")
def test_a_function_reads_through_the_extension_under_awss_emulator(layer: Path, store: Store, tmp_path: Path) -> None:
    port, invoke_port = free_ports(2)
    (tmp_path / "function.py").write_text(_FUNCTION)
    environ = {
        **CREDENTIALS,
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "AWS_REGION": CREDENTIALS["AWS_DEFAULT_REGION"],
        "AWS_ENDPOINT_URL_S3": f"http://127.0.0.1:{port}",
        "BURSTCACHE_GATEWAY_PYTHON": sys.executable,
        "BURSTCACHE_GATEWAY_OPTIONS": f"--bucket {BUCKET} --port {port} --origin-endpoint {store.url}",
    }
    # It looks for extensions in /opt. A mount namespace has one of its own.
    address = f"--runtime-interface-emulator-address 127.0.0.1:{invoke_port}"
    start = f'mount --bind "$0" /opt && exec "$1" {address} "$2" -m awslambdaric function.handler'
    command = ["unshare", "--mount", "sh", "-c", start, str(layer), str(_EMULATOR), sys.executable]
    log = (tmp_path / "log").open("w")
    process = subprocess.Popen(command, env=environ, cwd=tmp_path, stdout=log, stderr=log)
    try:
        wait_for_port(invoke_port, process)
        connection = HTTPConnection("127.0.0.1", invoke_port, timeout=LIMIT_S)
        connection.request("POST", "/2015-03-31/functions/function/invocations", b"{}")
        answer = connection.getresponse().read()
        connection.close()
    finally:
        process.terminate()
        ended = process.wait(LIMIT_S)
        log.close()

    said = (tmp_path / "log").read_text()
    assert (json.loads(answer), ended) == (["s3", "memory"], 0), said
    assert said.index(f"reads {BUCKET}") < said.index("INIT RTDONE(status: success)")
