"""`burstcache sim`: traces are read or refused by line, and a wrong call costs one line and exit code 2."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from burstcache_cli.cli import main


def write(path: Path, text: str) -> Path:
    path.write_bytes(text.encode())
    return path


def test_an_unknown_simulation_is_refused_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", "frobnicate"]) == 2

    assert "burstcache sim: 'frobnicate' is not a command: expected one of generate, " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", 1),
        ("arrival_s\n", 2),
        ("time\n1.0\n", 1),
        ("arrival_s\n2.0\n1.0\n", 3),
        ("arrival_s\n-1.0\n", 2),
        ("arrival_s\n1.0\n\n2.0\n", 3),
        ("arrival_s\n1.0\nx\n", 3),
        ("arrival_s\n1.0\nnan\n", 3),
    ],
    ids=["empty", "no rows", "another header", "unsorted", "negative", "blank line", "no number", "nan"],
)
@pytest.mark.parametrize("simulation", ["sim run", "research offline", "research optimum"])
def test_a_bad_trace_is_refused_with_its_file_and_line(
    simulation: str, text: str, line: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "trace.csv", text)

    assert main([*simulation.split(), str(path), "--json"]) == 2

    printed = capsys.readouterr()
    assert printed.out == ""
    assert f"{path} line {line}:" in printed.err


@pytest.mark.parametrize(
    "text", ["arrival_s\n0\n1.5\n", "arrival_s\r\n0.0000000\r\n1.4999995\r\n", "arrival_s\n0\n1.5"]
)
def test_any_decimals_and_line_ends_are_read(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "trace.csv", text)

    assert main(["sim", "run", str(path), "--until", "1.5"]) == 0

    assert "n                2\n" in capsys.readouterr().out


def test_a_packed_trace_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "trace.csv.gz"
    path.write_bytes(gzip.compress(b"arrival_s\n0\n"))

    assert main(["sim", "run", str(path), "--json"]) == 0

    assert '"tiers_rle": "S1"' in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["sim", "run", "--rate", "x"], "rate 'x': expected a decimal number"),
        (["sim", "run", "--sensitivity", "6"], "sensitivity 6: expected a number above 0 and up to 5"),
        (["sim", "run", "--until", "-1"], "--until '-1': expected a number of seconds of at least 0"),
        (["sim", "run", "--until", "1/2"], "--until '1/2': expected a number of seconds of at least 0"),
        (["sim", "run", "--policy", "breakeven"], "--hit-value-usd is missing"),
        (
            ["sim", "run", "--policy", "breakeven", "--hit-value-usd", "0"],
            "--hit-value-usd '0': expected an amount above 0",
        ),
        (["sim", "run", "--prices", "gold"], "--prices 'gold': expected one of thesis-2022"),
        (
            ["research", "optimum", "--miss-penalty-usd", "-1"],
            "--miss-penalty-usd '-1': expected an amount of at least 0",
        ),
        (["research", "optimum", "--prices", "today-us-east-1"], "--prices today-us-east-1: expected thesis-2022"),
        (["research", "offline", "--rank", "0"], "--rank '0': expected a whole number of at least 1"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_a_wrong_value_is_named_with_what_is_accepted(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "trace.csv", "arrival_s\n0\n")

    assert main([*words[:2], str(path), *words[2:]]) == 2

    assert message in capsys.readouterr().err


def test_a_log_of_one_key_needs_no_rank(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "log.csv", "t,key,size\n0,a,100\n1,a,100\n")

    assert main(["sim", "run", str(path), "--json"]) == 0
    assert main(["research", "offline", str(path)]) == 0

    assert '"invoke cold"' in capsys.readouterr().out


def test_a_log_of_many_keys_shares_nodes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = "".join(f"{second},{key},100\n" for second in range(7) for key in "ab")
    path = write(tmp_path / "log.csv", "t,key,size\n" + rows + "40,a,100\n40,b,100\n")

    assert main(["sim", "run", str(path), "--json"]) == 0
    both = capsys.readouterr().out
    assert main(["research", "offline", str(path)]) == 2
    refused = capsys.readouterr().err
    assert main(["research", "offline", str(path), "--rank", "1"]) == 0

    assert '"redis_starts": 1' in both
    assert "has 2 keys: expected one, choose it with --rank" in refused
