"""Logs as JSON, tables with other names, times of ISO 8601, packed by zstd."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import zstandard

from burstcache.core.errors import InvalidSettingError
from burstcache_cli.cli import main
from burstcache_sim.traces.errors import BadLogError, BadRowError
from burstcache_sim.traces.read import RequestLog, read_log
from burstcache_sim.traces.timestamps import any_time_us, iso_us
from support.trace_columns import keys_of, sizes_of

CLOUDFRONT = {
    "date": "2026-03-01",
    "time": "10:00:05",
    "cs-method": "GET",
    "cs-uri-stem": "/a%2520b.jpg",
    "sc-status": "200",
    "sc-bytes": "700",
    "sc-content-len": "500",
}
NGINX = {
    "time_iso8601": "2026-03-01T11:00:05+01:00",
    "request": "GET /a%20b.jpg?x=1 HTTP/1.1",
    "status": 200,
    "body_bytes_sent": 500,
}
CLOUDTRAIL: dict[str, Any] = {
    "eventVersion": "1.11",
    "eventTime": "2026-03-01T10:00:05Z",
    "eventSource": "s3.amazonaws.com",
    "eventName": "GetObject",
    "requestParameters": {"bucketName": "media", "key": "a b.jpg", "Host": "media.s3.amazonaws.com"},
    "additionalEventData": {"bytesTransferredIn": 0.0, "bytesTransferredOut": 500.0},
}


def lines(*rows: dict[str, Any] | str) -> str:
    return "".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows)


def log_of(tmp_path: Path, content: str | bytes, **options: Any) -> RequestLog:
    path = tmp_path / "log"
    path.write_bytes(content.encode("utf-8", "surrogateescape") if isinstance(content, str) else content)
    return read_log(path, **options)


def test_cloudfront_writes_its_fields_as_json_too(tmp_path: Path) -> None:
    later = CLOUDFRONT | {"time": "10:00:07", "sc-content-len": "-"}
    others = [CLOUDFRONT | {"cs-method": "POST"}, CLOUDFRONT | {"sc-status": "000"}]

    log = log_of(tmp_path, lines(later, CLOUDFRONT, *others))

    assert (log.format_name, log.other_requests) == ("cloudfront-json", 2)
    assert log.trace.arrivals_us.tolist() == [0, 2_000_000]
    assert keys_of(log.trace) == ["/a b.jpg", "/a b.jpg"]
    assert sizes_of(log.trace) == [500, 700]


@pytest.mark.parametrize(
    "row",
    [
        NGINX,
        {**NGINX, "time_iso8601": "2026-03-01T10:00:05Z", "request": "GET /a%20b.jpg HTTP/2.0"},
        {
            "msec": "1772359205.000",
            "request_method": "GET",
            "request_uri": "/a%20b.jpg?y",
            "status": "200",
            "bytes": 500,
        },
        {"time_local": "01/Mar/2026:11:00:05 +0100", "method": "get", "uri": "/a b.jpg", "status": 200, "size": "500"},
        {"@timestamp": "2026-03-01T10:00:05.000Z", "url": "https://h.example/a%20b.jpg", "bytes_sent": 500},
    ],
)
def test_json_lines_have_the_names_of_nginx_s_variables(tmp_path: Path, row: dict[str, Any]) -> None:
    log = log_of(tmp_path, lines(row))

    assert (log.format_name, log.origin_us) == ("json", 1_772_359_205_000_000)
    assert (log.trace.keys, sizes_of(log.trace)) == (("/a b.jpg",), [500])


def test_json_lines_of_other_requests_are_counted_apart(tmp_path: Path) -> None:
    others = [NGINX | {"request": "POST /a HTTP/1.1"}, NGINX | {"status": 404}, NGINX | {"request": ""}]

    log = log_of(tmp_path, lines(NGINX, *others))

    assert (len(log.trace), log.other_requests) == (1, 3)


def test_json_may_hold_bytes_that_are_no_utf_8(tmp_path: Path) -> None:
    log = log_of(tmp_path, json.dumps(NGINX).encode().replace(b"x=1", b"\xff=1") + b"\n")

    assert log.trace.keys == ("/a b.jpg",)


def test_fields_name_the_members_of_json_and_the_columns_of_a_table(tmp_path: Path) -> None:
    names = {"time": "when", "key": "what", "size": "length", "method": "verb", "status": "code"}
    row = {"when": "2026-03-01 10:00:05", "what": "a", "length": 5, "verb": "GET", "code": 200}
    table = "code,verb,what,when,length\n200,GET,a,2026-03-01 10:00:05,5\n"

    for content in (lines(row), table):
        log = log_of(tmp_path, content, names=names)
        assert (log.trace.keys, sizes_of(log.trace), log.origin_us) == (("a",), [5], 1_772_359_205_000_000)


def test_an_unknown_field_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InvalidSettingError, match="field 'colour': expected one of time, key, size, method, status"):
        log_of(tmp_path, lines(NGINX), names={"colour": "c"})
    assert main(["sim", "inspect", "x", "--fields", "colour=c"]) == 2
    assert "'colour=c': expected one of time, key, size, method, status" in capsys.readouterr().err


def test_cloudtrail_delivers_files_of_records(tmp_path: Path) -> None:
    part = CLOUDTRAIL["requestParameters"] | {"Range": "bytes=0-9"}
    others = [CLOUDTRAIL | {"eventName": "PutObject"}, CLOUDTRAIL | {"errorCode": "AccessDenied"}]
    ranged = CLOUDTRAIL | {"requestParameters": part, "eventTime": "2026-03-01T10:00:06Z"}

    for content in (json.dumps({"Records": [ranged, CLOUDTRAIL, *others]}), lines(ranged, CLOUDTRAIL, *others)):
        log = log_of(tmp_path, content)
        assert (log.format_name, log.rows, log.other_requests) == ("cloudtrail", 4, 2)
        assert log.trace.arrivals_us.tolist() == [0, 1_000_000]
        assert (log.trace.keys, sizes_of(log.trace)) == (("a b.jpg [bytes 0-9]", "a b.jpg"), [500, 10])


@pytest.mark.parametrize(
    ("rows", "line", "expected"),
    [
        ([NGINX, "{torn"], 2, "an object of JSON"),
        ([NGINX, "[1]"], 2, "an object of JSON"),
        ([NGINX, NGINX | {"time_iso8601": "noon"}], 2, "or a number, not 'noon'"),
        ([NGINX, {"status": 200}], 2, "a time: choose one of status by --fields time=NAME"),
        ([NGINX, {"msec": 1.5, "status": 200}], 2, "an object: choose one of msec, status by --fields key=NAME"),
        ([NGINX, NGINX | {"status": "OK"}], 2, "a status of three digits"),
        ([CLOUDFRONT, {"date": "2026-03-01"}], 2, "the fields date, time, cs-method"),
        ([CLOUDTRAIL, {"eventSource": "s3.amazonaws.com"}], 2, "an event of CloudTrail"),
        ([CLOUDTRAIL, CLOUDTRAIL | {"requestParameters": None}], 2, "bucketName and key in requestParameters"),
    ],
)
def test_a_bad_row_of_json_is_named_or_skipped(
    tmp_path: Path, rows: list[dict[str, Any] | str], line: int, expected: str
) -> None:
    with pytest.raises(BadLogError) as raised:
        log_of(tmp_path, lines(*rows))

    assert str(raised.value).startswith(f"{tmp_path / 'log'} line {line}: ")
    assert expected in str(raised.value)
    assert log_of(tmp_path, lines(*rows), skip_bad_rows=True).bad_rows == 1


@pytest.mark.parametrize("header", ["T,Key,Size", "Timestamp,SIZE,kEy", "time,method,key,size,other"])
def test_a_table_may_write_its_usual_names_in_any_case_and_order(tmp_path: Path, header: str) -> None:
    values = {"t": "1.5", "time": "1.5", "timestamp": "1.5", "key": "a", "size": "7", "method": "GET", "other": "x"}

    log = log_of(tmp_path, f"{header}\n{','.join(values[name.lower()] for name in header.split(','))}\n")

    assert (log.trace.arrivals_us.tolist(), log.trace.keys, sizes_of(log.trace)) == ([1_500_000], ("a",), [7])


def test_an_empty_status_is_that_of_a_request_that_counts(tmp_path: Path) -> None:
    log = log_of(tmp_path, "t,key,status\n1,a,\n2,b,200\n3,c,404\n")

    assert (log.trace.keys, log.other_requests) == (("a", "b"), 1)
    with pytest.raises(BadLogError, match=r"not 'hit' \(if the column has something else, leave it out\)"):
        log_of(tmp_path, "t,key,status\n1,a,hit\n")


@pytest.mark.parametrize(
    ("stamp", "us"),
    [
        ("2026-03-01T10:00:05Z", 1_772_359_205_000_000),
        ("2026-03-01 10:00:05.25", 1_772_359_205_250_000),
        ("2026-03-01T10:00:05,123456789Z", 1_772_359_205_123_456),
        ("2026-03-01T15:30:05+05:30", 1_772_359_205_000_000),
        ("2026-03-01T06:30:05-0330", 1_772_359_205_000_000),
        ("2026-03-01 11:00:05+01", 1_772_359_205_000_000),
        ("2026-03-01 10:00:05 UTC", 1_772_359_205_000_000),
    ],
)
def test_iso_times_have_zones_and_fractions(tmp_path: Path, stamp: str, us: int) -> None:
    assert iso_us(stamp.encode()) == any_time_us(stamp.encode()) == us

    log = log_of(tmp_path, f't,key\n"{stamp}",a\n')

    assert (log.format_name, log.origin_us) == ("csv", us)


@pytest.mark.parametrize(
    "stamp", ["2026-13-01T10:00:05Z", "2026-03-01T25:00:05Z", "2026-03-01T10:00:05+1", "2026-03-01"]
)
def test_what_is_no_iso_time_is_refused(stamp: str) -> None:
    with pytest.raises(BadRowError, match="a time like|a day of the calendar"):
        iso_us(stamp.encode())


def test_zstd_of_several_frames_is_one_file_and_a_broken_one_is_named(tmp_path: Path) -> None:
    frames = [zstandard.compress(f"{row}\n".encode()) for row in ("t,key", "1,a", "2,b")]

    assert log_of(tmp_path, b"".join(frames)).trace.keys == ("a", "b")
    with pytest.raises(BadLogError, match=r"log line 3: expected a file that can be read \(it is truncated\)"):
        log_of(tmp_path, b"".join(frames)[:-6])


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ("6500000000,b", r"line 4: a request at 6500000000 s, 205 years from the middle of the log at 2 s"),
        ("1763769600000,b", r"line 4: .*expected at most 100000000000 seconds, and not milliseconds: '1763769600000'"),
    ],
)
def test_seconds_of_another_age_and_milliseconds_are_named(tmp_path: Path, row: str, expected: str) -> None:
    table = f"t,key\n0,a\n1,a\n{row}\n2,a\n"

    with pytest.raises(BadLogError, match=expected):
        log_of(tmp_path, table)
    assert len(log_of(tmp_path, table, skip_bad_rows=True).trace) == 3


def test_a_file_of_cloudtrail_is_one_whatever_its_first_records_are(tmp_path: Path) -> None:
    with pytest.raises(BadLogError, match="no request in 0 rows"):
        log_of(tmp_path, '{"Records":[]}')
    records = json.dumps({"Records": [None, CLOUDTRAIL]})
    with pytest.raises(BadLogError, match="line 1: .*expected an object of JSON"):
        log_of(tmp_path, records)
    log = log_of(tmp_path, records, skip_bad_rows=True)
    assert (log.format_name, len(log.trace), log.bad_rows) == ("cloudtrail", 1, 1)
