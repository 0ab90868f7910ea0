"""Each format of access logs: the fields that count, the requests that do not, the rows that are none."""

from __future__ import annotations

from pathlib import Path

import pytest

from burstcache_sim.traces.errors import BadLogError
from burstcache_sim.traces.formats import candidates
from burstcache_sim.traces.read import RequestLog, read_log
from support.trace_columns import keys_of, sizes_of

OWNER = "79a59df900b949e5"
S3_TAIL = '12 9 "-" "agent \\"odd\\" 1.0" - hostid= SigV4 ECDHE AuthHeader media.s3.eu-west-1.amazonaws.com TLSV1.2 - -'


def s3_row(
    *,
    bucket: str = "media",
    time: str = "06/Feb/2019:00:00:38 +0000",
    operation: str = "REST.GET.OBJECT",
    key: str = "a.jpg",
    uri: str = '"GET /media/a.jpg?x=1 HTTP/1.1"',
    status: str = "200 -",
    sizes: str = "500 500",
) -> str:
    return f"{OWNER} {bucket} [{time}] 192.0.2.3 {OWNER} 3E57427F3 {operation} {key} {uri} {status} {sizes} {S3_TAIL}\n"


def combined_row(
    request: str = "GET /a.html HTTP/1.0",
    *,
    time: str = "01/Aug/1995:00:00:07 -0400",
    status: str = "200",
    size: str = "1713",
) -> str:
    return f'host.example - - [{time}] "{request}" {status} {size} "http://ref/" "Mozilla/5.0 \\"x\\""\n'


def alb_row(
    *,
    time: str = "2018-11-30T22:23:01.000000Z",
    request: str = "GET https://www.example.com:443/a%20b.jpg?size=1 HTTP/2.0",
    status: str = "200",
    sent: str = "257",
    created: str = "2018-11-30T22:22:48.364000Z",
) -> str:
    return (
        f"h2 {time} app/lb/50dc6c49 10.0.1.252:48160 10.0.0.66:9000 0.000 0.002 0.000 {status} 200 5 {sent} "
        f'"{request}" "curl \\x227\\x22" ECDHE TLSv1.2 arn:aws:elb:a/1 "Root=1-58" "example.com" "arn:aws:acm:c/1" '
        f'1 {created} "waf,forward" "-" "-" "10.0.0.66:9000" "200" "-" "-"\n'
    )


CLOUDFRONT_HEADER = (
    "#Version: 1.0\n#Fields: date time x-edge-location sc-bytes c-ip cs-method cs(Host) cs-uri-stem sc-status "
    "cs(Referer) cs(User-Agent) sc-content-len\n"
)


def cloudfront_row(
    time: str = "2019-12-04\t21:02:31", stem: str = "/a%20b.jpg", method: str = "GET", status: str = "200"
) -> str:
    return f"{time}\tLAX1\t392\t192.0.2.4\t{method}\td1.cloudfront.net\t{stem}\t{status}\t-\tMozilla%2520\t300\n"


def log_of(tmp_path: Path, *rows: str, **options: object) -> RequestLog:
    path = tmp_path / "access.log"
    path.write_text("".join(rows), encoding="utf-8")
    return read_log(path, **options)  # type: ignore[arg-type]


def test_s3_keys_are_decoded_and_sizes_are_the_objects(tmp_path: Path) -> None:
    log = log_of(
        tmp_path,
        s3_row(key="photos/a%2Bb%20c.jpg", sizes="10 500", status="206 -", time="06/Feb/2019:00:00:40 +0000"),
        s3_row(operation="WEBSITE.GET.OBJECT", key="index.html", sizes="- 77", status="304 -"),
    )

    assert log.format_name == "s3"
    assert log.trace.arrivals_us.tolist() == [0, 2_000_000]
    assert keys_of(log.trace) == ["index.html", "photos/a+b c.jpg [10 bytes]"]
    assert sizes_of(log.trace) == [77, 10]
    assert log.origin_us == 1_549_411_238_000_000


@pytest.mark.parametrize(
    ("written", "key"),
    [
        ("a%2520b.jpg", "a b.jpg"),
        ("foo-%2525Y", "foo-%Y"),
        ("caf%25C3%25A9", "café"),
        ("once%20only", "once only"),
        ("100%25", "100%"),
    ],
)
def test_s3_writes_a_key_encoded_twice(tmp_path: Path, written: str, key: str) -> None:
    log = log_of(tmp_path, s3_row(key=written))

    assert log.trace.keys == (key,)


@pytest.mark.parametrize(
    "row",
    [
        s3_row(operation="REST.HEAD.OBJECT", uri='"HEAD /media/a.jpg HTTP/1.1"'),
        s3_row(operation="REST.PUT.OBJECT", sizes="- 500"),
        s3_row(operation="REST.COPY.OBJECT_GET", uri="-", status="200 -", sizes="- 500"),
        s3_row(operation="S3.EXPIRE.OBJECT", uri="-", status="- -", sizes="- 500"),
        s3_row(operation="REST.GET.VERSIONING", key="-", uri='"GET /media?versioning HTTP/1.1"', sizes="113 -"),
        s3_row(status="404 NoSuchKey", sizes="297 -"),
        s3_row(status="302 -"),
        s3_row(status="503 SlowDown", uri='"GET /media/a"b.jpg HTTP/1.1"'),
    ],
)
def test_s3_requests_that_no_cache_would_serve_are_counted_apart(tmp_path: Path, row: str) -> None:
    log = log_of(tmp_path, s3_row(), row)

    assert (len(log.trace), log.other_requests, log.bad_rows) == (1, 1, 0)


def test_s3_readers_may_be_roles_services_and_nobody_behind_ipv6(tmp_path: Path) -> None:
    nobody = s3_row().replace(f"192.0.2.3 {OWNER}", "- -")
    role = s3_row().replace(
        f"192.0.2.3 {OWNER}", "2001:db8::1 arn:aws:sts::123456789012:assumed-role/Reader/a@b.example"
    )
    service = s3_row().replace(f"192.0.2.3 {OWNER}", "192.0.2.3 svc:cloudfront.amazonaws.com")
    referrer = s3_row().replace('"-" "agent', '"http://x/" onload="y" "agent')

    log = log_of(tmp_path, nobody, role, service, referrer, s3_row(uri="-"))

    assert (len(log.trace), log.trace.keys) == (5, ("a.jpg",))


def test_the_bucket_is_part_of_the_key_where_there_are_several(tmp_path: Path) -> None:
    log = log_of(tmp_path, s3_row(key="a/b"), s3_row(bucket="other", key="a/b"))

    assert log.trace.keys == ("media/a/b", "other/a/b")


def test_a_quote_inside_an_s3_request_line_does_not_end_it(tmp_path: Path) -> None:
    log = log_of(tmp_path, s3_row(uri='"GET /media/a"b 1.jpg HTTP/1.1"'))

    assert len(log.trace) == 1


def test_combined_takes_the_zone_of_the_time_into_account(tmp_path: Path) -> None:
    log = log_of(tmp_path, combined_row(), combined_row(time="01/Aug/1995:06:00:08 +0200"))

    assert log.format_name == "combined"
    assert log.origin_us == 807_249_607_000_000
    assert log.trace.arrivals_us.tolist() == [0, 1_000_000]


@pytest.mark.parametrize(
    ("request_line", "key"),
    [
        ("GET /a.html HTTP/1.0", "/a.html"),
        ("GET /a%20b.html?x=1&y=%20 HTTP/1.1", "/a b.html"),
        ("GET /a b.html HTTP/1.0", "/a b.html"),
        ("GET /old", "/old"),
        ("GET http://www.example.com/a.html HTTP/1.1", "/a.html"),
        ('GET /say\\"hi\\" HTTP/1.1', '/say"hi"'),
        ("GET /caf\\xc3\\xa9 HTTP/1.1", "/café"),
        ('GET /unescaped"quote HTTP/1.0', '/unescaped"quote'),
        ("GET /%ff HTTP/1.0", "/\\xff"),
        ("GET /two HTTP/2.0", "/two"),
        ("GET /once%2520only HTTP/1.1", "/once%20only"),
    ],
)
def test_combined_keys_are_decoded_paths(tmp_path: Path, request_line: str, key: str) -> None:
    log = log_of(tmp_path, combined_row(), combined_row(request_line))

    assert keys_of(log.trace)[1] == key


@pytest.mark.parametrize(
    "row",
    [
        combined_row("HEAD /a.html HTTP/1.0"),
        combined_row("POST /a.html HTTP/1.0"),
        combined_row("-", status="408", size="-"),
        combined_row("\\x16\\x03\\x01", status="400"),
        combined_row("GET /missing HTTP/1.0", status="404", size="-"),
        combined_row("GET /moved HTTP/1.0", status="302"),
        combined_row("", status="400", size="0"),
        combined_row("PRI * HTTP/2.0", status="400"),
        combined_row("GET /left HTTP/2.0", status="499", size="0"),
        combined_row("GET /left HTTP/2.0", status="000", size="0"),
    ],
)
def test_combined_requests_that_no_cache_would_serve_are_counted_apart(tmp_path: Path, row: str) -> None:
    log = log_of(tmp_path, combined_row(), row)

    assert (len(log.trace), log.other_requests) == (1, 1)


def test_where_a_line_does_not_tell_the_size_it_is_the_largest_known_of_the_key(tmp_path: Path) -> None:
    log = log_of(
        tmp_path,
        combined_row(status="304", size="-"),
        combined_row(size="900"),
        combined_row(size="-"),
        combined_row("GET /never HTTP/1.0", status="304", size="0"),
    )

    assert sizes_of(log.trace) == [900, 900, 900, 900]


def test_common_log_format_and_a_virtual_host_in_front_are_read_too(tmp_path: Path) -> None:
    log = log_of(
        tmp_path,
        'www.example.com:443 192.0.2.1 - Jane Doe [01/Aug/1995:00:00:07 -0400] "GET /a HTTP/1.0" 200 5\n',
        '192.0.2.1 - - [01/Aug/1995:00:00:09 -0400] "GET /a HTTP/1.0" 200 5\n',
    )

    assert log.trace.arrivals_us.tolist() == [0, 2_000_000]


def test_combined_takes_half_hours_and_the_day_line_of_a_zone_into_account(tmp_path: Path) -> None:
    log = log_of(
        tmp_path,
        combined_row(time="01/Aug/1995:00:00:00 +0530"),
        combined_row(time="31/Jul/1995:15:00:01 -0330"),
    )

    assert log.trace.arrivals_us.tolist() == [0, 1_000_000]


def test_alb_requests_count_from_when_they_came_in(tmp_path: Path) -> None:
    log = log_of(tmp_path, alb_row(), alb_row(created="2018-11-30T22:22:48.363999Z"))

    assert log.format_name == "alb"
    assert log.trace.arrivals_us.tolist() == [0, 1]
    assert log.trace.keys == ("/a b.jpg",)
    assert sizes_of(log.trace) == [257, 257]


def test_an_alb_entry_without_creation_time_has_its_time(tmp_path: Path) -> None:
    short = alb_row().partition(' "curl')[0] + "\n"

    log = log_of(tmp_path, alb_row(), short)

    assert log.trace.arrivals_us.tolist() == [0, 12_636_000]


def test_alb_clients_and_hosts_may_have_ipv6_addresses_and_fields_may_follow(tmp_path: Path) -> None:
    row = alb_row(request="GET https://[2001:db8::2]:443/a.jpg HTTP/2.0").replace("10.0.1.252:", "[2001:db8::1]:")
    refused = row.replace("10.0.0.66:9000 0.000 0.002 0.000 200 200", "- -1 -1 -1 200 -", 1)

    log = log_of(tmp_path, row[:-1] + ' TID_1 "-" "new field"\n', refused)

    assert (len(log.trace), log.trace.keys) == (2, ("/a.jpg",))


@pytest.mark.parametrize(
    "row",
    [
        alb_row(status="502"),
        alb_row(status="-"),
        alb_row(request="POST https://www.example.com:443/a HTTP/2.0"),
        alb_row(request="- http://www.example.com:80- -", status="400"),
    ],
)
def test_alb_requests_that_no_cache_would_serve_are_counted_apart(tmp_path: Path, row: str) -> None:
    log = log_of(tmp_path, alb_row(), row)

    assert (len(log.trace), log.other_requests) == (1, 1)


def test_cloudfront_reads_the_fields_that_its_header_names(tmp_path: Path) -> None:
    log = log_of(
        tmp_path,
        CLOUDFRONT_HEADER,
        cloudfront_row("2019-12-04\t21:02:35"),
        cloudfront_row(),
        cloudfront_row(method="HEAD"),
        cloudfront_row(status="000"),
        cloudfront_row(status="304"),
    )

    assert log.format_name == "cloudfront"
    assert log.trace.arrivals_us.tolist() == [0, 0, 4_000_000]
    assert log.trace.keys == ("/a b.jpg",)
    assert sizes_of(log.trace) == [300, 300, 300]
    assert (log.rows, log.other_requests) == (5, 2)


def test_cloudfront_fields_may_come_in_another_order_with_milliseconds(tmp_path: Path) -> None:
    log = log_of(
        tmp_path,
        "#Fields: sc-status\tcs-method\tcs-uri-stem\ttimestamp(ms)\n",
        "200\tGET\t/a\t1575493351999\n",
        "200\tGET\t/b\t1575493351001\n",
    )

    assert log.trace.arrivals_us.tolist() == [0, 998_000]
    assert log.trace.keys == ("/a", "/b")


def test_cloudfront_encodes_the_percent_signs_of_a_request(tmp_path: Path) -> None:
    log = log_of(tmp_path, CLOUDFRONT_HEADER, cloudfront_row(stem="/a%2520b%252C.jpg"))

    assert log.trace.keys == ("/a b,.jpg",)


def test_files_of_cloudfront_may_have_different_fields(tmp_path: Path) -> None:
    other = "#Fields:\tcs-uri-stem\tcs(Cookie)\tsc-status\tcs-method\tdate\ttime\r\n"
    (tmp_path / "other.log").write_bytes(f"{other}/a.jpg\tid=1;%20x=2\t206\tGET\t2019-12-04\t21:02:30\r\n".encode())
    (tmp_path / "first.log").write_text(CLOUDFRONT_HEADER + cloudfront_row())

    log = read_log(tmp_path)

    assert log.trace.arrivals_us.tolist() == [0, 1_000_000]
    assert keys_of(log.trace) == ["/a.jpg [unknown range]", "/a b.jpg"]


def test_a_table_may_quote_its_header(tmp_path: Path) -> None:
    log = log_of(tmp_path, '"t","key","size"\n', '1,"a",5\n')

    assert (log.format_name, log.trace.keys, sizes_of(log.trace)) == ("csv", ("a",), [5])


def test_a_table_may_quote_keys_and_leave_columns_away(tmp_path: Path) -> None:
    log = log_of(tmp_path, "t,key\n", '0.5,"a,""b"""\r\n', "0.25,é\n")

    assert log.trace.arrivals_us.tolist() == [250_000, 500_000]
    assert keys_of(log.trace) == ["é", 'a,"b"']
    assert log.origin_us is None


def test_a_table_is_filtered_by_method_and_status(tmp_path: Path) -> None:
    rows = ["3,a,5,GET,0,200\n", "2,a,5,HEAD,0,200\n", "1,a,5,GET,0,404\n", "0,a,0,GET,0,304\n", "4,b,1,GET,0,206\n"]

    log = log_of(tmp_path, "t,key,size,op,client,status\n", *rows)

    assert log.trace.arrivals_us.tolist() == [0, 3_000_000, 4_000_000]
    assert sizes_of(log.trace) == [5, 5, 1]
    assert (log.rows, log.other_requests) == (5, 2)


@pytest.mark.parametrize(
    ("rows", "line", "expected"),
    [
        ((s3_row(), "\n", "nonsense\n"), 3, "a record of an S3 server access log"),
        ((s3_row(), s3_row(time="31/Feb/2019:00:00:38 +0000")), 2, "a day of the calendar"),
        ((s3_row(), s3_row(time="06/Feb/2019:24:00:38 +0000")), 2, "a time like 06/Feb/2019:00:00:38 +0000"),
        ((combined_row(), combined_row()[:40]), 2, "a line of an access log"),
        ((combined_row(time="1/Aug/1995:00:00:07"),), 1, "a time like 06/Feb/2019:00:00:38 +0000, not '1/Aug/1995"),
        ((combined_row(time="1995-08-01"),), 1, "a time like 06/Feb/2019:00:00:38 +0000, not '1995-08-01"),
        ((s3_row(), s3_row().partition("00 12 9 ")[0]), 2, "a record of an S3 server access log"),
        ((alb_row(), alb_row().partition(":48.364")[0]), 2, "the line is cut off"),
        ((alb_row(), "h2 2018-11-30\n"), 2, "an entry of an Application Load Balancer's access log"),
        ((CLOUDFRONT_HEADER, cloudfront_row()[:40]), 3, "12 fields separated by tabs"),
        ((CLOUDFRONT_HEADER, cloudfront_row("2019-13-04\t21:02:35")), 3, "a day of the calendar"),
        (("#Version: 1.0\n", cloudfront_row()), 2, "a line `#Fields: date time ...` before the first row"),
        (("#Fields: date time\n", cloudfront_row()), 1, "among #Fields"),
        (("t,key,size\n", "1,a,5\n", "2,a\n"), 3, "3 fields (t,key,size)"),
        (("t,key,size\n", "1,a,five\n"), 2, "a size in bytes, digits only, not 'five'"),
        (("t,key,status\n", "1,a,OK\n"), 2, "a status of three digits, not 'OK'"),
        (("t,key\n", "-1,a\n"), 2, "seconds of at least 0"),
        (("t,key\n", '1,"a\n'), 2, "a row of CSV"),
        (("t,key\n", "1,a\n", "\n", "2,a\n"), 3, "2 fields (t,key)"),
    ],
)
def test_a_bad_row_is_named_with_file_line_and_what_was_expected(
    tmp_path: Path, rows: tuple[str, ...], line: int, expected: str
) -> None:
    with pytest.raises(BadLogError) as raised:
        log_of(tmp_path, *rows)

    assert str(raised.value).startswith(f"{tmp_path / 'access.log'} line {line}: ")
    assert f"expected {expected}" in str(raised.value) or expected in str(raised.value)


@pytest.mark.parametrize(
    ("header", "good"), [("", s3_row()), ("", combined_row()), ("", alb_row()), (CLOUDFRONT_HEADER, cloudfront_row())]
)
def test_bad_rows_are_skipped_and_counted_on_demand(tmp_path: Path, header: str, good: str) -> None:
    log = log_of(tmp_path, header, "one\n", good, "\n", "two\n", good, skip_bad_rows=True)

    assert (len(log.trace), log.bad_rows, log.rows) == (2, 2, 4)


@pytest.mark.parametrize("header", ["", "\ufeff"])
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
@pytest.mark.parametrize("last_end", [True, False])
@pytest.mark.parametrize(
    "rows",
    [
        s3_row() * 2,
        combined_row() * 2,
        alb_row() * 2,
        CLOUDFRONT_HEADER + cloudfront_row() * 2,
        "t,key,size\n1,a,5\n2,b,6\n",
        "arrival_s\n1\n2\n",
    ],
    ids=["s3", "combined", "alb", "cloudfront", "csv", "arrival"],
)
def test_a_byte_order_mark_and_every_line_end_are_read(
    tmp_path: Path, rows: str, header: str, line_end: str, last_end: bool
) -> None:
    text = header + rows.replace("\n", line_end)

    log = log_of(tmp_path, text if last_end else text.rstrip("\r\n"))

    assert (len(log.trace), log.bad_rows, log.other_requests) == (2, 0, 0)


def test_every_format_is_recognised_as_itself_alone() -> None:
    samples = {
        "arrival": "arrival_s\n",
        "csv": "t,key,size,op,client,status\n",
        "s3": s3_row(),
        "cloudfront": CLOUDFRONT_HEADER,
        "alb": alb_row(),
        "combined": combined_row(),
    }

    for name, sample in samples.items():
        assert [log.name for log in candidates({}) if log.find([sample.encode()])] == [name]
