"""Logs below a prefix of a bucket: which objects are fetched, which are not fetched again, and what is refused."""

from __future__ import annotations

import errno
import gzip
import io
import json
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import boto3
import numpy as np
import pytest
from botocore.response import StreamingBody

from burstcache_cli.cli import main
from burstcache_sim.traces import remote
from burstcache_sim.traces.errors import BadLogError
from burstcache_sim.traces.part import PartReader
from burstcache_sim.traces.read import RequestLog, read_log
from burstcache_sim.traces.reading import LogFile
from burstcache_sim.traces.store import Store, default_folder
from support.aws import mocked_aws
from unit.sim.test_traces_formats import combined_row, s3_row

if TYPE_CHECKING:
    from types_boto3_s3 import S3Client

DAY = datetime(2026, 3, 1, tzinfo=UTC)
DAY_US = round(DAY.timestamp() * 1_000_000)
HOUR_US = 3_600_000_000
URL = "s3://media-logs/access/"


@pytest.fixture
def s3() -> Iterator[Any]:
    with mocked_aws():
        client = boto3.client("s3")
        client.create_bucket(
            Bucket="media-logs", CreateBucketConfiguration={"LocationConstraint": client.meta.region_name}
        )
        yield client


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    names: list[str] = []
    fetch = remote.fetch

    def counted(client: S3Client, file: LogFile, path: Path) -> None:
        names.append(file.name.rpartition("/")[2])
        fetch(client, file, path)

    monkeypatch.setattr("burstcache_sim.traces.sources.fetch", counted)
    return names


def put(s3: Any, at: datetime, *rows: str, number: int = 0) -> str:
    name = f"{at:%Y-%m-%d-%H-%M-%S}-{number:016X}"
    s3.put_object(Bucket="media-logs", Key=f"access/{name}", Body="".join(rows).encode())
    return name


def row(at: datetime, key: str = "a") -> str:
    return s3_row(time=f"{at:%d/%b/%Y:%H:%M:%S} +0000", key=key)


def read(tmp_path: Path, url: str = URL, **options: Any) -> RequestLog:
    return read_log(url, store=tmp_path / "store", **options)


def columns_of(log: RequestLog) -> tuple[Any, ...]:
    trace = log.trace
    assert trace.key_ids is not None
    assert trace.sizes_bytes is not None
    return trace.keys, trace.arrivals_us.tolist(), trace.key_ids.tolist(), trace.sizes_bytes.tolist()


@pytest.mark.slow
def test_objects_are_read_as_files_are_and_a_second_call_fetches_what_is_new(
    s3: Any, tmp_path: Path, fetched: list[str]
) -> None:
    local = tmp_path / "local"
    local.mkdir()
    for number in range(100):
        at = DAY + timedelta(minutes=number)
        name = put(s3, at, row(at, f"k{number % 7}"), row(at - timedelta(hours=2), "late"), number=number)
        (local / name).write_text(row(at, f"k{number % 7}") + row(at - timedelta(hours=2), "late"))

    first = read(tmp_path)
    at_first = len(fetched)
    new = put(s3, DAY + timedelta(days=9), row(DAY), number=1)
    second = read(tmp_path)

    assert columns_of(first) == columns_of(read_log(local))
    assert (first.files, first.rows, at_first) == (100, 200, 101)  # one of them for its format, too
    assert (second.files, second.rows) == (101, 201)
    assert fetched[at_first + 1 :] == [new]


def test_an_object_below_two_prefixes_is_read_once(s3: Any, tmp_path: Path) -> None:
    for number in range(3):
        put(s3, DAY, row(DAY), number=number)

    found = read_log([f"{URL}2026-03", URL, URL], store=tmp_path / "store")

    assert (found.files, found.rows) == (3, 3)


@pytest.mark.slow
def test_what_an_interrupted_call_has_read_is_not_fetched_again(s3: Any, tmp_path: Path, fetched: list[str]) -> None:
    for number in range(80):
        put(s3, DAY, "torn\n" if number == 70 else row(DAY), number=number)

    with pytest.raises(BadLogError, match=r"s3://media-logs/access/2026-03-01-00-00-00-0+46 line 1: 'torn'"):
        read(tmp_path)
    kept = len(list((tmp_path / "store").iterdir()))
    s3.delete_object(Bucket="media-logs", Key=f"access/2026-03-01-00-00-00-{70:016X}")
    fetched.clear()

    assert len(read(tmp_path).trace) == 79
    assert kept >= 64
    assert len(fetched) == 79 - kept + 1


def test_a_changed_object_and_another_way_of_reading_are_read_anew(s3: Any, tmp_path: Path, fetched: list[str]) -> None:
    put(s3, DAY, row(DAY), "torn\n")
    assert read(tmp_path, skip_bad_rows=True).bad_rows == 1

    with pytest.raises(BadLogError, match="line 2: 'torn'"):
        read(tmp_path)
    put(s3, DAY, row(DAY), row(DAY))

    assert len(read(tmp_path, skip_bad_rows=True).trace) == 2


def test_a_span_leaves_out_objects_that_were_delivered_before_it_or_a_day_after_it(
    s3: Any, tmp_path: Path, fetched: list[str]
) -> None:
    names = {
        hours: put(s3, DAY + timedelta(hours=hours), row(DAY + timedelta(hours=hours))) for hours in range(-60, 61, 6)
    }

    log = read(tmp_path, first_us=DAY_US, last_us=DAY_US + 12 * HOUR_US)

    assert (len(log.trace), log.outside) == (2, log.files - 2)
    assert set(fetched) == {name for hours, name in names.items() if -24 <= hours <= 36}
    assert columns_of(read(tmp_path, first_us=DAY_US, last_us=DAY_US + 12 * HOUR_US)) == columns_of(log)


def test_objects_written_before_the_span_are_left_out_whatever_their_names(s3: Any, tmp_path: Path) -> None:
    s3.put_object(Bucket="media-logs", Key="access/any.log", Body=row(DAY).encode())

    with pytest.raises(BadLogError, match="all of its 1 objects are outside the chosen span"):
        read(tmp_path, first_us=round((datetime.now(UTC) + timedelta(days=1)).timestamp() * 1_000_000))


@pytest.mark.parametrize(
    ("name", "is_fetched"),
    [
        ("E1.2026-03-01-10.ab12.gz", True),
        ("E1.2026-03-09-10.ab12.gz", False),
        ("x/123_elasticloadbalancing_eu_app.lb.1_20260301T0005Z_10.0.0.1_ab.log.gz", True),
        ("x/123_elasticloadbalancing_eu_app.lb.1_20260309T0005Z_10.0.0.1_ab.log.gz", False),
        ("x/123_CloudTrail_eu-central-1_20260309T0005Z_abc.json.gz", False),
        ("2026-03-09-any-name", True),
    ],
)
def test_the_names_of_other_services_have_dates_too(s3: Any, tmp_path: Path, name: str, is_fetched: bool) -> None:
    s3.put_object(Bucket="media-logs", Key="access/0", Body=gzip.compress(row(DAY).encode()))
    s3.put_object(Bucket="media-logs", Key=f"access/{name}", Body=gzip.compress(row(DAY).encode()))

    assert read(tmp_path, last_us=DAY_US + 24 * HOUR_US).files == 1 + is_fetched


def test_a_share_of_the_keys_is_that_of_the_same_files_here(s3: Any, tmp_path: Path) -> None:
    rows = [row(DAY + timedelta(seconds=number), f"k{number}") for number in range(300)]
    (tmp_path / "log").write_text("".join(rows))
    put(s3, DAY, *rows[:100])
    put(s3, DAY, *rows[100:], number=1)

    from_s3, from_here = read(tmp_path, sample_keys=0.3), read_log(tmp_path / "log", sample_keys=0.3)

    assert 50 < len(from_s3.trace) < 150
    assert columns_of(from_s3) == columns_of(from_here)
    assert from_s3.trace.sample == from_here.trace.sample


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("s3://nowhere/logs/", "there is no bucket nowhere"),
        ("s3://media-logs/other/", "no objects below this prefix"),
        ("s3://", "expected s3://bucket/prefix"),
    ],
)
def test_what_cannot_be_listed_is_one_line(
    s3: Any, tmp_path: Path, url: str, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sim", "inspect", url, "--log-store", str(tmp_path)]) == 2

    error = capsys.readouterr().err
    assert f"{url}: {reason}" in error
    assert error.count("\n") == 1


def test_a_missing_right_names_the_rights_that_are_needed(
    s3: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from botocore.exceptions import ClientError

    def refuse(*_: Any, **__: Any) -> None:
        raise ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, "ListObjectsV2")

    client = remote.new_client()
    monkeypatch.setattr(client, "get_paginator", refuse)
    monkeypatch.setattr(client, "get_object", refuse)
    put(s3, DAY, row(DAY))
    (file,) = remote.listed(s3, URL, None, None)

    for call in (lambda: remote.listed(client, URL, None, None), lambda: remote.fetch(client, file, tmp_path / "x")):
        with pytest.raises(
            BadLogError, match="no permission to read it: expected s3:ListBucket on the bucket media-logs and s3:Get"
        ):
            call()


def test_commands_read_logs_where_they_are(s3: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(3):
        put(s3, DAY, *(row(DAY + timedelta(seconds=second), f"k{second % 3}") for second in range(99)), number=number)

    assert main(["sim", "inspect", URL, "--log-store", str(tmp_path), "--json"]) == 0

    told = json.loads(capsys.readouterr().out)
    assert (told["format"], told["files"], told["requests"], told["keys"]) == ("s3", 3, 297, 3)
    assert list(tmp_path.glob("*.npz"))


def test_an_answer_that_breaks_off_is_asked_for_again(s3: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(s3, DAY, row(DAY), row(DAY))
    (file,) = remote.listed(s3, URL, None, None)
    whole, answers = s3.get_object, []

    def answer(**asked: str) -> Any:
        answers.append(asked)
        found = whole(**asked)
        if len(answers) < 3:
            found["Body"] = StreamingBody(io.BytesIO(found["Body"].read()[:50]), found["ContentLength"])
        return found

    monkeypatch.setattr(s3, "get_object", answer)
    remote.fetch(s3, file, tmp_path / "copy")

    assert (tmp_path / "copy").read_text() == row(DAY) * 2
    assert len(answers) == 3


def test_a_request_far_from_the_others_is_named_by_object_and_line_and_no_copy_is_left(
    s3: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    put(s3, DAY, row(DAY), row(DAY))
    name = put(s3, DAY, row(DAY), row(DAY - timedelta(days=40 * 365)), number=1)

    for _ in ("fetched", "stored"):
        with pytest.raises(BadLogError, match=f"^{URL}{name} line 2: a request on 1986-03-11, 39 years from"):
            read(tmp_path)

    assert [path.name for path in tmp_path.iterdir()] == ["store"]
    assert read(tmp_path, skip_bad_rows=True).bad_rows == 1


def test_objects_of_two_formats_are_no_log(s3: Any, tmp_path: Path) -> None:
    put(s3, DAY, row(DAY))
    put(s3, DAY, combined_row(), number=1)

    with pytest.raises(
        BadLogError, match=r"s3://media-logs/access/\S+1 line 1: .*expected a record of an S3|one format"
    ):
        read(tmp_path)


def test_the_store_keeps_what_was_used_last_and_a_damaged_file_is_read_anew(s3: Any, tmp_path: Path) -> None:
    for number in range(5):
        put(s3, DAY, row(DAY), number=number)
    read(tmp_path)
    files = sorted((tmp_path / "store").iterdir(), key=lambda path: path.stat().st_mtime)
    files[-1].write_bytes(b"torn")

    assert len(read(tmp_path).trace) == 5
    Store(tmp_path / "store").trim(max_bytes=2 * files[0].stat().st_size)
    assert len(list((tmp_path / "store").iterdir())) == 2


def test_a_full_disk_leaves_no_part_of_a_file(s3: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    savez = np.savez

    def fill(file: Any, *columns: Any, **more: Any) -> None:
        savez(file, *columns, **more)
        raise OSError(errno.ENOSPC, "No space left on device")

    put(s3, DAY, row(DAY))
    with monkeypatch.context() as patched:
        patched.setattr(np, "savez", fill)
        assert len(read(tmp_path).trace) == 1

    assert list((tmp_path / "store").iterdir()) == []


def test_what_a_killed_process_has_left_is_trimmed(s3: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(s3, DAY, row(DAY))
    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", lambda *_: None)
        patched.setattr(Path, "unlink", lambda *_, **__: None)
        read(tmp_path)
    assert len(list((tmp_path / "store").iterdir())) == 1

    Store(tmp_path / "store").trim(max_bytes=0)

    assert list((tmp_path / "store").iterdir()) == []


@pytest.mark.parametrize("harm", ["damaged", "trimmed"])
def test_what_was_kept_and_cannot_be_loaded_is_fetched_again(
    s3: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, harm: str
) -> None:
    put(s3, DAY, row(DAY), row(DAY))
    read(tmp_path)
    (kept,) = (tmp_path / "store").iterdir()
    is_kept = PartReader.is_stored

    def trimmed(settled: PartReader, file: LogFile) -> bool:
        found = is_kept(settled, file)
        kept.unlink()
        return found

    if harm == "damaged":
        content = bytearray(kept.read_bytes())
        content[content.index(b"\n") + 1] ^= 1  # the first array's first byte, behind its header
        kept.write_bytes(content)
    else:
        monkeypatch.setattr(PartReader, "is_stored", trimmed)

    assert len(read(tmp_path).trace) == 2
    assert Store(tmp_path / "store").load(kept) is not None


def test_the_store_is_a_folder_of_the_user_s_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")

    assert default_folder() == Path("/somewhere/burstcache/logs")
