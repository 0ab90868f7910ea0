"""`burstcache replay` against a server: its files, its figures, its refusals."""

from __future__ import annotations

import csv
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from burstcache_cli.cli import main


class _Objects(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    seen: ClassVar[list[tuple[str | None, str | None]]] = []

    def do_GET(self) -> None:
        self.seen.append((self.headers["Authorization"], self.headers["X-Team"]))
        self.send_response(200)
        self.send_header("X-Cache-Tier", "lambda" if self.path.endswith("a") else "s3")
        self.send_header("Content-Length", "3")
        self.end_headers()
        self.wfile.write(b"abc")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Objects) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/objects"
        server.shutdown()


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.csv"
    path.write_text("t,key,size\n100,a,3\n100.5,b,3\n101,a,3\n")
    return path


def test_each_request_of_a_log_has_a_row(
    url: str, log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"

    assert main(["replay", str(log), "--url", url, "--out", str(out), "--speed", "1000", "--json"]) == 0

    summary = json.loads(capsys.readouterr().out)
    assert {each["tier"]: each["requests"] for each in summary["tiers"]} == {"lambda": 2, "s3": 1}
    with (out / "requests.csv").open() as lines:
        rows = sorted(csv.DictReader(lines), key=lambda row: int(row["number"]))
    assert [(row["due_s"], row["key"], row["tier"]) for row in rows] == [
        ("100.000000", "a", "lambda"),
        ("100.500000", "b", "s3"),
        ("101.000000", "a", "lambda"),
    ]
    replay = json.loads((out / "replay.json").read_text())
    assert (replay["target"], replay["speed"], replay["requests"], replay["origin_s"]) == (url, 1000.0, 3, 100.0)


@pytest.mark.parametrize("paths", [("/x/a", "/x/b"), ("/x/a",)])
def test_the_path_of_a_log_is_the_key_without_its_slash(url: str, tmp_path: Path, paths: tuple[str, ...]) -> None:
    log = tmp_path / "access.log"
    log.write_text("".join(f'h - - [06/Feb/2019:00:00:38 +0000] "GET {path} HTTP/1.1" 200 3\n' for path in paths))

    assert main(["replay", str(log), "--url", url, "--prefix", "p/", "--out", str(tmp_path / "out")]) == 0

    with (tmp_path / "out" / "requests.csv").open() as lines:
        assert sorted(row["key"] for row in csv.DictReader(lines)) == [f"p{path}" for path in paths]


def test_a_trace_of_one_key_asks_for_the_object_that_is_named(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text("arrival_s\n0\n0.001\n")
    call = ["replay", str(trace), "--url", url, "--out", str(tmp_path / "out")]

    assert main(call) == 2
    assert "--key is missing" in capsys.readouterr().err
    assert main([*call, "--key", "a", "--prefix", "folder/"]) == 0
    assert "folder/a," in (tmp_path / "out" / "requests.csv").read_text()


def test_headers_that_are_secret_come_from_a_file(url: str, log: Path, tmp_path: Path) -> None:
    (tmp_path / "headers").write_text("Authorization: Bearer planted\n\nX-Team: a:b\n")
    call = ["replay", str(log), "--url", url, "--out", str(tmp_path / "out"), "--speed", "1000"]

    assert main([*call, "--header", f"@{tmp_path / 'headers'}"]) == 0
    assert main([*call[:5], str(tmp_path / "again"), *call[6:], "--header", "X-Team: c"]) == 0

    assert _Objects.seen[-6:] == [("Bearer planted", "a:b")] * 3 + [(None, "c")] * 3


def test_a_file_that_is_no_list_of_headers_is_refused_without_being_shown(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "headers").write_text("the token alone\n")

    assert main(["replay", str(log), "--out", str(tmp_path / "out"), "--header", f"@{tmp_path / 'headers'}"]) == 2

    said = capsys.readouterr().err
    assert "expected a name, a colon and a value in each line" in said
    assert "the token alone" not in said


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--speed", "0"], "--speed '0': expected a factor above 0"),
        (["--header", "no colon"], "--header 'no colon': expected a name, a colon and a value"),
        (["--header", "authorization: Bearer t"], "arguments are visible to every user of this machine"),
        (["--header", "@absent"], "--header @absent: No such file or directory"),
        (["--key", "a"], "--key a: applies to a trace of one key; this one has 2"),
        (["--create-objects", "10"], "--create-objects: requires a stack"),
        (["--client"], "--client not allowed with argument --url"),
    ],
)
def test_a_call_that_cannot_be_meant_is_refused(
    options: list[str], message: str, url: str, log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["replay", str(log), "--url", url, "--out", str(tmp_path / "out"), *options]) == 2

    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_front_door_where_nobody_listens_is_a_failure(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "out")

    assert main(["replay", str(log), "--url", "http://127.0.0.1:9/objects", "--out", out, "--speed", "1000"]) == 1

    assert "Failed: 3 requests: ClientConnectorError" in capsys.readouterr().out
