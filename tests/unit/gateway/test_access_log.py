"""The access log of a gateway: whole lines, also on a disk that fails, and none that a request waits for."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from burstcache.gateway import access_log
from burstcache.gateway.access_log import AccessLog, log_line
from burstcache.gateway.http_messages import HttpRequest, response_head
from burstcache.gateway.recorder import described
from burstcache.gateway.s3_requests import Target, Targets
from burstcache.gateway.signatures import Signature, SigningKey
from support.waiting import until

TARGETS = Targets(("localhost",))


def describe(request: HttpRequest) -> tuple[Target, str]:
    return described(request, TARGETS)


def read_of(target: str = "/b/k", headers: tuple[tuple[bytes, bytes], ...] = ()) -> HttpRequest:
    request = HttpRequest(b"GET", target.encode("latin-1"), list(headers))
    request.status, request.sent_bytes = 200, 7
    request.head = response_head(200, [("content-length", "7"), ("x-cache-tier", "memory")])
    request.begun_ns = request.received_ns + 5_000_000
    return request


def line_of(request: HttpRequest) -> str:
    ended_ns, offset_ns = request.received_ns + 9_000_000, 1_700_000_000 * 10**9 - request.received_ns
    return log_line(request, *describe(request), "192.0.2.7", ended_ns, offset_ns).decode("latin-1")


def test_a_line_has_times_sizes_and_the_tier() -> None:
    assert line_of(read_of()) == (
        "- b [14/Nov/2023:22:13:20 +0000] 192.0.2.7 - - REST.GET.OBJECT k "
        '"GET /b/k HTTP/1.1" 200 - 7 7 9 5 "-" "-" - memory - - - - - - - -\n'
    )


def test_nothing_that_a_client_sends_can_end_a_field_or_hold_a_secret() -> None:
    agent = b'x" 200 - 1 1 "' + b"\x7f"
    request = read_of('/b/k?X-Amz-Signature=5ec&a="b"&x-amz-security-token=5ec', ((b"user-agent", agent),))

    line = line_of(request)

    assert '"GET /b/k?X-Amz-Signature=REDACTED&a=%22b%22&x-amz-security-token=REDACTED HTTP/1.1"' in line
    assert '"x%22 200 - 1 1 %22%7F"' in line
    assert line.count('"') == 6
    assert "5ec" not in line


def test_the_signature_of_version_2_is_named_and_not_shown() -> None:
    request = read_of("/b/k?AWSAccessKeyId=AKID&Signature=5ec&Expires=1")
    request.signature = Signature("AKID", True, (), "", SigningKey("", b"", b""), b"", b"", b"5ec", "SigV2")

    line = line_of(request)

    assert "AWSAccessKeyId=AKID&Signature=REDACTED&Expires=1" in line
    assert " AKID " in line
    assert " SigV2 - QueryString " in line
    assert "5ec" not in line


def test_a_request_that_nobody_could_answer_has_a_line(tmp_path: Path) -> None:
    request = HttpRequest(b"GET", b"/b/k")

    assert ' REST.GET.OBJECT k "GET /b/k HTTP/1.1" - - - - 9 - "-"' in line_of(request)


@pytest.fixture
def lost() -> list[int]:
    """The numbers of lost lines."""
    return []


def test_lines_wait_for_the_disk_and_not_for_each_other(
    tmp_path: Path, lost: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access_log, "_BATCH_S", 3600.0)  # until it is closed
    monkeypatch.setattr(access_log, "_MOST_PENDING", 3)
    log = AccessLog(str(tmp_path / "log"), describe, lost.append)
    for _ in range(5):
        log.append(read_of(), "", 0)
    before = (tmp_path / "log").read_text()
    log.close()

    assert before == ""
    assert len((tmp_path / "log").read_text().splitlines()) == 3
    assert sum(lost) == 2


def test_after_a_full_disk_a_new_line_begins(tmp_path: Path, lost: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    file, really = tmp_path / "log", os.write
    outcomes: list[Callable[[int, bytes], int]] = [
        lambda file_, data: really(file_, data[:20]),
        lambda file_, data: (_ for _ in ()).throw(OSError(errno.ENOSPC, "full")),
    ]

    def write(file_: int, data: bytes) -> int:
        return outcomes.pop(0)(file_, data) if outcomes else really(file_, data)

    monkeypatch.setattr(access_log, "_BATCH_S", 0.0)
    monkeypatch.setattr(os, "write", write)
    log = AccessLog(str(file), describe, lost.append)
    log.append(read_of(), "", 0)
    until(lambda: sum(lost) == 1)
    log.append(read_of("/b/next"), "", 0)
    log.close()

    first, second = file.read_text().splitlines()
    assert len(first) == 20
    assert " REST.GET.OBJECT next " in second


def test_a_file_that_cannot_be_opened_anew_stays(
    tmp_path: Path, lost: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access_log, "_BATCH_S", 0.0)
    (tmp_path / "logs").mkdir()
    file = tmp_path / "logs" / "log"
    log = AccessLog(str(file), describe, lost.append)
    (tmp_path / "logs").rename(tmp_path / "moved")
    log.reopen()
    log.append(read_of(), "", 0)
    log.close()

    assert len((tmp_path / "moved" / "log").read_text().splitlines()) == 1
    assert lost == []


def test_a_request_that_has_no_line_costs_no_other_one(tmp_path: Path, lost: list[int]) -> None:
    log = AccessLog(str(tmp_path / "log"), describe, lost.append)
    broken = read_of()
    broken.headers = None  # type: ignore[assignment]
    log.append(broken, "", 0)
    log.append(read_of(), "", 0)
    log.close()

    assert len((tmp_path / "log").read_text().splitlines()) == 1
    assert lost == [1]
