"""Commands with equal options run the same policy and see the same latencies."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from burstcache_cli.cli import main


@pytest.fixture
def trace(tmp_path: Path) -> str:
    """Bursts of requests, at random."""
    random = np.random.default_rng(4)
    gaps_s = np.where(np.arange(2_000) % 400 < 350, random.exponential(2.0, 2_000), random.exponential(60.0, 2_000))
    path = tmp_path / "bursts.csv"
    path.write_text("arrival_s\n" + "".join(f"{at_s:.6f}\n" for at_s in gaps_s.cumsum()))
    return str(path)


def found(capsys: pytest.CaptureFixture[str], *argv: str) -> Any:
    assert main([*argv, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("options", [[], ["--prices", "thesis-2022", "--only-cache"], ["--cache-memory-mb", "512"]])
def test_run_and_bill_with_equal_options_run_the_same_policy(
    capsys: pytest.CaptureFixture[str], trace: str, options: list[str]
) -> None:
    policy = ["--policy", "breakeven", "--hit-value-usd", "1e-4"]
    of_run = [option for option in options if option != "--only-cache"]

    run = found(capsys, "sim", "run", trace, *policy, *of_run)
    billed = found(capsys, "sim", "bill", trace, *policy, *options)

    assert run["in_memory_pct"] == billed["in_memory_pct"]
    (invocations,) = (line for line in billed["lines"] if line["item"] == "cache function, invocations")
    assert invocations["quantity"] == run["invocations"] > 1


@pytest.mark.slow
def test_report_and_advise_have_one_clock_and_name_s3_next_to_ours(
    capsys: pytest.CaptureFixture[str], trace: str
) -> None:
    near, far = (
        found(capsys, "sim", "report", trace, "--rate", "9", "--readers", where) for where in ("aws", "internet")
    )
    options = ("--readers", "internet", "--policy", "thesis", "--candidates", "20", "--object-bytes", "10000")
    advised = found(capsys, "advise", trace, *options)

    assert far["latency"]["mean_ms"] == pytest.approx(near["latency"]["mean_ms"] + 10)
    assert near["latency_without"]["mean_ms"] == far["latency_without"]["mean_ms"] == pytest.approx(25 + 10_000 / 270e3)
    ours = advised["burstcache"]
    s3_ms, lambda_ms, redis_ms = (
        first_ms + 10_000 / per_ms for first_ms, per_ms in ((25, 270e3), (1.5, 78e3), (1, 625e3))
    )
    tiers_ms = s3_ms * ours["n_s3"] + lambda_ms * ours["n_lambda"] + redis_ms * ours["n_redis"]
    assert advised["latency_ms"]["mean_ms"] == pytest.approx(10 + tiers_ms / advised["n"])
