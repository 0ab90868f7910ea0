"""A replay against the local run is joined with what the stack took, and can be evaluated again without the stack."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from burstcache_cli.cli import main
from burstcache_local import state_file
from burstcache_local.cloud import LocalCloud, LocalOptions
from burstcache_local.command import describe
from support.policies import THESIS

_OVERRIDES = "redis_check_s=2,redis_utilization_s=2,keep_running_s=8"  # it is off soon after the last request
_REQUESTS = 40


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[LocalCloud]:
    parameters = THESIS | {"PolicyOverrides": _OVERRIDES}
    options = LocalOptions(boot_s=0.2, stop_s=0.2, run_dir=tmp_path / "logs", parameters=parameters)
    with LocalCloud(options) as running:
        running.client("s3").put_object(Bucket=running.bucket_name, Key="a", Body=b"hello")
        state_file.write(describe(running), tmp_path)
        yield running


def evaluated(results: str, capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["research", "evaluate", results, *options, "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.weekly
def test_a_burst_is_held_against_the_simulator(
    cloud: LocalCloud, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    burst = tmp_path / "burst.csv"
    burst.write_text("t,key\n" + "".join(f"{number / 4},a\n" for number in range(_REQUESTS)))
    results, where = str(tmp_path / "results"), ("--state-dir", str(tmp_path))
    assert main(["replay", str(burst), "--out", results, *where]) == 0

    found = evaluated(results, capsys, *where)

    assert found["failed"] == 0
    assert found["same_tier"] + sum(found["causes"].values()) == found["requests"] == _REQUESTS
    assert sum(each["measured"] for each in found["tiers"]) == _REQUESTS
    lives = cloud.client("stepfunctions").list_executions(stateMachineArn=cloud.outputs["KeyLifecycleArn"])
    quantities = {each["text"]: each["measured"] for each in found["quantities"]}
    assert quantities["lives in a cache function"] + quantities["promotions with a lease"] >= len(lives["executions"])
    usd = {item["text"]: item["measured_usd"] for item in found["items"]}
    assert usd["proxy, duration"] > 0
    assert usd["INIT of all functions"] > 0
    state_file.remove(tmp_path)
    assert evaluated(results, capsys, *where) == found
