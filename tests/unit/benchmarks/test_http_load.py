"""HTTP load of a benchmark: what wrk is given and what its figures mean, signed requests, and slow clients."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from benchmarks import gateway
from benchmarks.support.gateway_peers import ACCESS_KEY, REGION, SECRET_KEY, signed_requests
from benchmarks.support.http_load import LoadFailedError, Request, processor_s, run_load
from benchmarks.support.slow_clients import measure_slow_clients
from support.waiting import LIMIT_S

_REQUEST = Request("/bucket/hot/100?versionId=null", {"Host": "127.0.0.1:9", "X-Amz-Date": "20261128T000000Z"})
_BURN = """
import time
while time.process_time() < {seconds}:
    pass
print("burnt", flush=True)
input()
"""


@pytest.fixture
def wrk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in for wrk that writes down its arguments and prints `printed`."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "wrk"
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {folder}/arguments\ncat {folder}/printed\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder


def test_figures_are_per_request_and_second(wrk: Path) -> None:
    (wrk / "printed").write_text(
        "Running 2s test\n"
        '{"requests": 500, "bytes": 1, "lasted_us": 2000000, "p50_us": 40, "p99_us": 90, "failed": 0}\n'
    )

    figures = run_load(
        "http://127.0.0.1:9",
        [_REQUEST],
        process_id=os.getpid(),
        connections=16,
        duration_s=2,
    )

    assert (figures.requests, figures.per_s, figures.p50_us, figures.p99_us) == (500, 250.0, 40, 90)
    arguments = (wrk / "arguments").read_text().splitlines()
    assert {"-c16", "-d2s", "X-Amz-Date: 20261128T000000Z", f"http://127.0.0.1:9{_REQUEST.path}"} <= set(arguments)


@pytest.mark.parametrize(
    "printed",
    [
        '{"requests": 500, "bytes": 1, "lasted_us": 2000000, "p50_us": 40, "p99_us": 90, "failed": 1}',
        '{"requests": 0, "bytes": 0, "lasted_us": 2000000, "p50_us": 0, "p99_us": 0, "failed": 0}',
        "unable to connect",
        "",
    ],
)
def test_a_load_with_a_failed_request_has_no_figures(wrk: Path, printed: str) -> None:
    (wrk / "printed").write_text(printed)

    with pytest.raises(LoadFailedError):
        run_load("http://127.0.0.1:9", [_REQUEST], process_id=os.getpid(), connections=1, duration_s=1)


def test_processor_time_is_that_of_the_process_and_its_descendants() -> None:
    burn = [sys.executable, "-c", _BURN.format(seconds=0.2)]
    with subprocess.Popen(["sh", "-c", '"$@"; :', "sh", *burn], stdin=-1, stdout=-1, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "burnt\n"

        assert 0.15 < processor_s(process.pid) < 10

        process.communicate("\n")


def test_signed_requests_are_boto3s_with_a_valid_signature() -> None:
    (request,) = signed_requests("http://127.0.0.1:9", "bucket", ["hot/10 0"], VersionId="null")

    assert request.path == "/bucket/hot/10%200?versionId=null"
    assert request.headers["Host"] == "127.0.0.1:9"
    again = AWSRequest("GET", f"http://127.0.0.1:9{request.path}", dict(_signed_headers(request)))
    again.context["timestamp"] = request.headers["X-Amz-Date"]
    again.context["signing"] = {}
    auth = S3SigV4Auth(Credentials(ACCESS_KEY, SECRET_KEY), "s3", REGION)
    signature = auth.signature(auth.string_to_sign(again, auth.canonical_request(again)), again)
    assert request.headers["Authorization"].endswith(f"Signature={signature}")


def _signed_headers(request: Request) -> Iterator[tuple[str, str]]:
    names = request.headers["Authorization"].partition("SignedHeaders=")[2].partition(",")[0].split(";")
    return ((name, value) for name, value in request.headers.items() if name.lower() in names)


@pytest.mark.parametrize(("answers", "unanswered"), [(True, 0), (False, 3)])
def test_slow_clients_that_get_no_byte_are_counted(answers: bool, unanswered: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        connections: list[socket.socket] = []

        def serve() -> None:
            for _ in range(3):
                connection, _ = server.accept()
                connections.append(connection)
                if answers:
                    connection.sendall(b"x" * 2_000)

        thread = threading.Thread(target=serve)
        thread.start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        figures = measure_slow_clients(
            url,
            [_REQUEST],
            os.getpid(),
            clients=3,
            bytes_per_s=100_000,
            duration_s=0.5,
            answer_within_s=LIMIT_S if answers else 1,
            settle_s=0,
        )
        thread.join()
        for connection in connections:
            connection.close()

    assert figures.unanswered == unanswered
    assert figures.read_bytes == (6_000 if answers else 0)
    assert figures.peak_mib >= figures.before_mib > 0


def test_without_wrk_the_benchmark_names_its_package(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gateway, "has_wrk", lambda: False)
    monkeypatch.setattr(sys, "argv", ["gateway"])

    gateway.main()

    assert "left out: everything (install Debian's wrk)" in capsys.readouterr().out
