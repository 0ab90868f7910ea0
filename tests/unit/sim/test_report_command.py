"""`burstcache sim report`: what it prints and writes, and how it refuses; the page stands alone."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from fractions import Fraction
from html.parser import HTMLParser
from pathlib import Path

import pytest
import yaml

from burstcache_cli.cli import main
from burstcache_sim.bill.setup import TEMPLATE_NODE, TEMPLATE_RELAY, Setup
from burstcache_sim.policies.registry import TEMPLATE, TEMPLATE_USD_PER_HIT, WORTH_POLICIES
from burstcache_sim.progress import line_counter, progress
from burstcache_sim.report import html
from burstcache_sim.report.drawing import LINE_COLOURS, TIER_COLOURS
from burstcache_terminal.text import table_text
from support.project import ROOT

CACHE_ONLY = ["--rate", "3", "--prices", "thesis-2022", "--only-cache"]
_VOID = {"meta", "br", "hr", "img", "link"}


class Outline(HTMLParser):
    """Checks that tags close in order, and collects what a page has."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.ids: list[str] = []
        self.loads: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_startendtag(tag, attrs)
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.ids += [value or "" for name, value in attrs if name == "id"]
        self.loads += [value or "" for name, value in attrs if name in {"src", "href", "xlink:href"}]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("traces") / "burst.csv"
    path.write_text("arrival_s\n" + "".join(f"{at_s}.000000\n" for at_s in range(0, 600, 4)))
    return str(path)


@pytest.fixture(scope="module")
def page(trace: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The report of the trace as a page: drawing it takes a second."""
    path = tmp_path_factory.mktemp("pages") / "report.html"
    assert main(["sim", "report", trace, *CACHE_ONLY, "--out", str(path)]) == 0
    return path.read_text()


@pytest.fixture
def log(tmp_path: Path) -> str:
    path = tmp_path / "log.csv"
    rows = "".join(f'{at_s}.5,"k{at_s % 3},x",{1_000 * (at_s % 3 + 1)}\n' for at_s in range(300))
    path.write_text("t,key,size\n" + rows)
    return str(path)


def printed(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    assert main(["sim", *argv]) == 0
    return capsys.readouterr().out


def outline(page: str) -> Outline:
    found = Outline()
    found.feed(page)
    found.close()
    assert not found.open
    return found


def test_the_terminal_gets_run_latency_bill_and_competitors(capsys: pytest.CaptureFixture[str], trace: str) -> None:
    out = printed(capsys, "report", trace, *CACHE_ONLY)

    assert out.startswith("150 requests in 9 min 56 s, 98.67 % from memory, ")
    assert all(word in out for word in ("served by", "mean ms", "Redis node t2.micro", "lambda-only", "s3-only"))


def test_json_has_the_same_numbers_as_run_and_bill(capsys: pytest.CaptureFixture[str], trace: str) -> None:
    found = json.loads(printed(capsys, "report", trace, *CACHE_ONLY, "--json"))

    run = json.loads(printed(capsys, "run", trace, *CACHE_ONLY[:-1], "--json"))
    assert main(["research", "optimum", trace, "--json"]) == 0
    optimum = json.loads(capsys.readouterr().out)
    assert {name: found[name] for name in ("n", "n_s3", "lambda_ms", "redis_s")} == {
        name: run[name] for name in ("n", "n_s3", "lambda_ms", "redis_s")
    }
    assert found["usd"] == pytest.approx(run["cost_usd"], rel=1e-12)
    assert found["optimum_usd"] == pytest.approx(optimum["cost_usd"], rel=1e-12)
    assert found["optimum_usd"] <= found["cache_usd"]
    assert sorted(found["latency"]) == ["mean_ms", "p50_ms", "p90_ms", "p95_ms", "p99_ms"]
    assert [len(front) for front in found["fronts"].values()] == [20] + [25] * len(WORTH_POLICIES)


def test_without_options_the_template_is_replayed_and_named(capsys: pytest.CaptureFixture[str], trace: str) -> None:
    usual, told = (
        json.loads(printed(capsys, "report", trace, *more, "--json")) for more in ([], ["--policy", TEMPLATE])
    )
    thesis = json.loads(printed(capsys, "report", trace, "--rate", "9", "--json"))

    assert (usual["policy"], usual["is_template_default"]) == (TEMPLATE, True)
    assert (told["policy"], told["is_template_default"]) == (TEMPLATE, False)
    assert (thesis["policy"], thesis["is_template_default"]) == ("thesis", False)
    assert usual["n_redis"] == told["n_redis"]
    text = " ".join(printed(capsys, "report", trace).split())
    assert usual["replayed"] in text
    assert "relay none (the template's default). burstcache advise may choose another setup" in text


@pytest.mark.parametrize(
    ("options", "is_default", "setup"),
    [
        ([], True, "1 fargate-spot:2GB, relay none (the template's default)"),
        (["--object-bytes", "1", "--readers", "internet"], True, "1 fargate-spot:2GB, relay none (the template's"),
        (["--instance-type", "t4g.small"], False, "1 t4g.small, relay none (by the options)"),
        (["--nodes", "2"], False, "2 fargate-spot:2GB, relay none (by the options)"),
        (["--front-door", "alb"], False, "1 fargate-spot:2GB, relay none (by the options)"),
        (["--rate", "9"], False, "1 t4g.micro, relay nlb (by the options)"),
    ],
)
def test_only_a_setup_of_the_template_is_called_its_default(
    capsys: pytest.CaptureFixture[str], trace: str, options: list[str], is_default: bool, setup: str
) -> None:
    found = json.loads(printed(capsys, "report", trace, *options, "--json"))

    assert found["is_template_default"] is is_default
    assert setup in found["replayed"]


def test_the_templates_default_is_what_the_template_says() -> None:
    declared = yaml.load((ROOT / "template.yaml").read_text(), Loader=yaml.BaseLoader)["Parameters"]

    assert declared["Policy"]["Default"] == TEMPLATE
    assert Fraction(declared["HitValueUsdPerMillion"]["Default"]) == TEMPLATE_USD_PER_HIT * 10**6
    assert declared["RedisInstanceType"]["Default"] == Setup().instance_type
    node = f"{declared['RedisOn']['Default']}:{declared['RedisTaskMemoryGb']['Default']}GB"
    assert node == TEMPLATE_NODE
    assert (declared["RedisNodeCount"]["Default"], declared["Relay"]["Default"]) == (str(Setup().nodes), TEMPLATE_RELAY)
    assert declared["OriginEvents"]["Default"] == Setup().origin_events


def test_other_prices_have_no_optimum(capsys: pytest.CaptureFixture[str], trace: str) -> None:
    found = json.loads(printed(capsys, "report", trace, "--json"))

    assert found["optimum_usd"] is None
    assert found["offline_usd"] > 0


@pytest.mark.slow
def test_the_page_stands_alone(page: str) -> None:
    found = outline(page)

    assert page.count("<svg ") == 2
    assert not found.tags & {"script", "link", "img", "iframe", "object"}
    assert all(target.startswith(("#", "data:")) for target in found.loads)
    assert not re.findall(r"url\((?!#)|@import", page)
    assert len(found.ids) == len(set(found.ids))
    pointed_at = re.findall(r"""(?:url\(|xlink:href=")#([^)"]+)""", page)
    assert pointed_at
    assert set(pointed_at) <= set(found.ids)


@pytest.mark.slow
def test_the_pages_pictures_take_its_colours(page: str) -> None:
    pictures = page.split("</style>", 1)[1]
    assert "currentColor" in pictures
    assert "#1f2328" not in pictures
    assert "#ffffff" not in pictures


def test_what_scrolls_is_reached_by_keyboard_and_has_a_name(page: str) -> None:
    assert page.count("<table>") == len(
        re.findall(r'<div class="table" tabindex="0" role="region" aria-label="[^"]+">', page)
    )
    assert page.count('<figure tabindex="0">') == len(re.findall(r'<svg role="img" aria-label="[^"]{60,}"', page)) == 2
    assert page.count("<table>") == page.count("<caption>") > 4
    assert page.count("<th ") == page.count('<th scope="col"') + page.count('<th scope="row"')
    assert page.count("<tr") == page.count('<th scope="row"') + page.count("<thead>")


def test_a_note_that_ends_a_row_is_wide_enough_to_be_read_on_a_small_screen() -> None:
    assert "td:last-child:not(.number) { min-width: 14rem; }" in html.page("title", [])


def test_paper_is_light_and_cuts_nothing_off() -> None:
    style = html.page("title", [])
    paper = style.split("@media print {")[1]

    assert style.index("@media print") > style.index("prefers-color-scheme: dark")  # the later one holds
    assert "--page: #ffffff" in paper
    assert "overflow: visible" in paper


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_everything_stands_out_from_the_ground_in_light_and_in_dark() -> None:
    style = html.page("title", [])
    light, dark = (dict(re.findall(r"--(\w+): (#\w{6})", part)) for part in style.split("@media")[:2])

    for mode in (light, dark):
        assert min(contrast(mode[name], mode["page"]) for name in ("ink", "faint")) >= 4.5
        assert min(contrast(colour, mode["page"]) for colour in (*TIER_COLOURS.values(), *LINE_COLOURS)) >= 3


@pytest.mark.slow
def test_the_same_call_writes_the_same_bytes(capsys: pytest.CaptureFixture[str], trace: str, tmp_path: Path) -> None:
    for name in ("a", "b"):
        options = ["--out", str(tmp_path / f"{name}.html"), "--figures", str(tmp_path / name), "--csv"]
        printed(capsys, "report", trace, *CACHE_ONLY, *options, str(tmp_path / f"{name}.csv"))

    names = ["pareto.png", "pareto.svg", "run.png", "run.svg"]
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == names
    pairs = [(tmp_path / "a" / name, tmp_path / "b" / name) for name in names]
    pairs += [(tmp_path / f"a.{kind}", tmp_path / f"b.{kind}") for kind in ("html", "csv")]
    assert all(one.read_bytes() == other.read_bytes() for one, other in pairs)


def test_csv_has_a_line_per_request(capsys: pytest.CaptureFixture[str], trace: str, tmp_path: Path) -> None:
    path = tmp_path / "requests.csv"

    found = json.loads(printed(capsys, "report", trace, *CACHE_ONLY, "--json", "--csv", str(path)))

    header, *rows = path.read_text().splitlines()
    assert header == "arrival_s,tier"
    assert len(rows) == found["n"]
    assert sum(row.endswith(",redis") for row in rows) == found["n_redis"]
    assert rows[0] == "0.000000,s3"


@pytest.mark.parametrize(
    ("option", "first"), [("--csv", "arrival_s,tier"), pytest.param("--out", "<!doctype html>", marks=pytest.mark.slow)]
)
def test_a_dash_is_standard_output_instead_of_the_tables(
    capsys: pytest.CaptureFixture[str], trace: str, tmp_path: Path, option: str, first: str
) -> None:
    path = tmp_path / "written"
    printed(capsys, "report", trace, *CACHE_ONLY, option, str(path))

    out = printed(capsys, "report", trace, *CACHE_ONLY, option, "-")

    assert out.splitlines()[0] == first
    assert out == path.read_text()


def test_target_that_cannot_be_written_is_refused_before_the_log_is_read(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["sim", "report", str(tmp_path / "missing.log"), "--csv", str(tmp_path / "absent" / "a.csv")]) == 2

    assert "a.csv: expected a file that can be written" in capsys.readouterr().err


def test_target_without_permission_is_refused_before_the_log_is_read(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)

    for option, what in (("--out", "file"), ("--csv", "file"), ("--figures", "folder")):
        assert main(["sim", "report", str(tmp_path / "missing.log"), option, str(tmp_path / "new")]) == 2
        assert f"expected a {what} that can be written (Permission denied)" in capsys.readouterr().err


@pytest.mark.slow
def test_many_keys_have_their_key_in_csv_and_no_plans(
    capsys: pytest.CaptureFixture[str], log: str, tmp_path: Path
) -> None:
    path, page = tmp_path / "requests.csv", tmp_path / "report.html"

    found = json.loads(printed(capsys, "report", log, "--json", "--csv", str(path), "--out", str(page)))

    assert path.read_text().splitlines()[1] == '0.500000,"k0,x",s3'
    assert found["offline_usd"] is None
    assert "With many objects" in page.read_text()


def test_latencies_come_from_the_options(capsys: pytest.CaptureFixture[str], trace: str) -> None:
    options = ["--s3-ms", "10", "--lambda-ms", "10", "--redis-ms", "10", "--network-ms", "5", "--object-bytes", "1"]

    found = json.loads(printed(capsys, "report", trace, *CACHE_ONLY, "--json", *options))

    assert found["latency"]["mean_ms"] == pytest.approx(15.0)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--out", "{}/absent/report.html"], "--out .*report.html: expected a file that can be written .*no folder"),
        (["--out", "{}"], "--out .*: expected a file that can be written .it is a folder"),
        pytest.param(
            ["--out", "/dev/full"],
            "--out /dev/full: expected a file that can be written .No space left",
            marks=pytest.mark.slow,
        ),
        (["--out", "-", "--csv", "-"], "--out -, --csv -, --json: expected one of them"),
        (["--csv", "-", "--json"], "--out -, --csv -, --json: expected one of them"),
        (["--csv", "{}/absent/requests.csv"], "--csv .*requests.csv: expected a file that can be written"),
        (["--figures", "{}/burst.csv"], "--figures .*burst.csv: expected a folder that can be written"),
        (["--s3-ms", "fast"], "--s3-ms 'fast': expected a number of milliseconds of at least 0"),
        (["--redis-ms=-1"], "--redis-ms '-1': expected a number of milliseconds of at least 0"),
        (["--miss-penalty-usd=-1"], "--miss-penalty-usd '-1': expected an amount of at least 0"),
        (["--rate", "0"], "rate 0: expected a number of requests per minute above 0"),
    ],
)
def test_a_bad_call_costs_one_line(
    capsys: pytest.CaptureFixture[str], trace: str, options: list[str], complaint: str
) -> None:
    status = main(["sim", "report", trace, *CACHE_ONLY, *(option.format(Path(trace).parent) for option in options)])

    out = capsys.readouterr().err
    assert status == 2
    assert re.fullmatch(f"burstcache( sim report)?: {complaint}.*\n", out)


def test_an_empty_trace_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "empty.csv"
    path.write_text("t,key,op,status\n0,a,GET,404\n")

    assert main(["sim", "report", str(path)]) == 2
    assert "no request in 1 rows" in capsys.readouterr().err


def test_text_on_a_page_is_no_markup() -> None:
    parts = (html.text("<c>"), html.table(["<d>"], [["<e>"]], caption="<g>"), html.folded("<i>"))

    page = html.page("<a>", [html.Section("<b>", parts)], lead="<f>")

    found = outline(page)
    assert not found.tags & {"a", "b", "c", "d", "e", "f", "g", "i"}
    assert page.count("&lt;") == 10


def test_numbers_stand_right_in_tables() -> None:
    assert table_text(("name", "n"), [("a", "1"), ("bcd", "23")], right=(1,)) == "name   n\na      1\nbcd   23"
    assert '<td class="number">1</td>' in html.table(("name", "n"), [("a", "1")], right=(1,), caption="")


def test_progress_is_silent_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(progress(range(3), total=3, text="work")) == [0, 1, 2]
    assert capsys.readouterr().err == ""


def test_lines_are_counted_at_a_terminal_and_the_count_goes_away_at_the_end(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)

    with line_counter() as on_lines:
        assert on_lines is not None
        for _ in range(5):
            on_lines(50_000)

    assert capsys.readouterr().err == "\r100,000 lines read\r200,000 lines read\r\033[K"


def test_progress_is_shown_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(progress(iter("abc"), total=3, text="work", is_shown=True)) == ["a", "b", "c"]

    out = capsys.readouterr()
    assert "work" in out.err
    assert out.out == ""


@pytest.mark.slow
def test_the_command_imports_nothing_heavy_before_it_works() -> None:
    code = (
        "import sys, burstcache_sim.commands.report, burstcache_sim.progress;"
        " sys.exit(bool({'numpy', 'numba', 'matplotlib', 'tqdm'} & set(sys.modules)))"
    )

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
