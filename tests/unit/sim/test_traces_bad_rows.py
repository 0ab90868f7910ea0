"""A bad row is named with file and line, or skipped, whatever is wrong with it."""

from __future__ import annotations

import gzip
import subprocess
import sys
import time
from pathlib import Path
from random import Random
from typing import Any

import pytest
import zstandard

from burstcache_sim.traces import reading
from burstcache_sim.traces.errors import BadLogError
from burstcache_sim.traces.files import MAX_LINE_BYTES, LongLine, blocks
from burstcache_sim.traces.log_format import LogParser
from burstcache_sim.traces.read import read_log
from burstcache_sim.traces.reading import LogFile, LogReader, ReadOptions
from support.searches import seeds
from unit.sim.test_traces_bulk import found
from unit.sim.test_traces_formats import CLOUDFRONT_HEADER, alb_row, cloudfront_row, combined_row, s3_row
from unit.sim.test_traces_in_the_field import KINDS, rows
from unit.sim.test_traces_json import CLOUDFRONT, CLOUDTRAIL, NGINX

_OLDER: dict[str, tuple[str, str]] = {
    "s3": ("", s3_row()),
    "combined": ("", combined_row()),
    "alb": ("", alb_row()),
    "cloudfront": (CLOUDFRONT_HEADER, cloudfront_row()),
    "cloudfront-json": ("", rows(CLOUDFRONT)),
    "cloudtrail": ("", rows(CLOUDTRAIL)),
    "json": ("", rows(NGINX)),
    "csv": ("t,key,size,op,client,status,range\n", '1.5,"a",5,GET,7,200,bytes=0-4\n'),
    "dates": ("time;key;bytes\n", "2026-03-01T10:00:05Z;a;5.0\n"),
    "arrival": ("arrival_s\n", "1.5\n"),
}
LOGS = _OLDER | {name: (header, rows(row(1, path))) for name, _, header, row, path, _ in KINDS}
_PIECES = [
    b"\xff", b"\0", b"\xed\xa0\x80", b"\\ud800", b"9" * 5000, b"1e999999999", b"-1", b"NaN", b"Infinity", b"0000",
    b"[" * 300, b'{"a":' * 300, b'"', b"'", b"\\", b"\t", b"\r", b" ", b",", b";", b"%zz", b"null", b"-0",
    b"9223372036854775808", b"2026-02-30", b"24:00:00", b"bytes=9-1", b"99999", b"\xe2\x80\xa8",
]  # fmt: skip


def damaged(line: bytes, random: Random) -> bytes:
    """Return a line with some bytes replaced, taken away or put in between."""
    end = len(line) - 1
    for _ in range(random.randrange(1, 4)):
        place = random.randrange(end)
        until = min(end, place + random.choice((0, 0, 1, 5, 30)))
        piece = random.choice(_PIECES) if random.random() < 0.7 else bytes(random.choices(range(256), k=3))
        line = line[:place] + piece.replace(b"\n", b"") + line[until:]
        end = len(line) - 1
    return line


def outcome(path: Path, *, skip_bad_rows: bool) -> Any:
    """Return the trace read, or None if it was rejected with file and line."""
    try:
        return read_log(path, skip_bad_rows=skip_bad_rows)
    except BadLogError as error:
        message = str(error)
        assert message.startswith(f"{path} line ") or f"{path}: no request" in message, message
        assert "\n" not in message
        assert len(message) < 1_000 + len(str(path))
        return None


@pytest.mark.parametrize("name", LOGS)
@pytest.mark.parametrize("seed", seeds(12))
def test_whatever_is_in_a_row_it_is_read_named_or_skipped(tmp_path: Path, name: str, seed: int) -> None:
    random, path = Random(f"{name} {seed}"), tmp_path / "log"
    header, row = LOGS[name]
    good = row.encode()
    path.write_bytes(header.encode() + good + damaged(good, random) + good)

    strict = outcome(path, skip_bad_rows=False)
    lenient = outcome(path, skip_bad_rows=True)

    assert lenient, f"{name}, seed {seed}"
    assert len(lenient.trace) >= 2 or name == "arrival", f"{name}, seed {seed}"
    assert (strict is None) == (lenient.bad_rows > 0), f"{name}, seed {seed}"


@pytest.mark.parametrize("name", [name for name in LOGS if name != "arrival"])
@pytest.mark.parametrize("seed", seeds(8))
def test_blocks_of_any_format_mean_what_their_lines_mean(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, seed: int
) -> None:
    random, path = Random(f"{name} {seed}"), tmp_path / "log"
    header, row = (part.encode() for part in LOGS[name])
    share = random.choice((0.0, 0.05, 0.4))
    lines = [damaged(row, random) if random.random() < share else row for _ in range(40)]
    path.write_bytes(header + row + b"".join(lines))

    with monkeypatch.context() as patch:
        patch.setattr(reading, "MIN_BLOCK_BYTES", 3 * len(row))
        in_blocks = found(path, skip_bad_rows=True)
    with monkeypatch.context() as patch:
        patch.setattr(LogParser, "fields", property(lambda self: None, lambda self, value: None))
        line_by_line = found(path, skip_bad_rows=True)

    assert in_blocks == line_by_line, f"{name}, seed {seed}"


@pytest.mark.slow
@pytest.mark.parametrize("name", LOGS)
def test_a_line_takes_time_in_proportion_to_its_length(tmp_path: Path, name: str) -> None:
    path, (header, row) = tmp_path / "log", LOGS[name]
    for filler in ("[", "/", "1", '"', " ", "a ", '[a] "', "1/", "\\"):
        for place in (0, 12, len(row) // 2, len(row) - 3):
            path.write_text(header + row + row[:place] + filler * (100_000 // len(filler)) + row[place:])
            began_s = time.process_time()
            outcome(path, skip_bad_rows=True)
            assert time.process_time() - began_s < 2, f"{name}, {filler!r} at {place}"


_DEEP = b"[" * 100_000


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("json", b'{"msec": 1, "uri": "\\ud800"}\n'),
        ("json", b'{"msec": ' + _DEEP + b"}\n"),
        ("json", b'{"msec": NaN, "uri": "/a"}\n'),
        ("json", b'{"msec": Infinity, "uri": "/a"}\n'),
        ("json", b'{"msec": ' + b"9" * 5000 + b', "uri": "/a"}\n'),
        ("json", b'{"msec": 1, "uri": ""}\n'),
        ("json", b'{"msec": 1, "uri": "/a", "size": 1e300}\n'),
        ("cloudtrail", b'{"Records": [' + _DEEP + b"]}\n"),
        ("cloudtrail", b'{"eventTime": "2026-03-01T10:00:05Z", "eventName": "GetObject", "eventSource": '
                       b'"s3.amazonaws.com", "requestParameters": [1]}\n'),
        ("csv", b"1e999999999,a,5,GET,7,200,-\n"),
        ("csv", b"1.5,a,9223372036854775808,GET,7,200,-\n"),
        ("csv", b"1.5,,5,GET,7,200,-\n"),
        ("csv", b"t,key,size,op,client,status,range\n"),
        ("csv", b"\xff\0,a,5,GET,7,200,-\n"),
        ("dates", b"0000-01-01T00:00:00Z;a;5\n"),
        ("dates", b"99999-01-01T00:00:00Z;a;5\n"),
        ("dates", b"2026-03-01T10:00:05Z;a;5\0\n"),
        ("combined", combined_row(time="01/Aug/0000:00:00:07 -0400").encode()),
    ],
)  # fmt: skip
def test_a_row_is_bad_for_any_reason(tmp_path: Path, name: str, row: bytes) -> None:
    path = tmp_path / "log"
    header, good = (part.encode() for part in LOGS[name])
    path.write_bytes(header + good + row + good)
    line = 3 if header else 2
    line += name == "cloudfront"

    with pytest.raises(BadLogError, match=f"^{path} line {line}: "):
        read_log(path)
    log = read_log(path, skip_bad_rows=True)
    assert (len(log.trace), log.bad_rows) == (2, 1)


def test_a_long_line_is_named_or_skipped_and_its_neighbours_are_read(tmp_path: Path) -> None:
    path, limit = tmp_path / "log", MAX_LINE_BYTES
    for length, is_long in ((limit, False), (limit + 1, True), (3 * limit, True)):
        filler = b"x" * (length - len(combined_row("GET /" + " HTTP/1.0")))
        row = combined_row().encode()
        path.write_bytes(row + combined_row("GET /" + filler.decode() + " HTTP/1.0").encode() + row)

        if is_long:
            with pytest.raises(BadLogError, match=f"line 2: .*expected a line of at most {limit:,} bytes"):
                read_log(path)
        log = read_log(path, skip_bad_rows=True)
        assert (len(log.trace), log.bad_rows) == ((2, 1) if is_long else (3, 0))


@pytest.mark.parametrize("lengths", [(5, 2_000_000, 5), (2_000_000,), (2_000_000, 2_000_000, 5, 2_000_000)])
def test_long_lines_are_blocks_of_their_own(tmp_path: Path, lengths: tuple[int, ...]) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"\n".join(b"x" * length for length in lengths))

    found = [isinstance(block, LongLine) for block in blocks(path)]

    assert found == [length > MAX_LINE_BYTES for length in lengths]
    assert sum(len(block) for block in blocks(path)) < 1_000


def test_the_format_of_many_files_is_not_shown_by_a_long_line(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"x" * (MAX_LINE_BYTES + 5) + b"\n" + combined_row().encode())
    file = LogFile(path, "log", 0)

    with pytest.raises(BadLogError, match="log line 1: .*expected a line of at most"):
        LogReader(ReadOptions()).detect_format(file)
    lenient = LogReader(ReadOptions(skip_bad_rows=True))
    assert lenient.detect_format(file)
    assert lenient.format
    assert lenient.format.name == "combined"


@pytest.mark.parametrize(
    ("content", "line", "expected"),
    [
        ("date,key\n2026-03-01,a\n", 2, "a time of ISO 8601, like 06/Feb/2019:00:00:38 .0000, or a number, not '2026-"),
        ("time,key\n03/01/2026 10:00:05,a\n", 2, "a time of ISO 8601"),
        ("time,key\n20260301100005,a\n", 2, "at most 100000000000 seconds"),
        ("\n\ntime,key\n1,a\n", 3, "the header in the first line"),
        ("t,key\n5,a\n", 1, "a table with a column t:min"),
        ("1 2\n", 1, "a table with a column 9"),
    ],
)
def test_what_a_table_lacks_is_named(tmp_path: Path, content: str, line: int, expected: str) -> None:
    (tmp_path / "log").write_text(content)
    names = {"date": {"time": "date"}, "t,key": {"time": "t:min"}, "1 2\n": {"time": "1", "key": "9"}}

    with pytest.raises(BadLogError, match=f"log line {line}: .*expected {expected}"):
        read_log(
            tmp_path / "log", names=next((named for start, named in names.items() if content.startswith(start)), {})
        )


_PROGRAM = """
import resource, sys
import numpy, orjson, isal.isal_zlib, zstandard
from burstcache_sim.traces.errors import BadLogError
from burstcache_sim.traces.read import read_log
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for skip in (False, True):
    try:
        read_log(sys.argv[1], skip_bad_rows=skip)
    except BadLogError as error:
        print(error, file=sys.stderr)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.slow
@pytest.mark.parametrize("packed", ["gzip", "zstd", "plain"])
@pytest.mark.parametrize("before", ["", "1.5\n"])
def test_a_line_of_400_mb_takes_no_memory(tmp_path: Path, packed: str, before: str) -> None:
    start, filler, path = (
        ("arrival_s\n" if before else "").encode() + before.encode(),
        b"7" * (1 << 20),
        tmp_path / "log",
    )
    if packed == "gzip":
        with gzip.open(path, "wb") as file:
            file.write(start)
            file.writelines(filler for _ in range(400))
    elif packed == "zstd":
        with path.open("wb") as raw, zstandard.ZstdCompressor().stream_writer(raw) as file:
            file.write(start)
            for _ in range(400):
                file.write(filler)
    else:
        with path.open("wb") as file:
            file.write(start)
            file.truncate(400 << 20)  # a hole

    done = subprocess.run([sys.executable, "-c", _PROGRAM, str(path)], check=True, capture_output=True, text=True)

    assert "expected a line of at most" in done.stderr
    assert int(done.stdout) < 12_000, f"{done.stdout} KB"
