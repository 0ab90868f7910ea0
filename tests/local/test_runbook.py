"""The runbook's commands succeed on a stack that works."""

from __future__ import annotations

import re
from collections.abc import Iterator
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
        until(lambda: main(["redis", "start", "--state-dir", str(folder)]) == 0)
        until(lambda: main(["redis", "ping", "--state-dir", str(folder)]) == 0)
        yield folder


def test_the_runbook_has_commands() -> None:
    assert {"doctor", "pause", "resume", "keys", "purge KEY", "explain KEY"} <= _COMMANDS.keys()


def test_every_command_of_the_runbook_succeeds_in_its_order(
    state_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # A pause and its end come first in the runbook: afterwards the node boots again when it is told to.
    for command in (each for each in _COMMANDS if not each.startswith(_ELSEWHERE)):
        words = [_NAMES.get(word, word) for word in command.split()]
        arguments = [*words, "--state-dir", str(state_dir)]
        if command == "redis ping":
            until(lambda arguments=arguments: main(arguments) == 0)
        assert main(arguments) == 0, (command, capsys.readouterr().err)
