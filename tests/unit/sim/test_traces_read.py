"""Logs of many files, ranks, what a log holds, and memory."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
from pathlib import Path
from random import Random

import numpy as np
import pytest

from burstcache.core.errors import InvalidSettingError
from burstcache_cli.cli import main
from burstcache_sim.traces.columns import Columns
from burstcache_sim.traces.errors import BadLogError
from burstcache_sim.traces.ranges import response_content
from burstcache_sim.traces.read import read_log, read_trace
from burstcache_sim.traces.select import has_whole_seconds, of_rank
from burstcache_sim.traces.trace import Trace
from support.trace_columns import keys_of, sizes_of


def combined(second: int, key: str = "/a") -> str:
    return f'192.0.2.1 - - [01/Aug/2025:00:00:{second:02d} +0000] "GET {key} HTTP/1.1" 200 5 "-" "-"\n'


def write(path: Path, *lines: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    content = "".join(lines).encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path / "logs" / "2.log", combined(30), combined(5, "/b"))
    write(tmp_path / "logs" / "deep" / "1.log.gz", combined(20), combined(1))
    write(tmp_path / "logs" / "empty")
    write(tmp_path / "logs" / ".hidden", "no log")
    return tmp_path / "logs"


def test_a_row_has_any_number_of_decimals(tmp_path: Path) -> None:
    path = tmp_path / "long.csv"
    path.write_text(f"arrival_s\n0.{'0' * 100_000}\n7\n")

    assert read_trace(path).arrivals_us.tolist() == [0, 7_000_000]


@pytest.mark.parametrize("pattern", ["", "*", "**/*.log*", "[2]*"])
def test_folders_and_globs_of_unsorted_files_make_one_sorted_trace(folder: Path, pattern: str) -> None:
    paths: list[str | Path] = [str(folder / pattern), folder / "deep", folder / "deep" / "1.log.gz"]

    (folder.parent / "link").symlink_to(folder)
    log = read_log([*paths, folder.parent / "link" / "2.log"])

    assert log.trace.arrivals_us.tolist() == [0, 4_000_000, 19_000_000, 29_000_000]
    assert keys_of(log.trace) == ["/a", "/b", "/a", "/a"]
    assert log.rows == 4  # no file is read twice


@pytest.mark.slow
def test_all_lines_are_reported_while_they_are_read(tmp_path: Path) -> None:
    rows = "".join(f"{second}\n" for second in range(250_000))
    path = write(tmp_path / "a.csv", "arrival_s\n", rows)
    told: list[int] = []

    read_log(path, on_lines=told.append)

    assert sum(told) == 250_001
    assert len(told) > 1


def test_requests_of_one_instant_stay_in_the_order_of_reading(tmp_path: Path) -> None:
    first = write(tmp_path / "1.log", combined(9, "/x"), combined(1, "/b"), combined(1, "/a"))
    second = write(tmp_path / "2.log", combined(1, "/c"))

    trace = read_trace([first, second])

    assert keys_of(trace) == ["/b", "/a", "/c", "/x"]


def test_sorting_many_requests_keeps_their_keys_sizes_and_the_order_of_reading() -> None:
    random = Random(8)
    rows = [(random.randrange(100), b"%d" % random.randrange(50), random.randrange(1000)) for _ in range(5000)]
    columns = Columns()
    for row in rows:
        columns.add(*row[:2], response_content(b"200", body_bytes=row[2]))
    names = tuple(key.decode() for key in columns.ids)

    trace = columns.take_trace(names, origin_us=0, key_id=None, has_keys=True)

    read = zip(trace.arrivals_us.tolist(), map(str.encode, keys_of(trace)), sizes_of(trace), strict=True)
    assert list(read) == sorted(rows, key=lambda row: row[0]), "seed 8"
    columns_read = (trace.arrivals_us, trace.key_ids, trace.sizes_bytes)
    assert [column is not None and column.dtype.name for column in columns_read] == ["int64", "int32", "int64"]


def test_a_log_that_shows_no_size_has_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "a.csv", "t,key\n", "1,a\n", "2,b\n", "3,a\n")

    trace = read_trace(path)
    one = read_trace(path, rank=1)

    assert (trace.sizes_bytes, one.sizes_bytes) == (None, None)
    assert keys_of(trace) == ["a", "b", "a"]
    assert main(["sim", "inspect", str(path)]) == 0
    told = capsys.readouterr()
    assert told.err == "note: no row shows the size of an object\n"
    assert re.search(r"^ +1 +2 +66.67 % +—  a$", told.out, re.MULTILINE)


def test_an_object_whose_size_is_never_shown_is_as_large_as_the_others_on_average(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = ["1,a,10\n", "2,a,\n", "3,b,30\n", "4,c,\n", "5,a,10\n"]
    path = write(tmp_path / "a.csv", "t,key,size\n", *rows)

    assert sizes_of(read_trace(path)) == [10, 10, 30, 20, 10]
    assert main(["sim", "inspect", str(path), "--json"]) == 0
    told = capsys.readouterr()
    assert json.loads(told.out)["unsized_keys"] == 1
    assert told.err.startswith("note: 1 object without a size in any row")


def test_a_rank_is_one_key_on_the_clock_of_the_whole_log(tmp_path: Path) -> None:
    rows = [(1, "/z"), (9, "/two"), (3, "/two"), (4, "/one"), (5, "/one"), (6, "/one"), (7, "/a")]
    path = write(tmp_path / "a.log", *(combined(*row) for row in rows))

    first, second, third, last = (read_trace(path, rank=rank) for rank in (1, 2, 3, 4))

    assert (first.keys, first.key_ids) == (("/one",), None)
    assert first.arrivals_us.tolist() == [3_000_000, 4_000_000, 5_000_000]
    assert (second.keys, second.arrivals_us.tolist()) == (("/two",), [2_000_000, 8_000_000])
    assert (third.keys, last.keys) == (("/a",), ("/z",))  # equally often: by name
    assert sizes_of(first) == [5, 5, 5]


def test_a_rank_of_a_trace_is_the_rank_of_its_log(tmp_path: Path) -> None:
    path = write(tmp_path / "a.log", combined(3, "/b"), combined(2, "/a"), combined(1, "/b"))

    for rank in (1, 2):
        of_trace, of_log = of_rank(read_trace(path), rank), read_trace(path, rank=rank)
        assert of_trace.arrivals_us.tolist() == of_log.arrivals_us.tolist()
        assert of_trace.keys == of_log.keys


@pytest.mark.parametrize("rank", [0, -1, 3])
def test_a_rank_that_the_log_does_not_have_is_refused(tmp_path: Path, rank: int) -> None:
    path = write(tmp_path / "a.log", combined(3, "/b"), combined(2, "/a"))

    with pytest.raises(InvalidSettingError, match=rf"rank {rank}: expected 1 "):
        read_trace(path, rank=rank)


def test_a_trace_of_one_key_has_rank_1_alone(tmp_path: Path) -> None:
    path = write(tmp_path / "trace.csv", "arrival_s\n1\n2\n")

    assert read_trace(path, rank=1).arrivals_us.tolist() == [1_000_000, 2_000_000]
    with pytest.raises(InvalidSettingError, match="rank 2: expected 1"):
        read_trace(path, rank=2)
    with pytest.raises(InvalidSettingError, match="rank 2: expected 1"):
        of_rank(read_trace(path), 2)


def test_files_of_two_formats_are_no_log(tmp_path: Path) -> None:
    first = write(tmp_path / "1.csv", "arrival_s\n1\n")
    second = write(tmp_path / "2.log", combined(1))

    with pytest.raises(BadLogError, match=r"2.log line 1: .*expected the header of a CSV of one key"):
        read_trace([first, second])


@pytest.mark.parametrize("skip_bad_rows", [False, True])
def test_a_file_of_another_format_is_named_and_never_skipped(tmp_path: Path, skip_bad_rows: bool) -> None:
    first = write(tmp_path / "1.log", combined(1))
    second = write(tmp_path / "2.log", "#Version: 1.0\n", "#Fields: date time cs-method cs-uri-stem sc-status\n")

    with pytest.raises(
        BadLogError, match=r"2.log line 1: '#Version.*as in .*1.log: all files of a log have one format"
    ):
        read_trace([first, second], skip_bad_rows=skip_bad_rows)


def test_a_file_of_bad_rows_alone_is_skipped_on_demand(tmp_path: Path) -> None:
    first, second = write(tmp_path / "1.log", combined(1)), write(tmp_path / "2.log", "torn\n")

    assert read_log([first, second], skip_bad_rows=True).bad_rows == 1


def test_gzip_of_several_members_is_one_file_and_an_empty_one_none(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    torn = gzip.compress(combined(3)[:20].encode()) + gzip.compress(combined(3)[20:].encode())
    (tmp_path / "logs" / "1.gz").write_bytes(gzip.compress(combined(1).encode()) + torn)
    (tmp_path / "logs" / "2.gz").write_bytes(gzip.compress(b""))

    assert read_trace(tmp_path / "logs").arrivals_us.tolist() == [0, 2_000_000]


@pytest.mark.parametrize(
    ("tail", "reason"), [(slice(None, -9), "it is truncated"), (slice(None), "other data follows")]
)
def test_gzip_that_is_cut_off_or_followed_by_something_else_is_named(tmp_path: Path, tail: slice, reason: str) -> None:
    whole = gzip.compress("".join(combined(second) for second in range(60)).encode())
    path = tmp_path / "a.gz"
    path.write_bytes(whole[tail] if tail.stop else whole + b"garbage")

    with pytest.raises(BadLogError, match=rf"a.gz line \d+: expected a file that can be read \({reason}"):
        read_trace(path)


def test_a_forced_format_is_not_guessed(tmp_path: Path) -> None:
    path = write(tmp_path / "a.log", combined(1))

    with pytest.raises(BadLogError, match=r"line 1: .*expected a record of an S3 server access log"):
        read_trace(path, format_="s3")
    with pytest.raises(InvalidSettingError, match="log format 'S4': expected one of auto, arrival, csv, s3"):
        read_trace(path, format_="S4")


def test_every_command_takes_the_format_of_a_log_that_begins_badly(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "a.log", "torn\n" * 60, combined(1), combined(9))

    for command in (["inspect"], ["run"], ["bill"], ["report"]):
        call = ["sim", *command, str(path), "--skip-bad-rows"]
        assert main(call) == 2
        assert "expected a line of an access log, a table" in capsys.readouterr().err
        assert main([*call, "--format", "combined"]) == 0


def test_a_log_without_a_request_to_serve_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.log", combined(1).replace(" 200 ", " 404 "))

    with pytest.raises(BadLogError, match=r"a.log line 1: no request in 1 rows: expected GETs answered 2xx or 304"):
        read_trace(path)


def test_files_without_a_request_are_named_together(tmp_path: Path) -> None:
    paths = [write(tmp_path / name) for name in ("1.log", "2.log", "3.log")]

    with pytest.raises(BadLogError, match=r"1.log and 2 more: no request in 0 rows"):
        read_trace(paths)


@pytest.mark.parametrize("name", ["missing.log", "*.missing", ""])
def test_what_names_no_file_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadLogError, match="expected|no such file"):
        read_trace(tmp_path / name)


def test_a_clock_of_whole_seconds_is_known() -> None:
    assert has_whole_seconds(Trace(np.array([500_000, 1_500_000, 3_500_000])))
    assert not has_whole_seconds(Trace(np.array([0, 1_000_001])))
    assert not has_whole_seconds(Trace(np.array([0])))


def test_inspect_describes_a_log(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", "inspect", str(folder), "--top", "1"]) == 0

    out = capsys.readouterr().out
    assert "combined, 3 file(s), 4 rows" in out
    assert "Requests:   4 (GETs" in out
    assert "Span:       29.000000 s\nFirst:      2025-08-01T00:00:01.000000Z\nLast:" in out
    assert "The clock has whole seconds" in out
    assert re.search(r"^ +1 +3 +75.00 % +5  /a$", out, re.MULTILINE)
    assert "/b" not in out


def test_inspect_as_json_has_the_same(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", "inspect", str(folder), "--rank", "2", "--json"]) == 0

    told = json.loads(capsys.readouterr().out)
    assert (told["requests"], told["keys"], told["span_s"]) == (1, 1, 0.0)
    assert (told["other_key_requests"], told["other_requests"], told["bad_rows"]) == (3, 0, 0)
    assert told["top_keys"] == [{"rank": 2, "key": "/b", "requests": 1, "share_pct": 100.0, "size_bytes": 5}]
    assert (told["requested_bytes"], told["object_bytes"], told["requests_per_min"]) == (5, 5, None)


def test_inspect_shows_control_characters_instead_of_sending_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "a.log", combined(1, "/%1b[2J"))

    assert main(["sim", "inspect", str(path)]) == 0

    assert "/\\x1b[2J" in capsys.readouterr().out


def test_inspect_counts_bad_rows_on_demand(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "a.log", combined(1), "bad\n", combined(2))

    assert main(["sim", "inspect", str(path)]) == 2
    assert f"{path} line 2: 'bad': expected a line of an access log" in capsys.readouterr().err
    assert main(["sim", "inspect", str(path), "--skip-bad-rows"]) == 0
    assert "0 other requests, 1 bad rows" in capsys.readouterr().out


@pytest.mark.slow
def test_reading_takes_at_most_32_bytes_a_request_and_a_constant(tmp_path: Path) -> None:
    random, requests = Random(3), 1_500_000
    path = tmp_path / "log.csv"
    rows = "".join(f"{random.randrange(10**9)},k{random.randrange(100)},9\n" for _ in range(requests // 100))
    with path.open("w") as file:
        file.write("t,key,size\n")
        file.writelines(rows for _ in range(100))
    program = (
        "import resource, sys\nimport numpy\nfrom burstcache_sim.traces.read import read_trace\n"
        "before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\ntrace = read_trace(sys.argv[1])\n"
        "print(len(trace), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb)\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", program, str(path)],
        env={"PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        check=True,
    )

    read, grown_kb = map(int, done.stdout.split())
    assert read == requests
    assert grown_kb * 1024 <= 32 * requests + 40_000_000
