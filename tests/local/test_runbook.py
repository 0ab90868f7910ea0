"""The runbook's commands succeed on a stack that works."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from burstcache_cli.cli import main
from burstcache_local import state_file
from burstcache_local.cloud import LocalCloud, LocalOptions
from burstcache_local.command import describe
from support.project import ROOT
from support.waiting import until

_RUNBOOK = (ROOT / "docs/operate/runbook.md").read_text()
_ELSEWHERE = ("dashboard", "delete")  # serves until Ctrl-C; needs CloudFormation
_COMMANDS = dict.fromkeys(" ".join(command.split()) for command in re.findall(r"`burstcache ([^`]+)`", _RUNBOOK))
_NAMES = {"KEY": "hello.txt", "NODE": "node-1", "logs/": "hello"}


@pytest.fixture(scope="module")
def state_dir(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of a local run with an object and a node that runs."""
    folder = tmp_path_factory.mktemp("state")
    with LocalCloud(LocalOptions(boot_s=0.2, stop_s=0.2, run_dir=folder / "run")) as cloud:
        state_file.write(describe(cloud), folder)
        cloud.client("s3").put_object(Bucket=cloud.bucket_name, Key=_NAMES["KEY"], Body=b"text")
        assert succeeds("redis start", folder)
        until(partial(succeeds, "redis ping", folder))
        yield folder


def succeeds(command: str, state_dir: Path) -> bool:
    """Run a command of the runbook with the names of this stack."""
    return main([*(_NAMES.get(word, word) for word in command.split()), "--state-dir", str(state_dir)]) == 0


def test_the_runbook_has_commands() -> None:
    assert {"doctor", "pause", "resume", "keys", "purge KEY", "explain KEY"} <= _COMMANDS.keys()


def test_every_command_of_the_runbook_succeeds_in_its_order(
    state_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in (each for each in _COMMANDS if not each.startswith(_ELSEWHERE)):
        if command == "redis ping":  # the pause has stopped the node
            until(partial(succeeds, "redis start", state_dir))
            until(partial(succeeds, command, state_dir))
        assert succeeds(command, state_dir), (command, capsys.readouterr().err)
