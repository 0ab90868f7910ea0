"""Logs as programs and services write them: made up, with the addresses of documents."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import zstandard

from burstcache_sim.traces.errors import BadLogError
from burstcache_sim.traces.read import RequestLog, read_log
from support.trace_columns import keys_of
from unit.sim.test_traces_formats import combined_row
from unit.sim.test_traces_ranges import amounts

_10_H_US = 1_772_359_200_000_000  # 2026-03-01T10:00:00Z
_BRACKETED = "01/Mar/2026:10:00:0%d +0000"
_ISO = "2026-03-01T10:00:0%dZ"


def log_of(tmp_path: Path, content: str | bytes, **options: Any) -> RequestLog:
    path = tmp_path / "log"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return read_log(path, **options)


def rows(*values: Any) -> str:
    return "".join((value if isinstance(value, str) else json.dumps(value)) + "\n" for value in values)


def logpush(second: int, uri: str, method: str = "GET") -> dict[str, object]:
    return {
        "ClientIP": "192.0.2.1", "ClientRequestHost": "www.example.com", "ClientRequestMethod": method,
        "ClientRequestURI": uri, "EdgeEndTimestamp": 0, "EdgeResponseBytes": 500, "EdgeResponseStatus": 200,
        "EdgeStartTimestamp": (_10_H_US + second * 10**6) * 1000,
    }  # fmt: skip


def logpush_rfc_3339(second: int, *more: Any) -> dict[str, object]:
    return logpush(second, *more) | {"EdgeStartTimestamp": _ISO % second}


def caddy(second: int, uri: str, method: str = "GET", **more: object) -> dict[str, object]:
    asked = {"remote_ip": "192.0.2.1", "proto": "HTTP/2.0", "method": method, "host": "example.com", "uri": uri}
    return {
        "level": "info", "ts": _10_H_US / 10**6 + second, "logger": "http.log.access", "msg": "handled request",
        "request": asked | {"headers": {"User-Agent": ["curl/8"]} | more}, "bytes_read": 0, "duration": 0.01,
        "size": 500, "status": 206 if more else 200, "resp_headers": {"Server": ["Caddy"]},
    }  # fmt: skip


def traefik(second: int, path: str, method: str = "GET") -> dict[str, object]:
    return {
        "ClientAddr": "192.0.2.1:2000", "DownstreamContentSize": 500, "DownstreamStatus": 200, "Duration": 1_000_000,
        "RequestMethod": method, "RequestPath": path, "StartUTC": (_ISO % second).replace("Z", ".000000001Z"),
        "level": "info", "msg": "", "time": _ISO % 9,
    }  # fmt: skip


def nested(outer: str, second: int, uri: str, method: str = "GET") -> dict[str, object]:
    written: dict[str, dict[str, object]] = {
        "google": {"timestamp": _ISO % second, "insertId": "1", "httpRequest": {
            "requestMethod": method, "requestUrl": f"https://example.com{uri}", "status": 200, "responseSize": "500"}},
        "front-door": {"time": _ISO % second, "category": "FrontDoorAccessLog", "properties": {
            "httpMethod": method, "requestUri": f"https://example.com:443{uri}", "responseBytes": "500",
            "requestBytes": "9", "httpStatusCode": "200"}},
        "azure-blob": {"time": _ISO % second, "category": "StorageRead", "statusCode": 200,
            "operationName": method.title() + "Blob", "uri": f"https://a.blob.core.windows.net{uri}",
            "properties": {"responseBodySize": 500, "objectKey": "/a/b/c"}},
        "minio": {"version": "1", "time": _ISO % second, "api": {
            "name": method.title() + "Object", "bucket": "b", "object": uri.strip("/").replace("%20", " "),
            "status": "OK", "statusCode": 200, "rx": 0, "tx": 500}, "requestPath": "/b/x"},
        "waf": {"timestamp": _10_H_US // 1000 + second * 1000, "formatVersion": 1, "action": "ALLOW",
            "responseCodeSent": None, "httpRequest": {"clientIp": "192.0.2.1", "uri": uri.partition("?")[0],
            "args": "x=1", "httpMethod": method}},
        "elastic": {"@timestamp": _ISO % second, "url": {"path": uri}, "http": {
            "request": {"method": method}, "response": {"status_code": 200, "body": {"bytes": 500}}}},
    }  # fmt: skip
    return written[outer]


def ceph(second: int, uri: str, method: str = "GET") -> dict[str, object]:
    return {
        "bucket": "b", "object": "a", "time": (_ISO % second).replace("Z", ".123456Z"), "remote_addr": "192.0.2.1",
        "operation": f"{method.lower()}_obj", "uri": f"{method} {uri} HTTP/1.1", "http_status": "200",
        "bytes_sent": 500, "bytes_received": 0, "object_size": 500, "total_time": 3,
    }  # fmt: skip


def akamai(second: int, path: str, method: str = "GET") -> dict[str, object]:
    return {
        "version": 1, "cp": "1", "reqTimeSec": f"{_10_H_US // 10**6 + second}.250", "cliIP": "192.0.2.1",
        "statusCode": "200", "bytes": "500", "reqHost": "example.com", "reqMethod": method, "reqPath": path,
        "totalBytes": "520", "rspContentLen": "500", "objSize": "500", "range": "-",
    }  # fmt: skip


def envoy(second: int, path: str, method: str = "GET") -> dict[str, object]:
    return {"start_time": _ISO % second, "method": method, "path": path, "response_code": 200, "bytes_sent": 500}


IIS = (
    "#Software: Microsoft Internet Information Services 10.0\n#Version: 1.0\n#Date: 2026-03-01 10:00:00\n"
    "#Fields: date time s-ip cs-method cs-uri-stem cs-uri-query s-port cs-username c-ip cs(User-Agent) sc-status "
    "sc-bytes time-taken\n"
)


def iis(second: int, stem: str, method: str = "GET") -> str:
    return f"2026-03-01 10:00:0{second} 192.0.2.9 {method} {stem} x=1 443 - 192.0.2.1 Mozilla/5.0+(X11) 200 500 15"


def squid(second: int, path: str, method: str = "GET") -> str:
    return (
        f"{_10_H_US // 10**6 + second}.000    310 192.0.2.1 TCP_MISS/200 500 {method} http://www.example.com{path} - "
        "HIER_DIRECT/192.0.2.2 text/html"
    )


def haproxy(second: int, path: str, method: str = "GET") -> str:
    return (
        f"Mar  1 10:00:00 lb haproxy[14389]: 192.0.2.1:33317 [01/Mar/2026:10:00:0{second}.655] http-in static/srv1 "
        f'10/0/30/69/109 200 500 - - ---- 1/1/1/1/0 0/0 {{example.com}} {{}} "{method} {path} HTTP/1.1"'
    )


def envoy_text(second: int, path: str, method: str = "GET", between: str = "") -> str:
    return (
        f'[2026-03-01T10:00:0{second}.310Z] "{method} {path} HTTP/2" 200 - {between}154 500 226 100 "192.0.2.1" "curl" '
        '"id" "example.com" "192.0.2.2:80"'
    )


def azure_text(second: int, key: str, operation: str = "GET") -> str:
    return (
        f"1.0;2026-03-01T10:00:0{second}.1967767Z;{operation.title()}Blob;AnonymousSuccess;200;17;16;anonymous;;acct;blob;"
        f'"https://acct.blob.core.windows.net{key}&amp;b=2";"{key}";13dd-1;0;192.0.2.1:57134;2009-09-19;331;0;498;500;0;'
        ';;"0x8D";Thursday, 01-Mar-26 10:00:00 GMT;;"curl";;'
    )


def fastly(second: int, url: str, method: str = "GET", header: str = "") -> str:
    row = {"timestamp": _ISO % second, "url": url, "request_method": method, "response_status": 200}
    return header + json.dumps(row | {"response_body_size": 500, "host": "example.com"})


def traefik_text(*args: Any) -> str:
    return combined(*args) + ' 1 "web@docker" "http://192.0.2.9:80" 3ms'


RFC_3164 = "<134>Mar  1 10:00:00 cache-fra1 packages[3141]: "
RFC_5424 = '<134>1 2026-03-01T10:00:00Z cache-fra1 packages 3141 - [origin@32473 ip="192.0.2.9"] '


def combined(second: int, path: str, method: str = "GET", header: str = "", version: str = " HTTP/1.1") -> str:
    row = combined_row(f"{method} {path}{version}", time=_BRACKETED % second, size="500")
    return header + row.rstrip("\n")


def google_usage(second: int, name: str, method: str = "GET") -> str:
    micros = _10_H_US + second * 10**6
    return (
        f'"{micros}","192.0.2.1","1","","{method}","/b/{name}?alt=media","200","0","500","14000","storage.googleapis.com",'
        f'"","curl","AB","{method}_Object","b","{name}"'
    )


GOOGLE_HEADER = (
    '"time_micros","c_ip","c_ip_type","c_ip_region","cs_method","cs_uri","sc_status","cs_bytes","sc_bytes",'
    '"time_taken_micros","cs_host","cs_referer","cs_user_agent","s_request_id","cs_operation","cs_bucket","cs_object"\n'
)

Row = Callable[..., Any]


def of(outer: str) -> Row:
    return lambda *args: nested(outer, *args)


# Name, format, what is before the rows, a row, how a path is written, the key that it has.
KINDS: list[tuple[str, str, str, Row, str, str]] = [
    ("squid", "squid", "", squid, "/a%20b?x=1", "/a b"),
    ("IIS", "w3c", IIS, iis, "/a%20b", "/a b"),
    ("HAProxy", "haproxy", "", haproxy, "/a%20b?x=1", "/a b"),
    ("Envoy", "envoy", "", envoy_text, "/a%20b?x=1", "/a b"),
    ("Istio", "envoy", "", partial(envoy_text, between='via_upstream - "-" '), "/a%20b?x=1", "/a b"),
    ("Envoy, JSON", "json", "", envoy, "/a%20b?x=1", "/a b"),
    ("Azure Storage Analytics", "azure-blob", "", azure_text, "/acct/c/a%20b&amp;c", "/acct/c/a b&c"),
    ("Azure Blob, JSON", "json", "", of("azure-blob"), "/c/a%20b?sv=1", "/c/a b"),
    ("Azure Front Door", "json", "", of("front-door"), "/a%20b?x=1", "/a b"),
    ("Caddy", "json", "", caddy, "/a%20b?x=1", "/a b"),
    ("Traefik, JSON", "json", "", traefik, "/a%20b?x=1", "/a b"),
    ("Traefik, CLF", "combined", "", traefik_text, "/a", "/a"),
    ("Varnish", "combined", "", lambda second, path, *more: combined(second, "http://h" + path, *more), "/a?x=1", "/a"),
    ("Fastly, JSON, RFC 3164", "json", "", partial(fastly, header=RFC_3164), "/a%20b?x=1", "/a b"),
    ("Fastly, JSON, RFC 5424", "json", "", partial(fastly, header=RFC_5424), "/a%20b?x=1", "/a b"),
    ("Fastly, combined, RFC 3164", "combined", "", partial(combined, header=RFC_3164), "/a", "/a"),
    ("Fastly, combined, RFC 5424", "combined", "", partial(combined, header=RFC_5424), "/a", "/a"),
    ("requests without a version", "combined", "", partial(combined, version=""), "/a", "/a"),
    ("Cloudflare Logpush", "json", "", logpush, "/a%20b?x=1", "/a b"),
    ("Cloudflare Logpush, RFC 3339", "json", "", logpush_rfc_3339, "/a", "/a"),
    ("Google Cloud Storage, usage", "csv", GOOGLE_HEADER, google_usage, "a b.jpg", "b/a b.jpg"),
    ("Google, load balancing", "json", "", of("google"), "/a%20b?x=1", "/a b"),
    ("AWS WAF", "json", "", of("waf"), "/a%20b", "/a b"),
    ("MinIO", "json", "", of("minio"), "/a%20b", "b/a b"),
    ("Ceph RGW", "json", "", ceph, "/b/a%20b?x=1", "/b/a b"),
    ("Akamai DataStream", "json", "", akamai, "/a%20b?x=1", "/a b"),
    ("Elastic Common Schema", "json", "", of("elastic"), "/a%20b?x=1", "/a b"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "format_", "header", "row", "path", "key"), KINDS, ids=[kind[0] for kind in KINDS])
def test_a_log_is_read_as_it_is_written(
    tmp_path: Path, name: str, format_: str, header: str, row: Row, path: str, key: str
) -> None:
    content = header + rows(row(3, path), row(1, path), row(2, path, "PUT"), row(5, path))

    for line_end in ("\n", "\r\n"):
        log = log_of(tmp_path, content.replace("\n", line_end))

        assert (log.format_name, log.other_requests, log.bad_rows) == (format_, 1, 0), name
        assert [(us - log.trace.arrivals_us[0]) // 1_000_000 for us in log.trace.arrivals_us] == [0, 2, 4]
        assert log.origin_us is not None
        assert log.origin_us // 1_000_000 == _10_H_US // 1_000_000 + 1
        assert keys_of(log.trace) == [key] * 3
        if log.trace.sizes_bytes is not None:
            assert [size for _, size, _, _ in amounts(log.trace)] == [500] * 3
        assert (log.trace.sizes_bytes is None) == (name == "AWS WAF")


def test_caddy_writes_headers_as_lists(tmp_path: Path) -> None:
    log = log_of(tmp_path, rows(caddy(1, "/a"), caddy(2, "/a", Range=["bytes=0-499"])))

    assert keys_of(log.trace) == ["/a", "/a [bytes 0-499]"]


@pytest.mark.parametrize("unit", [1_000, 1_000_000, 1_000_000_000])
@pytest.mark.parametrize("separator", [",", ";", "\t", "|", "  "])
def test_a_table_may_have_any_separator_and_unit(tmp_path: Path, unit: int, separator: str) -> None:
    lines = [["time", "key", "bytes"], *([f"{(_10_H_US // 10**6 + n) * unit}", f"k{n}", f"{n}.0"] for n in (3, 1))]

    log = log_of(tmp_path, rows(*(separator.join(line) for line in lines)))

    assert (log.origin_us, keys_of(log.trace)) == (_10_H_US + 1_000_000, ["k1", "k3"])
    assert [size for _, size, _, _ in amounts(log.trace)] == [1, 3]
    assert {1_000: "in ms", 1_000_000: "in us", 1_000_000_000: "in ns"}[unit] in log.format_note
    assert ("--delimiter" in log.format_note) == (separator != ",")


@pytest.mark.parametrize(
    ("content", "names", "keys", "arrivals_s"),
    [
        (
            "0,aa,5,100,7,get,0\n1,ab,5,7,7,set,0\n2,aa,5,100,7,gets,0\n",
            "time=1,key=2,size=4,method=6",
            "aa aa",
            (0, 2),
        ),
        ("1 100 5\n2 101 7\n", "time=1,key=2,size=3", "100 101", (1, 2)),
        ("# time, object, size\n1, 100, 5\n4, 101, 7\n", "", "100 101", (1, 4)),
        ("when;who\n5;a\n7;b\n", "time=1,key=2", "a b", (5, 7)),
        ("1500,a\n2500,b\n", "time=1:ms,key=2", "a b", (1.5, 2.5)),
    ],
    ids=["Twitter", "AdaptSize", "libCacheSim", "numbers despite a header", "a unit"],
)
def test_columns_have_numbers(
    tmp_path: Path, content: str, names: str, keys: str, arrivals_s: tuple[float, ...]
) -> None:
    fields = dict(part.split("=") for part in names.split(",") if part)

    log = log_of(tmp_path, content, names=fields)

    assert keys_of(log.trace) == keys.split()
    assert (log.trace.arrivals_us / 1e6).tolist() == list(arrivals_s)


@pytest.mark.parametrize("names", [{}, {"time": "date+time"}])
def test_date_and_time_may_be_two_columns(tmp_path: Path, names: dict[str, str]) -> None:
    header = "ip,date,time,zone,cik,accession,extention,code,size,idx\n"
    row = "192.0.2.1,2026-03-01,10:00:0%d,0.0,1.0,%s,-index.htm,200.0,%s,0.0\n"
    more = {"key": "accession", "status": "code"}

    log = log_of(tmp_path, header + row % (1, "a", "7627.0") + row % (3, "b", '"1,234"'), names=names | more)

    assert log.origin_us == _10_H_US + 1_000_000
    assert [(key, size) for key, size, _, _ in amounts(log.trace)] == [("a", 7627), ("b", 1234)]


def test_a_table_may_have_request_lines_and_times_in_brackets(tmp_path: Path) -> None:
    content = (
        "IP, Time, URL, Staus\n10.0.0.1,[29/Nov/2017:06:58:55,GET /login.php HTTP/1.1,200\n"
        "10.0.0.1,[29/Nov/2017:06:59:02,POST /process.php HTTP/1.1,302\n"
        "10.0.0.1,[29/Nov/2017:06:59:03,GET /b?x=1 HTTP/1.1,200\n"
    )

    log = log_of(tmp_path, content)

    assert (keys_of(log.trace), log.other_requests) == (["/login.php", "/b"], 1)
    assert log.trace.arrivals_us.tolist() == [0, 8_000_000]


@pytest.mark.parametrize(
    "time",
    [
        "01/Aug/2018 12:39:39:258969",
        "01/Aug/2018:12:39:39.258969",
        "2018-08-01T12:39:39.258969Z",
        "2018/08/01 12:39:39.258969",
    ],
)
def test_an_access_log_may_write_its_time_otherwise(tmp_path: Path, time: str) -> None:
    log = log_of(tmp_path, combined_row(time=time))

    assert log.origin_us == 1_533_127_179_258_969


def test_sizes_are_found_by_usual_names_or_named(tmp_path: Path) -> None:
    usual = "bytes size_bytes length content_length object_size response_bytes sc-bytes Content-Length responseSize"
    for name in usual.split():
        log = log_of(tmp_path, f"time,key,{name}\n1,a,7\n")
        assert (log.trace.sizes_bytes is not None and log.trace.sizes_bytes.tolist()) == [7], name

    log = log_of(tmp_path, "time,key,up_bytes,down_bytes\n1,a,7,9\n")
    assert log.trace.sizes_bytes is None
    assert "possible columns of sizes: up_bytes, down_bytes; choose one by --fields size=NAME" in log.format_note


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("when;who;bytes\n1;a;2\n", "a column for the time and the key: choose from when, who, bytes by --fields time"),
        ("time,who\n1,a\n", "column for the key: choose from time, who by --fields key=NAME"),
        ("1 100 5\n2 101 7\n", "a header, or --fields time=1,key=2,size=3 with the numbers of columns"),
        ('{"a": {"when": 1}, "b": 2}\n', r"a time: choose one of a.when, b by --fields time=NAME \(nearest format"),
        ('192.0.2.1 - - "GET /a HTTP/1.1" 200 [x]\n', r"a line of an access log: .*\(nearest format: combined\)"),
        ('[\n  {"time": 1}\n]\n', r"an object of JSON a line, as `jq -c .` writes it"),
        ('[{"time": 1}]\n', r"an object of JSON a line, as `jq -c '.\[\]'` writes those of an array"),
        ("PK\x03\x04\x14", "this is a zip archive: unpack it first"),
        ("h\0e\0l\0l\0o\0\n\0", "UTF-16 with a byte order mark"),
        ("nothing\n", "a line of an access log, a table with columns"),
    ],
)  # fmt: skip
def test_one_line_names_the_format_that_is_nearest(tmp_path: Path, content: str, expected: str) -> None:
    with pytest.raises(BadLogError, match=expected) as raised:
        log_of(tmp_path, content)

    assert len(str(raised.value)) < 400 + len(str(tmp_path))
    assert "\n" not in str(raised.value)


def test_a_missing_column_is_reported(tmp_path: Path) -> None:
    with pytest.raises(BadLogError, match="a table with a column when"):
        log_of(tmp_path, "time,key\n1,a\n", names={"time": "when"})


def test_a_delimiter_overrules_the_first_line(tmp_path: Path) -> None:
    content = "time;x,key;size\n1;a,b;5\n"

    assert log_of(tmp_path, content.replace("x,key", "key"), delimiter="semicolon").trace.keys == ("a,b",)
    with pytest.raises(BadLogError):
        log_of(tmp_path, "time,key\n1,a\n", delimiter="tab")


_LINES = [combined(second, "/a" * 300 + str(second)).encode() + b"\n" for second in range(1, 8)]


@pytest.mark.parametrize(
    "pack",
    [
        gzip.compress,
        zstandard.compress,
        bz2.compress,
        lzma.compress,
        lambda data: b"\x50\x2a\x4d\x18\x03\0\0\0abc" + zstandard.compress(data),
    ],
    ids=["gzip", "zstd", "bzip2", "xz", "skippable"],
)
def test_members_of_parallel_compressors_are_one_file(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    content = b"".join(_LINES)
    members = [pack(content[start : start + 777]) for start in range(0, len(content), 777)]

    log = log_of(tmp_path, b"".join(members))

    assert len(log.trace) == len(_LINES)
    with pytest.raises(BadLogError, match="expected a file that can be read"):
        log_of(tmp_path, b"".join(members)[:-5])


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-8-sig"])
def test_text_of_windows_is_read(tmp_path: Path, encoding: str) -> None:
    mark = "\ufeff" if encoding[-2:] in ("le", "be") else ""
    content = mark + "time,key,size\r\n1,é,5\r\n2,b,6\r\n"

    assert log_of(tmp_path, content.encode(encoding)).trace.keys == ("é", "b")
