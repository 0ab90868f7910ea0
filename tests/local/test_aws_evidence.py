"""A run of the evidence in a local cloud: killed in the middle, resumed, and deleted, with nothing left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from burstcache_cli.cli import main
from burstcache_evidence.arguments import KINDS
from burstcache_evidence.journal import Journal
from burstcache_local import state_file
from support.project import PYTHONPATH, ROOT
from support.waiting import LIMIT_S, until

pytestmark = pytest.mark.slow
_KIND = "default"


def words(folder: Path, *options: str, kinds: Sequence[str] = (_KIND,)) -> list[str]:
    stacks = ("--stacks", *kinds, "--limit-s", str(LIMIT_S))
    return ["research", "aws-evidence", "--local", "--folder", str(folder), *stacks, *options]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    if (tmp_path / "state.json").exists():
        main(words(tmp_path, "--delete"))


def steps(folder: Path) -> dict[str, Any]:
    journal = Journal.read(folder)
    return {} if journal is None else journal.content["steps"]


def killed_after(step: str, folder: Path) -> None:
    """Begin a run, and kill it as soon as a step has ended."""
    environment = os.environ | {"PYTHONPATH": PYTHONPATH}
    command = [sys.executable, "-m", "burstcache_cli.cli", *words(folder, "--yes")]
    with (folder / "out").open("wb") as out:
        run = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=out, stderr=out)
        try:
            until(lambda: step in steps(folder) or run.poll() is not None)
        finally:
            run.kill()
        assert run.wait() == -signal.SIGKILL, (folder / "out").read_text()


def clouds(folder: Path) -> list[Path]:
    """Return the folders of local clouds that run."""
    return [path for path in (folder / "local").glob("*") if state_file.read(path)]


@pytest.mark.weekly
def test_a_run_that_was_killed_goes_on_and_leaves_evidence_and_nothing_else(folder: Path) -> None:
    killed_after(f"{_KIND}/read", folder)
    before = steps(folder)
    assert len(clouds(folder)) == 1  # a stack survives the runner, as one in an account does

    assert main(words(folder)) == 0  # asks nothing, since the run was confirmed

    after = steps(folder)
    assert {name: after[name] for name in before} == before
    assert [name for name, step in after.items() if "problem" in step] == []
    assert clouds(folder) == []
    evidence = json.loads((folder / "evidence.json").read_text())
    assert {each["verdict"] for each in evidence["checks"]} == {"only AWS"}  # nothing here is AWS
    assert evidence["measured"]["boot_s"]["fargate-spot"] > 0
    assert {"s3_ms", "redis_ms", "s3_by_size_ms", "announced_s", "cold_start_ms"} <= evidence["measured"].keys()
    assert evidence["measured"]["origin_batch_ms"]["128"] > 0
    assert after[f"{_KIND}/burst"]["found"]["is_monotonic"]
    assert after[f"{_KIND}/interrupt"]["found"]["failed"] == 0
    page = (folder / "evidence.md").read_text()
    assert "After the run, nothing was left." in page
    assert "`ipv6-from-the-vpc`" in page
    assert "123456789012" not in page + json.dumps(evidence)


@pytest.mark.weekly
def test_every_other_kind_of_stack_takes_every_step(folder: Path) -> None:
    kinds = [kind for kind in KINDS if kind != _KIND]

    assert main(words(folder, "--yes", kinds=kinds)) == 0

    after = steps(folder)
    assert [(name, step["problem"]) for name, step in after.items() if "problem" in step] == []
    for kind in kinds:
        assert after[f"{kind}/burst"]["found"]["tiers_missing"] == ""
        assert after[f"{kind}/gateway"]["found"]["here"] == [True, True]
        assert after[f"{kind}/bulk"]["found"]["batch"]["most"] > 1
        assert after[f"{kind}/transitions"]["found"]["entered"] > 0
    assert after["direct/pool"]["found"]["tiers"] == ["pool", "s3"]
    for kind in ("nlb", "direct"):
        assert after[f"{kind}/state"]["found"]["is_right"]
        assert after[f"{kind}/state"]["found"]["snapshots"] == 1
    assert clouds(folder) == []


def test_a_run_that_was_killed_is_only_deleted_if_that_is_asked_for(folder: Path) -> None:
    killed_after(f"{_KIND}/deploy", folder)

    assert main(words(folder, "--delete")) == 0

    assert clouds(folder) == []
    assert f"{_KIND}/burst" not in steps(folder)
    assert steps(folder)["proof"]["found"]["is_clean"]


def test_nothing_is_deployed_without_a_yes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("builtins.input", lambda question: "n")

    assert main(words(folder)) == 1

    assert steps(folder) == {}
    assert not (folder / "local").exists()
