"""A node whose Redis hangs: commands name the silence and a remedy that ends it."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from burstcache_cli.cli import main
from burstcache_local import state_file
from burstcache_local.cloud import LocalCloud, LocalOptions
from burstcache_local.command import describe
from support.processes import REDIS, signal_named
from support.waiting import until


@pytest.fixture
def state_dir(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Path]:
    """The folder of a local run with an object and a node that runs."""
    with LocalCloud(LocalOptions(boot_s=0.2, stop_s=0.2, run_dir=tmp_path / "run")) as cloud:
        state_file.write(describe(cloud), tmp_path)
        cloud.client("s3").put_object(Bucket=cloud.bucket_name, Key="hello.txt", Body=b"text")
        assert run("redis start", tmp_path) == 0
        until(partial(is_phase, "running", tmp_path, capsys))
        yield tmp_path


def run(command: str, state_dir: Path) -> int:
    return int(main([*command.split(), "--state-dir", str(state_dir)]))


def is_phase(phase: str, state_dir: Path, capsys: pytest.CaptureFixture[str]) -> bool:
    capsys.readouterr()
    run("redis status --json", state_dir)
    return bool(json.loads(capsys.readouterr().out)[0]["phase"] == phase)


def test_a_redis_that_hangs_is_named_with_the_stop_that_ends_it(
    state_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run("explain hello.txt", state_dir)
    answering = capsys.readouterr().out
    assert signal_named(REDIS, signal.SIGSTOP)

    run("explain hello.txt", state_dir)
    silent = " ".join(capsys.readouterr().out.split())
    assert run("doctor", state_dir) == 1
    failed = " ".join(capsys.readouterr().err.split())

    assert "reads fall back" not in answering
    assert "served by Redis on node-1" in silent
    assert "reads fall back: Redis does not answer (node-1 at 127." in silent
    assert "the node does not answer: `burstcache redis stop`" in failed
    assert "CredentialsIssue" not in failed
    assert run("redis stop", state_dir) == 0
    until(partial(is_phase, "stopped", state_dir, capsys))
