"""The sample log of `docs/use/advise.md`: the documented command prints what stands there."""

from __future__ import annotations

import re
import shlex

import pytest

from burstcache_cli.cli import main
from support.project import ROOT

PAGE = (ROOT / "docs/use/advise.md").read_text()
LOG = ROOT / "examples/logs/bursts.csv.gz"


def documented() -> tuple[str, str]:
    """Return the first command of the page, and what it is to print."""
    command, printed, *_ = re.findall(r"```\n(.*?)\n```\n", PAGE, re.DOTALL)
    return command, printed


@pytest.mark.slow
def test_the_documented_command_prints_what_the_page_shows(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command, printed = documented()
    monkeypatch.chdir(ROOT)

    assert main(shlex.split(command)[1:]) == 0

    found = capsys.readouterr().out
    assert found.rstrip() == printed, "if the answer is right, copy it into docs/use/advise.md"


def test_the_page_begins_with_a_log_of_the_project_on_which_the_stack_is_deployed() -> None:
    command, printed = documented()

    assert str(LOG.relative_to(ROOT)) in command
    assert LOG.stat().st_size < 60_000
    assert printed.startswith("DEPLOY the stack with nodes: ")
    assert "make deploy" in printed


def test_no_answer_on_the_page_has_two_verdicts() -> None:
    for printed in re.findall(r"```\n(.*?)\n```\n", PAGE, re.DOTALL):
        verdicts = re.findall(r"DEPLOY |USE THE LIBRARY|S3 ALONE|^BUY |TOO SHORT", printed, re.MULTILINE)
        assert len(verdicts) <= 1, printed
