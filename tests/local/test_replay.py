"""A log of another system, replayed against the local run: over HTTP and through the client."""

from __future__ import annotations

import csv
import json
import os
from collections import Counter
from pathlib import Path

import pytest

from burstcache_cli.cli import main
from burstcache_local import state_file
from burstcache_local.cloud import LocalCloud
from burstcache_local.command import describe


@pytest.mark.parametrize("way", [[], ["--client"]], ids=["front door", "client"])
def test_every_request_of_a_log_is_answered_by_a_tier(cloud: LocalCloud, tmp_path: Path, way: list[str]) -> None:
    log = tmp_path / "log.csv"
    log.write_text(
        "t,key,size\n" + "".join(f"{number / 10},object {number % 3},{number % 3}\n" for number in range(12))
    )
    state_file.write(describe(cloud), tmp_path)
    call = ["replay", str(log), "--state-dir", str(tmp_path), "--out", str(tmp_path / "out"), "--speed", "10", *way]

    assert main([*call, "--prefix", f"{os.getpid()}/{way}/", "--create-objects", "20"]) == 0

    with (tmp_path / "out" / "requests.csv").open() as lines:
        rows = list(csv.DictReader(lines))
    assert {row["status"] for row in rows} == {"200"}
    assert Counter(row["body_bytes"] for row in rows) == {"20": 4, "1": 4, "2": 4}
    assert {row["tier"] for row in rows} <= {"s3", "lambda", "redis", "memory"}
    assert json.loads((tmp_path / "out" / "replay.json").read_text())["requests"] == 12
