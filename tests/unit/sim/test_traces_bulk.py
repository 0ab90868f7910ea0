"""Blocks of lines mean what their lines mean, whatever is in them; several processes read what one reads."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from random import Random

import numpy as np
import pytest

from burstcache_sim.traces import reading
from burstcache_sim.traces.bulk import BulkReader
from burstcache_sim.traces.columns import Columns
from burstcache_sim.traces.errors import BadLogError
from burstcache_sim.traces.formats import candidates_named, detect
from burstcache_sim.traces.log_format import LogParser
from burstcache_sim.traces.read import RequestLog, read_log
from unit.sim.test_traces_formats import CLOUDFRONT_HEADER, alb_row, cloudfront_row, combined_row, s3_row

KEYS = ["a.jpg", "b%2520c", "x%20y", "%E4%BC", "é", "p/q?z=1", "-", 'a"b', "k%", "%2525"]
DAMAGE = [" ", '"', "\\", "\t", "\r", "[", "]", "\x0b", "-", "9", "\n", "#", "\x00", "é"]
BLOCK_OF_TWO_LINES = 400


def s3(random: Random) -> str:
    return s3_row(
        bucket=random.choice(["media", "other", "#odd"]),
        time=f"06/Feb/2019:00:{random.randrange(61):02d}:38 +0000",
        operation=random.choice(["REST.GET.OBJECT"] * 5 + ["REST.HEAD.OBJECT", "WEBSITE.GET.OBJECT"]),
        key=random.choice(KEYS),
        uri=random.choice(
            ['"GET /a HTTP/1.1"', "-", '"GET /a"b" c HTTP/1.1"', '"x" 200 - 5 7 y"', '"GET /a?partNumber=2 H"']
        ),
        status=random.choice(["200 -"] * 5 + ["304 -", "206 -", "404 NoSuchKey", "- -", "999 -", "20 -"]),
        sizes=random.choice(["- -", "5 500", "5 99999999999999999999", "x 5"] + ["5 70", "70 70"] * 5),
    )


def combined(random: Random) -> str:
    target = random.choice(KEYS)
    request = random.choice(
        [
            f"GET /{target} HTTP/1.1",
            f"GET http://h/{target} HTTP/1.1",
            "POST /a HTTP/1.0",
            "GET /a",
            "GET /a\\x22 H",
            "-",
        ]
    )
    time = f"01/Aug/1995:00:{random.randrange(61):02d}:07 -0400"
    status, size = random.choice(["200", "200", "304", "206", "404", "2000"]), random.choice(["5", "-", "77", "x"])
    return combined_row(request, time=time, status=status, size=size)


def alb(random: Random) -> str:
    target = random.choice(KEYS).replace('"', "")
    request = random.choice([f"GET https://h:443/{target} HTTP/2.0", "POST https://h/b HTTP/1.1", "- http://x- -"])
    created = f"2018-11-30T22:22:{random.randrange(62):02d}.{random.randrange(10**6):06d}Z"
    return alb_row(request=request, status=random.choice(["200", "304", "-", "502", "206"]), created=created)


def cloudfront(random: Random) -> str:
    if random.random() < 0.02:
        return "#Fields: date time cs-method cs-uri-stem sc-status sc-bytes\n"
    time = f"2019-12-04\t21:{random.randrange(61):02d}:31"
    status = random.choice(["200"] * 4 + ["304", "000", "-", "206", "x"])
    row = cloudfront_row(time, f"/{random.choice(KEYS)}", random.choice(["GET", "GET", "HEAD"]), status)
    return row.replace("\t300\n", random.choice(["\t300\n", "\t-\n"]))


def table(random: Random) -> str:
    time = random.choice(["1.5", "1e2", "-1", "x", *[f"{random.random() * 99:.6f}"] * 9])
    key = random.choice(["a", "b", '"q,""r"""', "é", "", "#x"])
    method, status = random.choice(["GET", "get", "PUT"]), random.choice(["200", "304", "404", "206", "", "OK"])
    return f"{time},{key},{random.choice(['5', '', '-', 'y'])},{method},c,{status}\n"


FORMATS: dict[str, tuple[str, Callable[[Random], str]]] = {
    "s3": ("", s3),
    "combined": ("", combined),
    "alb": ("", alb),
    "cloudfront": (CLOUDFRONT_HEADER, cloudfront),
    "csv": ("t,key,size,op,client,status\n", table),
}


def damaged(line: str, random: Random) -> str:
    for _ in range(random.randrange(1, 3)):
        place = random.randrange(len(line))
        line = line[:place] + random.choice(["", random.choice(DAMAGE)]) + line[place + random.randrange(2) :]
    return line


def messy(name: str, random: Random) -> bytes:
    header, row = FORMATS[name]
    share = random.choice([0, 0.02, 0.5])
    rows = [row(random) for _ in range(random.choice([3, 60, 300]))]
    content = header + "".join(damaged(row, random) if random.random() < share else row for row in rows)
    if random.random() < 0.2:
        content = content.replace("\n", "\r\n")
    if random.random() < 0.3:
        content = content[: -random.randrange(1, 30)]
    return content.encode()


def found(path: Path, **options: bool) -> tuple[object, ...]:
    try:
        log = read_log(path, **options)  # type: ignore[arg-type]
    except BadLogError as error:
        return ("refused", str(error))
    return (*columns_of(log), log.rows, log.other_requests, log.bad_rows, log.outside, log.origin_us)


def columns_of(log: RequestLog) -> tuple[object, ...]:
    trace = log.trace
    assert trace.key_ids is not None
    amounts = (trace.sizes_bytes, trace.sent_bytes, trace.object_bytes)
    sizes_bytes, sent_bytes, object_bytes = (None if amount is None else amount.tolist() for amount in amounts)
    return trace.keys, trace.arrivals_us.tolist(), trace.key_ids.tolist(), sizes_bytes, sent_bytes, object_bytes


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("skip_bad_rows", [False, True])
def test_blocks_mean_what_their_lines_mean(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, skip_bad_rows: bool
) -> None:
    for seed in range(25):
        path = tmp_path / "log"
        path.write_bytes(messy(name, Random(seed)))

        with monkeypatch.context() as patch:
            patch.setattr(reading, "MIN_BLOCK_BYTES", BLOCK_OF_TWO_LINES)
            in_blocks = found(path, skip_bad_rows=skip_bad_rows)
        with monkeypatch.context() as patch:
            patch.setattr(LogParser, "fields", property(lambda self: None, lambda self, value: None))
            line_by_line = found(path, skip_bad_rows=skip_bad_rows)

        assert in_blocks == line_by_line, f"seed {seed}"


@pytest.mark.parametrize("name", FORMATS)
def test_usual_rows_are_read_in_blocks(name: str) -> None:
    header, _ = FORMATS[name]
    usual = {"s3": s3_row(), "combined": combined_row(), "alb": alb_row(), "cloudfront": cloudfront_row()}
    block = (usual.get(name, "1.5,a,5,GET,c,200\n") * 1000).encode()
    format_ = detect(candidates_named(name, {}), (header.encode() + block).splitlines(keepends=True))
    assert format_
    parser = format_.new_parser(header.encode() or block)
    for line in header.encode().splitlines():
        parser.row(line)
    columns = Columns()

    assert parser.fields
    assert BulkReader(parser.fields, columns).take(block, None, None) == (1000, 0)
    assert len(columns) == 1000


@pytest.mark.slow
def test_several_processes_read_what_one_reads(tmp_path: Path) -> None:
    random = Random(5)
    for number in range(12):
        rows = "".join(s3_row(key=f"k{random.randrange(3000)}") for _ in range(3000))
        (tmp_path / f"{number}.log").write_text(rows)
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) > 8 << 20
    told: list[int] = []

    alone, together = read_log(tmp_path), read_log(tmp_path, processes=2, on_lines=told.append)

    assert columns_of(together) == columns_of(alone)
    assert (together.rows, sum(told)) == (alone.rows, 36_000)


@pytest.mark.slow
def test_several_processes_name_the_first_bad_row(tmp_path: Path) -> None:
    for number in range(12):
        bad = "torn\n" if number in (7, 9) else ""
        (tmp_path / f"{number:02d}.log").write_text(s3_row() * 3000 + bad)

    with pytest.raises(BadLogError, match=r"07.log line 3001: 'torn': expected a record of an S3"):
        read_log(tmp_path, processes=2)
    assert read_log(tmp_path, processes=2, skip_bad_rows=True).bad_rows == 2


def test_what_a_broken_file_holds_is_kept_on_demand_and_the_file_named(tmp_path: Path) -> None:
    random = Random(4)
    rows = "".join(s3_row(key=f"{random.getrandbits(64):x}") for _ in range(4_000))
    packed = gzip.compress(rows.encode())
    (tmp_path / "1.gz").write_bytes(packed[: len(packed) // 2])
    (tmp_path / "2.gz").write_bytes(gzip.compress(s3_row().encode()))

    with pytest.raises(BadLogError, match=r"1.gz line \d{4,}: .*it is truncated\); --skip-bad-rows keeps"):
        read_log(tmp_path)
    log = read_log(tmp_path, skip_bad_rows=True)

    assert 1_800 < len(log.trace) < 2_200
    assert (log.files, log.bad_rows, len(log.broken_files)) == (2, 0, 1)
    assert f"{tmp_path / '1.gz'} line {len(log.trace)}: " in log.broken_files[0]
    assert "a.jpg" in log.trace.keys


def test_a_span_keeps_requests_from_its_start_to_before_its_end(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("".join(s3_row(time=f"06/Feb/2019:00:{minute:02d}:00 +0000") for minute in range(60)))
    day_us = 1_549_411_200_000_000
    minute_us = 60_000_000

    log = read_log(path, first_us=day_us + 10 * minute_us, last_us=day_us + 20 * minute_us)

    assert (len(log.trace), log.outside, log.other_requests) == (10, 50, 0)
    assert log.origin_us == day_us + 10 * minute_us
    with pytest.raises(BadLogError, match="expected GETs answered 2xx or 304 in the chosen span; 60 are outside it"):
        read_log(path, first_us=day_us + 3600 * 10**6)


def test_a_span_needs_a_log_with_dates(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("t,key\n1,a\n")

    with pytest.raises(BadLogError, match="has no dates: expected a log that has, for a span"):
        read_log(path, first_us=5)


@pytest.mark.parametrize("year", ["1970", "2230"])
def test_a_request_of_another_age_is_named_or_left_out(tmp_path: Path, year: str) -> None:
    first, second = tmp_path / "1.log", tmp_path / "2.log"
    first.write_text(s3_row() * 20)
    second.write_text(s3_row() * 2 + s3_row(time=f"06/Feb/{year}:00:00:38 +0000") + s3_row() * 3)

    with pytest.raises(BadLogError, match=rf"2.log line 3: a request on {year}-02-06, \d+ years from the middle"):
        read_log(tmp_path)
    log = read_log(tmp_path, skip_bad_rows=True)

    assert (len(log.trace), log.bad_rows, log.other_requests) == (25, 1, 0)
    assert np.ptp(log.trace.arrivals_us) == 0
