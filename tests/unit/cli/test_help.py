"""The `burstcache` command itself: help, versions, what it imports, a reader that has gone."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib import import_module

import pytest

from burstcache import __version__
from burstcache_cli.cli import main
from burstcache_cli.registry import COMMANDS, FIRST, GROUPS, TOPICS, Command, children
from support.project import PYTHONPATH


def run_python(code: str) -> str:
    """Run code in a new process and return its output."""
    environ = os.environ | {"PYTHONPATH": PYTHONPATH}
    return subprocess.run([sys.executable, "-c", code], env=environ, check=True, capture_output=True, text=True).stdout


def test_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["--version"])

    assert capsys.readouterr().out == f"burstcache {__version__}\n"


def printed_help(*words: str, capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit, match="0"):
        main([*words, "--help"])
    return capsys.readouterr().out


def listed(help_: str) -> dict[str, str]:
    """Return the commands in a help text, with the help for each."""
    return dict(re.findall(r"^    ([a-z-]+) +(\S.*)$", help_, re.M))


@pytest.mark.parametrize("group", [group for group in GROUPS if group])
def test_help_of_a_group_lists_its_commands_with_their_help(group: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert listed(printed_help(group, capsys=capsys)) == children(group) != {}


def test_help_is_a_screen_of_the_first_commands_by_topic(capsys: pytest.CaptureFixture[str]) -> None:
    printed = printed_help(capsys=capsys)

    lines = printed.splitlines()
    assert (len(lines) <= 24, max(map(len, lines)) <= 80) == (True, True)
    assert listed(printed) == {word: help_ for word, help_ in children("").items() if word in FIRST}
    assert re.findall(r"^(\w+):$", printed, re.M) == [topic.capitalize() for topic in TOPICS]


@pytest.mark.parametrize("topic", [topic for topic in TOPICS if topic not in GROUPS])
def test_help_of_a_topic_lists_all_of_its_commands(topic: str, capsys: pytest.CaptureFixture[str]) -> None:
    printed = printed_help(topic, capsys=capsys)

    assert listed(printed) == {word: children("")[word] for word in TOPICS[topic]}
    assert max(map(len, printed.splitlines())) <= 80
    assert main([topic]) == 0
    assert capsys.readouterr().out == printed


def test_a_command_behind_its_topic_is_refused_with_what_to_type(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["operate", "purge", "a b"]) == 2

    assert "'purge' is a command itself: burstcache purge 'a b'" in capsys.readouterr().err


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.words)
def test_every_command_has_options_and_help_of_its_own(command: Command, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main([*command.words.split(), "--help"])

    printed = capsys.readouterr().out
    assert printed.startswith(f"usage: burstcache {command.words} ")
    assert f"\n{command.help[0].upper()}{command.help[1:]}.\n" in printed


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.words)
def test_work_of_every_command_exists(command: Command) -> None:
    module, _, name = command.work.partition(":")

    assert callable(getattr(import_module(module), name))


@pytest.mark.parametrize("help_", [*GROUPS.values(), *(command.help for command in COMMANDS)])
def test_help_is_a_phrase_that_a_full_stop_turns_into_a_sentence(help_: str) -> None:
    assert help_[0].islower()
    assert not help_.endswith(".")


def test_every_first_word_is_in_one_topic_of_the_help() -> None:
    assert sorted(word for words in TOPICS.values() for word in words) == sorted(children(""))
    assert children("").keys() >= FIRST


def test_every_group_has_commands_and_every_command_is_in_a_group() -> None:
    heads = {command.words.rpartition(" ")[0] for command in COMMANDS}

    assert heads == set(GROUPS)


@pytest.mark.slow
def test_help_and_wrong_calls_of_every_command_import_nothing_heavy() -> None:
    calls = [
        [*words.split(), *rest]
        for words in (*GROUPS, *(command.words for command in COMMANDS))
        for rest in (["--help"], ["--nonsense"])
    ]
    code = f"""
import sys
from burstcache_cli.cli import main
for argv in {calls!r}:
    try:
        assert main(argv) == 2, argv
    except SystemExit as end:
        assert end.code == 0, argv
heavy = {{'asyncio', 'boto3', 'botocore', 'matplotlib', 'moto', 'nats', 'numba', 'numpy', 'redis', 'tqdm'}}
print(sorted(heavy & set(sys.modules)))
"""

    assert run_python(code).splitlines()[-1] == "[]"


@pytest.mark.slow
def test_reader_that_has_gone_is_taken_quietly() -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    code = "import sys; from burstcache_cli.cli import main; sys.exit(main(['--help']))"

    ended = subprocess.run(
        [sys.executable, "-c", code],
        stdout=write_end,
        stderr=subprocess.PIPE,
        env={"PYTHONPATH": PYTHONPATH},  # and not PYTHONUNBUFFERED
        check=False,
    )
    os.close(write_end)

    assert (ended.returncode, ended.stderr) == (1, b"")
