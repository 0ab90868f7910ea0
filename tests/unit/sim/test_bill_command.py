"""`burstcache sim bill` and `compare`: what they print, and how they refuse."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from burstcache_cli.cli import main


@pytest.fixture
def trace(tmp_path: Path) -> str:
    path = tmp_path / "burst.csv"
    path.write_text("arrival_s\n" + "".join(f"{at_s}.000000\n" for at_s in range(0, 600, 4)))
    return str(path)


def printed(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    assert main(["sim", *argv]) == 0
    return capsys.readouterr().out


def test_a_bill_names_every_item_and_its_sum(capsys: pytest.CaptureFixture[str], trace: str) -> None:
    found = json.loads(printed(capsys, "bill", trace, "--json"))

    assert found["usd"] == pytest.approx(sum(line["usd"] for line in found["lines"]))
    assert {"NLB of the relay", "Step Functions", "INIT of all functions"} <= {line["item"] for line in found["lines"]}
    assert all(line["source"] for line in found["lines"])


def test_the_table_of_a_bill_says_what_was_served_and_has_the_sum(
    capsys: pytest.CaptureFixture[str], trace: str
) -> None:
    lines = printed(capsys, "bill", trace).splitlines()

    assert lines[0].startswith("150 requests, ")
    assert lines[-1].startswith("sum ")


def test_only_the_cache_costs_the_same_as_the_simulated_run(capsys: pytest.CaptureFixture[str], trace: str) -> None:
    options = ["--prices", "thesis-2022", "--json"]

    billed = json.loads(printed(capsys, "bill", trace, "--only-cache", *options))
    run = json.loads(printed(capsys, "run", trace, *options))

    assert billed["usd"] == pytest.approx(run["cost_usd"], rel=1e-12)
    assert billed["in_memory_pct"] == run["in_memory_pct"]


def test_a_longer_standing_stack_costs_more(capsys: pytest.CaptureFixture[str], trace: str) -> None:
    short, day = (
        json.loads(printed(capsys, "bill", trace, "--json", *period)) for period in ([], ["--period-hours", "24"])
    )

    assert day["fixed_usd"] == pytest.approx(19.246 * 24 / 730, rel=0.001)
    assert day["usd"] - day["fixed_usd"] == pytest.approx(short["usd"] - short["fixed_usd"])


def test_a_comparison_shows_the_competitors_that_were_asked_for(capsys: pytest.CaptureFixture[str], trace: str) -> None:
    options = ["--against", "s3-only", "--against", "ec2:r7g.large", "--policy", "breakeven", "--hit-value-usd", "1e-4"]

    found = json.loads(printed(capsys, "compare", trace, "--json", *options))

    assert [system["name"] for system in found] == ["burstcache", "lambda-only", "s3-only", "ec2:r7g.large"]
    assert found[0]["cheaper_at"] is None
    assert found[-1]["cheaper_at"]["in_hours"] == 1


def test_the_table_of_a_comparison_has_a_line_for_each(capsys: pytest.CaptureFixture[str], trace: str) -> None:
    lines = printed(capsys, "compare", trace, "--prices", "today-eu-central-1").splitlines()

    assert lines[0].split()[0] == "system"
    assert lines[1].split()[0] == "burstcache"
    assert any(line.startswith("perfect-automation:t4g.micro") for line in lines)


def test_prices_that_are_unverified_are_reported(capsys: pytest.CaptureFixture[str], trace: str) -> None:
    frankfurt = " ".join(printed(capsys, "bill", trace, "--prices", "today-eu-central-1").split())
    thesis = printed(capsys, "bill", trace, "--prices", "thesis-2022", "--only-cache")

    assert frankfurt.endswith(
        "from memory, not checked: NLB, capacity units; relay, processor; relay, memory; queue of S3's events, polls"
    )
    assert "memory, not" not in thesis


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--prices", "2023"], "--prices '2023': expected one of"),
        (["--instance-type", "x9.huge"], "no price for ec2:x9.huge; it has t2.micro"),
        (["--prices", "thesis-2022"], "no price for event"),
        (["--policy", "breakeven"], "--hit-value-usd is missing"),
        (["--policy", "breakeven", "--hit-value-usd", "-1"], "--hit-value-usd '-1': expected an amount above 0"),
        (["--period-hours", "long"], "--period-hours 'long': expected a number above 0"),
        (["--nodes", "0"], "--nodes '0': expected a whole number of at least 1"),
    ],
)
def test_a_wrong_call_ends_with_two_and_one_line(
    capsys: pytest.CaptureFixture[str], trace: str, options: list[str], message: str
) -> None:
    assert main(["sim", "bill", trace, *options]) == 2

    (line,) = capsys.readouterr().err.splitlines()
    assert message in line


def test_zones_and_an_address_of_the_relay_are_items_if_asked_for(
    capsys: pytest.CaptureFixture[str], trace: str
) -> None:
    found = json.loads(printed(capsys, "bill", trace, "--far-readers", "1", "--relay-ipv4", "--json"))

    assert {"transfer between zones", "public IPv4 addresses"} <= {line["item"] for line in found["lines"]}


def test_a_period_shorter_than_the_log_is_noted(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("t,key,size\n0,a,9\n86400,a,9\n")

    for hours in ("23", "24"):
        assert main(["sim", "bill", str(path), "--period-hours", hours]) == 0

    noted = "note: the log lasts 24 hours, so it is repeated back to back (--period-hours)\n"
    assert capsys.readouterr().err.count(noted) == 1
