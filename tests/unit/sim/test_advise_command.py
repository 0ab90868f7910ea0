"""`burstcache advise` as it is typed: what it prints, whom it asks, what it refuses."""

from __future__ import annotations

import io
import json
import re
import sys
from pathlib import Path

import pytest

from burstcache_cli.cli import main
from burstcache_sim.progress import hide_progress, progress
from support.project import ROOT


@pytest.fixture
def log(tmp_path: Path) -> str:
    """Ten minutes of ten requests a second."""
    path = tmp_path / "burst.csv"
    path.write_text("t,key,size\n" + "".join(f"{tenth / 10:.6f},a,10000\n" for tenth in range(6_000)))
    return str(path)


@pytest.fixture
def unsized(tmp_path: Path) -> str:
    """The same for two objects, whose sizes are in a column that is called otherwise."""
    path = tmp_path / "unsized.csv"
    path.write_text("time,key,tile_bytes\n" + "".join(f"{tenth / 10:.6f},{tenth % 2},7\n" for tenth in range(6_000)))
    return str(path)


def test_a_log_without_sizes_gets_no_verdict_and_what_does_not_depend_on_them(
    capsys: pytest.CaptureFixture[str], unsized: str
) -> None:
    assert main(["advise", unsized, "--json"]) == 0

    found = json.loads(capsys.readouterr().out)
    assert (found["verdict"], found["size_columns"]) == ("unknown", ["tile_bytes"])
    assert (found["n"], found["objects"]) == (6_000, 2)
    assert found["s3_requests_usd_per_month"] == pytest.approx(4e-7 * 6_000 * found["repeats_per_month"])
    assert found["most_in_memory_pct"] > 99.9
    assert "systems" not in found


def test_a_log_without_sizes_names_the_column_that_looks_like_one(
    capsys: pytest.CaptureFixture[str], unsized: str
) -> None:
    assert main(["advise", unsized, "--out", f"{unsized}.html"]) == 0

    out, err = capsys.readouterr()
    assert out.startswith("NO VERDICT: no row shows the size of an object")
    assert "Columns that look like sizes: tile_bytes." in out
    assert "--fields size=tile_bytes" in " ".join(out.split())
    assert "--object-bytes" in out
    assert "DEPLOY" not in out
    assert "is not written" in err
    assert not Path(f"{unsized}.html").exists()


@pytest.mark.slow
@pytest.mark.parametrize("option", [["--fields", "size=tile_bytes"], ["--object-bytes", "7"]])
def test_a_size_that_is_named_or_given_brings_the_verdict(
    capsys: pytest.CaptureFixture[str], unsized: str, option: list[str]
) -> None:
    assert main(["advise", unsized, "--json", "--candidates", "8", *option]) == 0

    assert json.loads(capsys.readouterr().out)["verdict"] != "unknown"


@pytest.mark.slow
def test_json_has_the_verdict_the_bill_the_latencies_and_the_overrides(
    capsys: pytest.CaptureFixture[str], log: str
) -> None:
    assert main(["advise", log, "--json", "--candidates", "80", "--hit-value-usd", "1e-6", "--policy", "thesis"]) == 0

    found = json.loads(capsys.readouterr().out)
    assert found["verdict"] == "too short to say"
    assert found["too_short"] == "9 min 59 s of requests, repeated 4,381 times a month, but at least an hour is needed"
    assert found["verdict_if_it_lasts"] == "use the library"
    assert "burstcache.wrap(" in found["steps"]
    assert found["best_buy"].startswith("reader-memory:")
    assert found["reader_processes"] == 1
    assert found["burstcache"]["form"] == "the stack with nodes"
    assert [share["second_half_pct"] for share in found["confidence"]["shares"]] == [100.0] * 5
    assert found["latency_ms"]["mean_ms"] < found["latency_without_ms"]["mean_ms"] == pytest.approx(25 + 10_000 / 270e3)
    assert found["burstcache"] == found["thesis_policy"]
    assert found["burstcache"]["policy"] == "thesis"
    assert found["parameter_overrides"]["PolicyOverrides"] == found["burstcache"]["text"]
    assert {"s3-only", "cloudfront"} <= {system["name"] for system in found["systems"]}
    assert [row["tuned_on"] for row in found["lasting"]][:2] == ["the first half", "the second half itself"]
    assert found["redirected_requests"] == 0


@pytest.mark.slow
def test_every_member_of_the_json_is_documented(capsys: pytest.CaptureFixture[str], log: str) -> None:
    page = (ROOT / "docs/use/advise.md").read_text()
    rows = re.findall(r"^\| (`.*?) \|", page.partition("\n## JSON\n")[2].partition("\n## ")[0], re.MULTILINE)
    documented = [name for row in rows for name in re.findall(r"`(\w+)`", row)]

    assert main(["advise", log, "--json", "--candidates", "8"]) == 0

    members = [*json.loads(capsys.readouterr().out), "deployed", "notes"]  # the last two of a stack
    assert sorted(documented) == sorted(members)


def test_burstcache_competes_with_the_policy_that_is_named(capsys: pytest.CaptureFixture[str], log: str) -> None:
    args = ["advise", log, "--json", "--candidates", "40", "--policy", "hazard", "--hit-value-usd", "1e-4"]
    assert main(args) == 0

    found = json.loads(capsys.readouterr().out)
    assert found["burstcache"]["policy"] == "hazard"
    assert {choice["policy"] for choice in found["further"]} == {"hazard"}
    assert found["parameter_overrides"]["Policy"] == "hazard"


def test_an_s3_that_takes_no_time_is_weighed_by_money(capsys: pytest.CaptureFixture[str], log: str) -> None:
    args = [
        "advise",
        log,
        "--json",
        "--candidates",
        "8",
        "--policy",
        "thesis",
        "--hit-value-usd",
        "1e-6",
        "--s3-ms",
        "0",
    ]

    assert main(args) == 0

    assert json.loads(capsys.readouterr().out)["sensitivity"]["by_s3_ms"] == []


def test_readers_that_keep_nothing_confirm_nothing(capsys: pytest.CaptureFixture[str], log: str) -> None:
    args = ["advise", log, "--json", "--candidates", "8", "--policy", "thesis", "--without", "reader-memory"]

    assert main(args) == 0

    systems = json.loads(capsys.readouterr().out)["systems"]
    assert not [one["name"] for one in systems if one["is_choice"] and one["name"].startswith("reader-memory")]


@pytest.mark.parametrize("at_s", [[5.0], [0.0, 1.0, 2.0]])
def test_a_log_that_is_too_short_says_so_first_and_shows_no_share(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, at_s: list[float]
) -> None:
    path = tmp_path / "few.csv"
    path.write_text("t,key,size\n" + "".join(f"{second},k,100\n" for second in at_s))

    assert main(["advise", str(path), "--candidates", "8", "--hit-value-usd", "1e-5"]) == 0

    assert capsys.readouterr().out.startswith("TOO SHORT TO SAY: ")


def test_what_answers_nothing_is_shown_nowhere(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "once.csv"
    path.write_text("t,key,size\n" + "".join(f"{30 * at},k{at},1000000\n" for at in range(300)))

    assert main(["advise", str(path), "--candidates", "8", "--hit-value-usd", "1e-5"]) == 0

    table = [line for line in capsys.readouterr().out.splitlines() if re.search(r" +\d+\.\d +\d+\.\d ", line)]
    assert [line.split()[0] for line in table if line.split()[-5:-4] == ["0.0"]] == ["s3-only"]


def test_a_log_without_sizes_is_billed_by_the_size_that_an_option_names(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "keys.csv"
    path.write_text("t,key\n" + "".join(f"{second},{second % 7}\n" for second in range(700)))
    args = ["advise", str(path), "--json", "--candidates", "8", "--readers", "internet", "--object-bytes", "1073741"]

    assert main(args) == 0

    told = capsys.readouterr()
    found = json.loads(told.out)
    lines = {line["item"]: line for line in found["systems"][0]["lines"]}
    assert float(lines["transfer to the internet"]["quantity"]) == pytest.approx(0.7, rel=1e-3)
    assert "The log has no sizes: every object counts as 1073741 bytes (--object-bytes)." in found["assumptions"]
    assert "no row shows the size of an object" in told.err


@pytest.mark.slow
def test_the_page_stands_alone(capsys: pytest.CaptureFixture[str], log: str, tmp_path: Path) -> None:
    out = tmp_path / "report.html"

    assert main(["advise", log, "--candidates", "80", "--out", str(out), "--policy", "thesis"]) == 0

    page = out.read_text()
    assert capsys.readouterr().out.startswith("TOO SHORT TO SAY: 9 min 59 s of requests,")
    too_short = "9 min 59 s of requests, repeated 4,381 times a month, but at least an hour is needed"
    assert f"TOO SHORT TO SAY: {too_short}. " in page
    assert "burstcache.wrap(" in page
    assert page.count("<svg ") == 1
    assert "the second half itself" in page
    assert "<script" not in page
    assert not re.search(r'(src|href)="http', page)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.slow
@pytest.mark.parametrize(
    ("typed", "lines"),
    [
        ("1e-4\n\n", ["Value of a hit: 100 USD per million.", "Assumes one long-lived reader process"]),
        ("much\n2e-4\n3\n", ["Value of a hit: 200 USD per million.", "Assumes 3 long-lived reader processes"]),
        ("\n0\n2\n", ["No value of latency is set", "Assumes 2 long-lived reader processes"]),
        ("", ["No value of latency is set", "Assumes one long-lived reader process"]),
    ],
)
def test_a_person_at_a_terminal_is_asked_what_a_hit_is_worth_and_how_many_read(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], log: str, typed: str, lines: list[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal(typed))
    monkeypatch.setattr(sys, "stderr", Terminal())

    assert main(["advise", log, "--candidates", "20"]) == 0

    told = " ".join(capsys.readouterr().out.split())
    assert all(line in told for line in lines)


@pytest.mark.parametrize(
    ("options", "asked"),
    [
        (["--hit-value-usd", "1e-5"], ["processes"]),
        (["--reader-processes", "2"], ["worth"]),
        (["--ms-value-usd", "1e-7", "--reader-processes", "2"], []),
    ],
)
def test_what_an_option_says_is_not_asked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], log: str, options: list[str], asked: list[str]
) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stdin", Terminal("\n\n"))
    monkeypatch.setattr(sys, "stderr", screen)

    assert main(["advise", log, "--candidates", "8", "--policy", "thesis", *options]) == 0

    questions = [line for line in screen.getvalue().splitlines() if line.endswith("?") or "?" in line]
    assert [word for word in ("worth", "processes") if any(word in line for line in questions)] == asked
    assert capsys.readouterr().out


def test_who_interrupts_the_question_gets_a_line_of_his_own(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], log: str
) -> None:
    class Interrupted(Terminal):
        def readline(self, *_: object) -> str:  # type: ignore[override]
            raise KeyboardInterrupt

    screen = Terminal()
    monkeypatch.setattr(sys, "stdin", Interrupted())
    monkeypatch.setattr(sys, "stderr", screen)

    assert main(["advise", log]) == 130

    assert screen.getvalue().endswith("if you do not know) \n")
    assert capsys.readouterr().out == ""


def test_no_question_is_asked_without_a_terminal(capsys: pytest.CaptureFixture[str], log: str) -> None:
    assert main(["advise", log, "--candidates", "20"]) == 0

    assert "in USD?" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--hit-value-usd", "-1"], "--hit-value-usd '-1': expected an amount per request above 0 and at most 0.1"),
        (
            ["--hit-value-usd", "10"],
            "--hit-value-usd '10': expected an amount per request above 0 and at most 0.1, such as",
        ),
        (["--ms-value-usd", "0"], "--ms-value-usd '0': expected an amount above 0, such as 1e-5"),
        (["--s3-ms", "fast"], "--s3-ms 'fast': expected a number of milliseconds of at least 0"),
        (["--instance-type", "t2.micro"], "--instance-type t2.micro: expected one of t4g.nano, "),
        (["--prices", "thesis-2022"], "has no price for ec2:t4g.micro"),
        (["--candidates", "0"], "--candidates '0': expected a whole number of at least 1"),
        (["--period-hours", "0"], "--period-hours '0': expected a number above 0"),
        (["--period-hours", "1e9"], "--period-hours: expected at most 876000"),
        (
            ["--out", "/nowhere/report.html"],
            "--out /nowhere/report.html: expected a file that can be",
        ),
        (["--out", "/"], "--out /: expected a file that can be written (it is a folder)"),
        (["--hit-value-usd", "nan"], "--hit-value-usd 'nan': expected an amount per request above 0"),
        (["--hit-value-usd", "1e999"], "--hit-value-usd '1e999': expected an amount per request above 0"),
        (["--without", "memcached"], "--without memcached: expected one of "),
    ],
)
def test_a_wrong_call_ends_with_two_and_one_line(
    capsys: pytest.CaptureFixture[str], log: str, options: list[str], message: str
) -> None:
    argv = ["advise", log, *options] + ([] if "--candidates" in options else ["--candidates", "20"])

    assert main(argv) == 2

    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert message in err


@pytest.mark.slow
def test_each_long_phase_shows_its_progress_at_a_terminal_and_leaves_nothing_there(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], log: str
) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr("burstcache_sim.progress._SHOWN_AFTER_S", 0.0)

    assert main(["advise", log, "--candidates", "20", "--hit-value-usd", "1e-5"]) == 0

    shown = screen.getvalue()
    assert "%|" not in capsys.readouterr().out
    for phase in ("search", "rivals", "combinations of tiers", "nodes that a policy boots and stops"):
        assert f"\r{phase}: 100%|" in shown or f"\r{phase}:   0%|" in shown
    assert shown.endswith("\r")


def test_work_of_less_than_a_second_shows_no_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)

    assert list(progress(range(3), text="work")) == [0, 1, 2]

    assert screen.getvalue() == ""


def test_a_process_whose_parent_shows_the_progress_of_all_shows_none(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr("burstcache_sim.progress._SHOWN_AFTER_S", 0.0)
    monkeypatch.setattr("burstcache_sim.progress._is_hidden", False)
    hide_progress()

    assert list(progress(range(3), text="work")) == [0, 1, 2]

    assert screen.getvalue() == ""
