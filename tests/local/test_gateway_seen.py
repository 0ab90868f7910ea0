"""A gateway shows what it does: metrics, health and an access log that `advise` reads, over several processes, too."""

from __future__ import annotations

import http.client
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from burstcache.gateway.registration import RegisteredGateway, registered_gateways
from burstcache_cli import cli
from burstcache_dashboard.gateways import gateways
from burstcache_local.moto.server import moto_server
from burstcache_sim.traces.read import read_log
from support.project import PYTHONPATH
from support.waiting import LIMIT_S, until

if TYPE_CHECKING:
    from types_boto3_s3 import S3Client

KEY, SECRET, REGION, BUCKET = "AKIDSEEN", "secret-of-seen", "us-east-1", "seen-bucket"
SMALL, LARGE = b"small" * 200, os.urandom(3 << 20)


def client_of(url: str, secret: str = SECRET) -> S3Client:
    config = Config(signature_version="s3v4", retries={"total_max_attempts": 1}, s3={"addressing_style": "path"})
    s3: S3Client = boto3.client(
        "s3",
        endpoint_url=url,
        region_name=REGION,
        aws_access_key_id=KEY,
        aws_secret_access_key=secret,
        config=config,
    )
    return s3


@pytest.fixture(scope="module")
def origin() -> Iterator[str]:
    """Run an S3 with objects."""
    with moto_server() as services:
        s3 = client_of(services.cloud_url)
        s3.create_bucket(Bucket=BUCKET)
        s3.put_object(Bucket=BUCKET, Key="small", Body=SMALL)
        s3.put_object(Bucket=BUCKET, Key="odd/a b+c=ä%41", Body=SMALL)
        s3.put_object(Bucket=BUCKET, Key="large", Body=LARGE)
        yield services.cloud_url


@contextmanager
def gateway(origin: str, *options: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    command = [sys.executable, "-m", "burstcache.gateway", "--port", "0", "--bucket", BUCKET, "--region", REGION]
    variables = {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "PYTHONPATH": PYTHONPATH}
    with subprocess.Popen(
        [*command, "--origin-endpoint", origin, *options],
        env=os.environ | variables,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            assert line.startswith("http://"), f"it ended with {process.wait(LIMIT_S)}"
            yield line.split()[0], process
        finally:
            process.terminate()


def get(url: str, path: str, **headers: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=LIMIT_S)
    connection.request("GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()})
    response = connection.getresponse()
    body = response.read().decode()
    connection.close()
    return response.status, body


def metrics(url: str, path: str = "/-/metrics") -> dict[str, float]:
    """Return the values by name and labels, without the common prefix. Those that are 0 are left out."""
    status, text = get(url, path)
    assert status == 200
    lines = re.findall(r"^(?:burstcache_gateway_)?(\w+(?:\{.*\})?) (\S+)$", text, re.MULTILINE)
    return {name: float(value) for name, value in lines if float(value)}


def requests(values: dict[str, float]) -> dict[tuple[str, ...], float]:
    """Return the numbers of requests by operation, tier and outcome."""
    return {
        tuple(re.findall(r'"(\w+)"', name)): value
        for name, value in values.items()
        if name.startswith("requests_total")
    }


def lines_of(log: Path, count: int) -> list[str]:
    """Return the lines of a log once there are so many."""

    def lines() -> list[str] | None:
        found = log.read_text().splitlines()
        return found if len(found) >= count else None

    return until(lines)


def test_requests_are_counted_by_tier_and_outcome_and_s3s_by_operation(origin: str) -> None:
    with gateway(origin) as (url, _):
        s3 = client_of(url)
        for _ in range(3):
            assert s3.get_object(Bucket=BUCKET, Key="small")["Body"].read() == SMALL
        s3.head_object(Bucket=BUCKET, Key="small")
        s3.put_object(Bucket=BUCKET, Key="written", Body=SMALL)
        s3.list_objects_v2(Bucket=BUCKET)
        with pytest.raises(ClientError):
            s3.get_object(Bucket=BUCKET, Key="absent")
        with pytest.raises(ClientError):
            client_of(url, "another-secret").get_object(Bucket=BUCKET, Key="small")

        values = metrics(url)

    assert requests(values) == {
        ("get", "s3", "ok"): 1,
        ("get", "memory", "ok"): 2,
        ("head", "memory", "ok"): 1,
        ("write", "s3", "ok"): 1,
        ("other", "s3", "ok"): 1,
        ("get", "s3", "client_error"): 1,
        ("get", "none", "client_error"): 1,
    }
    assert values['sent_bytes_total{tier="memory"}'] == 2 * len(SMALL)
    assert values['refused_requests_total{code="SignatureDoesNotMatch"}'] == 1
    assert values['s3_requests_total{operation="get",outcome="ok"}'] == 2  # small, and the list
    assert values['s3_requests_total{operation="get",outcome="client_error"}'] == 1
    assert values['s3_requests_total{operation="write",outcome="ok"}'] == 1
    assert values['s3_request_seconds_count{operation="get"}'] == 3
    assert values['request_seconds_bucket{tier="memory",le="+Inf"}'] == 3
    assert values["s3_received_bytes_total"] > len(SMALL)
    assert values["memory_bytes"] > len(SMALL)
    assert values["memory_limit_bytes"] == 64 << 20
    assert values["process_start_time_seconds"] > 1.6e9


def test_any_process_shows_the_sum_of_all_also_of_one_that_was_killed(origin: str) -> None:
    with gateway(origin, "--processes", "2") as (url, process):
        for _ in range(20):
            client_of(url).get_object(Bucket=BUCKET, Key="small")["Body"].read()
        before = metrics(url)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        os.kill(int(children[0]), signal.SIGKILL)
        until(lambda: metrics_or_none(url, "process_starts_total") == 3)
        after = metrics(url)

    assert before["process_starts_total"] == 2
    assert sum(requests(before).values()) == 20
    assert sum(requests(after).values()) == 20
    assert after["process_start_time_seconds"] == before["process_start_time_seconds"]


def metrics_or_none(url: str, name: str) -> float | None:
    """Return a value, or None if the connection came to a process that was killed."""
    try:
        return metrics(url).get(name)
    except (OSError, http.client.HTTPException):
        return None


def test_the_own_paths_take_no_bucket_away(origin: str) -> None:
    client_of(origin).create_bucket(Bucket="metrics")
    client_of(origin).put_object(Bucket="metrics", Key="of-the-bucket", Body=b"")
    with gateway(origin) as (url, _):
        signed = client_of(url).list_objects_v2(Bucket="metrics")
        answers = {path: get(url, path) for path in ("/-/healthz", "/healthz", "/metrics", "/metrics?x=1", "/metrics/")}
        other_name = get(url, "/metrics", Host="metrics.localhost")
    with gateway(origin, "--unsigned") as (url, _):
        unsigned = get(url, "/metrics"), get(url, "/-/metrics")

    assert [each["Key"] for each in signed["Contents"]] == ["of-the-bucket"]
    assert answers["/-/healthz"] == answers["/healthz"] == (200, "ok\n")
    assert answers["/metrics"][0] == 200
    assert "burstcache_gateway_requests_total" in answers["/metrics"][1]
    assert answers["/metrics?x=1"][0] == answers["/metrics/"][0] == other_name[0] == 403
    assert "of-the-bucket" in unsigned[0][1]
    assert "burstcache_gateway_requests_total" in unsigned[1][1]


def test_metrics_are_for_this_machine_and_health_for_everybody(origin: str) -> None:
    with gateway(origin) as (url, _):
        rebound = {path: get(url, path, Host="a.page.example")[0] for path in ("/-/metrics", "/metrics", "/-/healthz")}
        forwarded = get(url, "/-/metrics", X_Forwarded_For="192.0.2.7")[0]
        counted = metrics(url)

    assert rebound == {"/-/metrics": 403, "/metrics": 403, "/-/healthz": 200}
    assert forwarded == 403
    assert requests(counted) == {("other", "none", "client_error"): 1}  # /metrics, an unsigned request for a bucket


def test_a_listener_of_their_own_has_metrics_and_health_while_downloads_end(origin: str) -> None:
    with gateway(origin, "--metrics-port", "0") as (url, process):
        assert process.stdout is not None
        own = process.stdout.readline().split()[0].removesuffix("/-/metrics")
        anybody = get(own, "/metrics", Host="a.page.example")[0], get(own, "/healthz"), get(own, f"/{BUCKET}/small")[0]
        slow = client_of(url).get_object(Bucket=BUCKET, Key="large")["Body"]
        first = slow.read(1)
        process.terminate()
        until(lambda: get(own, "/healthz") == (503, "draining\n"))
        rest = slow.read()
        assert process.wait(LIMIT_S) == 0

    assert anybody == (200, (200, "ok\n"), 404)
    assert first + rest == LARGE


def test_the_access_log_is_s3s_and_advise_reads_it(origin: str, tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    with gateway(origin, "--access-log", str(log)) as (url, _):
        s3 = client_of(url)
        for _ in range(2):
            s3.get_object(Bucket=BUCKET, Key="small", Range="bytes=10-19")["Body"].read()
        for _ in range(2):
            s3.get_object(Bucket=BUCKET, Key="odd/a b+c=ä%41")["Body"].read()
        s3.put_object(Bucket=BUCKET, Key="written", Body=SMALL)
        s3.list_objects_v2(Bucket=BUCKET)
        with pytest.raises(ClientError):
            s3.get_object(Bucket=BUCKET, Key="absent")
        shared = s3.generate_presigned_url("get_object", Params={"Bucket": BUCKET, "Key": "small"})
        assert get(url, shared.removeprefix(url), User_Agent='a "browser"')[0] == 200
        lines = lines_of(log, 8)

    fields = [re.findall(r'\[.*?\]|".*?"|\S+', line) for line in lines]
    assert {len(each) for each in fields} == {27}
    columns = [(each[6], each[7], each[9], each[10], each[11], each[12]) for each in fields]
    size = str(len(SMALL))
    assert columns == [
        ("REST.GET.OBJECT", "small", "206", "-", "10", size),
        ("REST.GET.OBJECT", "small", "206", "-", "10", size),
        ("REST.GET.OBJECT", "odd/a%2520b%252Bc%253D%25C3%25A4%252541", "200", "-", size, size),
        ("REST.GET.OBJECT", "odd/a%2520b%252Bc%253D%25C3%25A4%252541", "200", "-", size, size),
        ("REST.PUT.OBJECT", "written", "200", "-", "-", size),
        ("REST.GET.BUCKET", "-", "200", "-", fields[5][11], "-"),
        ("REST.GET.OBJECT", "absent", "404", "NoSuchKey", fields[6][11], "-"),
        ("REST.GET.OBJECT", "small", "200", "-", size, size),
    ]
    assert all(each[1] == BUCKET and each[3] == "127.0.0.1" and each[4] == KEY for each in fields)
    assert [each[18] for each in fields][2:4] == ["s3", "memory"]
    assert fields[7][16] == '"a %22browser%22"'
    assert fields[7][21] == "QueryString"
    assert "X-Amz-Signature=REDACTED" in fields[7][8]

    read = read_log(log)
    assert (read.format_name, read.bad_rows, read.other_requests) == ("s3", 0, 3)
    assert len(read.trace.arrivals_us) == 5
    assert set(read.trace.objects or read.trace.keys) == {"small", "odd/a b+c=ä%41"}


def test_processes_share_an_access_log_and_begin_another_file_at_a_signal(origin: str, tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    with gateway(origin, "--access-log", str(log), "--processes", "2") as (url, process):

        def read(count: int) -> None:
            for _ in range(count):
                client_of(url).get_object(Bucket=BUCKET, Key="small")["Body"].read()

        read(20)
        lines_of(log, 20)
        log.rename(tmp_path / "access.log.1")
        process.send_signal(signal.SIGHUP)
        until(log.exists)
        read(20)
        process.terminate()
        assert process.wait(LIMIT_S) == 0

    lines = [*(tmp_path / "access.log.1").read_text().splitlines(), *log.read_text().splitlines()]
    assert len(lines) == 40
    assert {line.split()[7] for line in lines} == {"REST.GET.OBJECT"}


def test_doctor_tries_a_gateway_and_names_what_is_wrong_in_a_sentence(
    origin: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tmp_path.chmod(0o700)
    for name, value in (
        ("XDG_RUNTIME_DIR", str(tmp_path)),
        ("AWS_ACCESS_KEY_ID", KEY),
        ("AWS_SECRET_ACCESS_KEY", SECRET),
    ):
        monkeypatch.setenv(name, value)

    def doctor(*arguments: str) -> tuple[int, str, str]:
        code = cli.main(["doctor", *arguments])
        out, err = (" ".join(text.split()) for text in capsys.readouterr())
        return code, out, err

    with gateway(origin) as (url, process):
        assert registered_gateways() == [RegisteredGateway(url, f"{url}/-/metrics", process.pid, BUCKET)]
        works = doctor("--gateway", url, "--key", "small")
        absent = doctor("--gateway", url, "--bucket", "no-such-bucket")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another-secret")
        stranger = doctor("--gateway", url)
        elsewhere = doctor("--gateway", origin)
        process.kill()
        process.wait(LIMIT_S)
        gone = doctor("--gateway", url)
        assert registered_gateways() == []  # its file is removed, since nobody holds it

    assert works[0] == 0
    assert "'small': s3, then s3, then memory" in works[1]
    assert (absent[0], absent[2]) == (1, f"{url}: bucket: S3 has no such bucket: check --bucket")
    assert stranger[0] == 1
    assert stranger[2].startswith(f"{url}: bucket: the gateway or S3 refuses these credentials")
    assert elsewhere[2].endswith("check the URL")
    assert gone[2].startswith(f"{url}: health: it does not answer: ")


def test_the_dashboard_finds_a_gateway_and_shows_its_figures(
    origin: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    none = gateways()
    with gateway(origin) as (url, process):
        for _ in range(4):
            client_of(url).get_object(Bucket=BUCKET, Key="small")["Body"].read()
        with pytest.raises(ClientError):
            client_of(url, "another-secret").get_object(Bucket=BUCKET, Key="small")
        (shown,) = gateways()
        process.send_signal(signal.SIGSTOP)
        (silent,) = gateways()
        process.send_signal(signal.SIGCONT)
        process.terminate()
        assert process.wait(LIMIT_S) == 0
    after = gateways()

    assert none == after == []
    assert (shown["bucket"], shown["url"], shown["processId"], shown["problem"]) == (BUCKET, url, process.pid, "")
    assert (shown["requests"], shown["hitShare"], shown["refused"], shown["failed"]) == (5, 0.75, 1, 0)
    assert shown["sentBytes"] > 4 * len(SMALL)
    assert shown["memoryBytes"] > len(SMALL)
    assert silent["problem"].startswith("it does not answer: ")
