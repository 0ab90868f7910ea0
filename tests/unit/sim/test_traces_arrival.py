"""Traces of one key: what is read, and what is refused with file and line."""

from __future__ import annotations

import gzip
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from burstcache_cli.cli import main
from burstcache_sim.traces.errors import BadLogError
from burstcache_sim.traces.read import read_log, read_trace
from burstcache_sim.traces.timestamps import seconds_us


def arrivals_us(tmp_path: Path, content: bytes) -> list[int]:
    path = tmp_path / "trace.csv"
    path.write_bytes(content)
    trace = read_trace(path)
    assert (trace.key_ids, trace.sizes_bytes, trace.keys) == (None, None, ())
    assert trace.arrivals_us.dtype == np.int64
    return [int(us) for us in trace.arrivals_us]


@pytest.mark.parametrize(
    "content",
    [
        b"arrival_s\n0.000000\n1.500000\n1.500000\n",
        b"arrival_s\n0.000000\n1.500000\n1.500000",
        b"arrival_s\r\n0\r\n1.5\r\n1.50\r\n",
        b"arrival_s\r\n0\r\n1.5\r\n1.50",
        b"arrival_s\n-0.0\n+1.5\n15e-1\n",
        gzip.compress(b"arrival_s\n0\n1.5\n1.5\n", mtime=0),
    ],
)
def test_line_ends_and_ways_to_write_a_number(tmp_path: Path, content: bytes) -> None:
    assert arrivals_us(tmp_path, content) == [0, 1_500_000, 1_500_000]


def test_any_number_of_decimals_is_rounded_half_to_even(tmp_path: Path) -> None:
    rows = [b"0.0000005", b"0.0000015", b"0.00000250", b"0.00000250000000000000000000000000000000000001", b"1234567.8"]

    read = arrivals_us(tmp_path, b"\n".join([b"arrival_s", *rows]))

    assert read == [0, 2, 2, 3, 1_234_567_800_000]


@given(st.integers(0, 10**9), st.text("0123456789", max_size=40))
def test_rounding_is_that_of_exact_arithmetic(whole: int, fraction: str) -> None:
    written = f"{whole}.{fraction}"

    exact = Fraction(whole) + (Fraction(int(fraction), 10 ** len(fraction)) if fraction else 0)
    assert seconds_us(written.encode()) == round(exact * 1_000_000)  # round() of a fraction is half to even


def test_rows_that_only_rounding_makes_equal_are_sorted(tmp_path: Path) -> None:
    assert arrivals_us(tmp_path, b"arrival_s\n1.0000004\n1.0000001\n") == [1_000_000, 1_000_000]


@pytest.mark.parametrize(
    ("content", "line", "message"),
    [
        (b"", 1, "no request"),
        (b"arrival_s\n", 2, "the trace is empty"),
        (b"arrival_s", 2, "the trace is empty"),
        (b"time_s\n1\n", 1, "or the header arrival_s"),
        (b"Arrival_s\n1\n", 1, "or the header arrival_s"),
        (b"1.0\n2.0\n", 1, "or the header arrival_s"),
        (b"\narrival_s\n1\n", 2, "or the header arrival_s"),
        (b"arrival_s\n1\n\n2\n", 3, "expected a number of seconds, not ''"),
        (b"arrival_s\n1\n\n", 3, "expected a number of seconds, not ''"),
        (b"arrival_s\n2.0\n1.999999\n", 3, "'1.999999': expected at least 2.000000, as in the row before"),
        (b"arrival_s\n-0.5\n", 2, "'-0.5': expected seconds of at least 0"),
        (b"arrival_s\n-0.0000001\n", 2, "expected seconds of at least 0"),
        (b"arrival_s\none\n", 2, "'one': expected a number of seconds"),
        (b"arrival_s\n1,2\n", 2, "expected a number of seconds"),
        (b"arrival_s\n1_000\n", 2, "expected a number of seconds"),
        (b"arrival_s\nnan\n", 2, "expected a number of seconds"),
        (b"arrival_s\ninf\n", 2, "expected a number of seconds"),
        (b"arrival_s\n 1\n", 2, "expected a number of seconds"),
        (b"arrival_s\n1e99\n", 2, "expected at most"),
        (b"arrival_s\n\xb2\n", 2, "expected a number of seconds"),
        (b"arrival_s\n1\r\r\n", 2, "expected a number of seconds"),
    ],
)
def test_what_is_no_trace_ends_with_2_file_and_line(
    tmp_path: Path, content: bytes, line: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "trace.csv"
    path.write_bytes(content)

    assert main(["sim", "inspect", str(path)]) == 2

    error = capsys.readouterr().err
    assert f"{path} line {line}: " in error
    assert message in error
    assert error.count("\n") == 1


def test_bad_rows_are_counted_and_skipped_on_demand(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_bytes(b"arrival_s\n1\n\nx\n3\n2\n4\n")

    log = read_log(path, skip_bad_rows=True)

    assert log.trace.arrivals_us.tolist() == [1_000_000, 3_000_000, 4_000_000]
    assert (log.rows, log.bad_rows, log.other_requests) == (6, 3, 0)


def test_a_file_of_bad_rows_alone_is_empty(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_bytes(b"arrival_s\nx\ny\n")

    with pytest.raises(BadLogError, match=r"trace.csv line 4: the trace is empty"):
        read_trace(path, skip_bad_rows=True)


@pytest.mark.slow
def test_a_broken_gzip_names_the_line_up_to_which_it_was_read(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv.gz"
    rows = b"".join(b"%d.5\n" % number for number in range(100_000))
    path.write_bytes(gzip.compress(b"arrival_s\n" + rows)[:-1000])

    with pytest.raises(BadLogError, match=r"trace.csv.gz line \d{4,}: expected a file that can be read"):
        read_trace(path)
