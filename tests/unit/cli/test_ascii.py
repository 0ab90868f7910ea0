"""Output that goes to where only ASCII is taken: cron, a pipe, the C locale."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from burstcache_cli.cli import main
from burstcache_cli.registry import COMMANDS, GROUPS
from burstcache_terminal.text import print_anything
from support.stack_in_moto import STACK, Aws

_WORDS = [*GROUPS, *(command.words for command in COMMANDS)]


@contextmanager
def in_ascii() -> Iterator[io.BytesIO]:
    """Have standard output and error take ASCII alone; yield what reaches them."""
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii", write_through=True)
    with redirect_stdout(stream), redirect_stderr(stream):
        yield raw
    stream.detach()


@pytest.mark.parametrize("words", _WORDS)
def test_help_is_readable_in_ascii(words: str) -> None:
    with in_ascii() as printed, pytest.raises(SystemExit, match="0"):
        main([*words.split(), "--help"])

    text = printed.getvalue().decode("ascii")
    assert text.startswith("usage: burstcache")
    assert re.findall(r"\\[ux][0-9a-f]+", text) == []  # each of our own signs has its ASCII


def test_keys_of_any_name_are_listed_and_explained(aws: Aws) -> None:
    aws.put_key("bücher/日本.json", window=["5:a"])
    aws.make_machine("mine-key-lifecycle")
    aws.put_object("bücher/日本.json")

    with in_ascii() as printed:
        assert main(["keys", *STACK]) == 0
        assert main(["explain", "bücher/日本.json", *STACK]) == 0

    assert printed.getvalue().decode("ascii").count("b\\xfccher/\\u65e5\\u672c.json") == 2


def test_signs_of_our_own_texts_have_their_ascii() -> None:
    with in_ascii() as printed:
        print_anything()
        print("1…2 — 3 × 4 → 5 ≥ 6; é, 😀, \udcc3")

    assert printed.getvalue() == b"1...2 - 3 x 4 -> 5 >= 6; \\xe9, \\U0001f600, \\udcc3\n"


def test_an_error_that_names_what_cannot_be_encoded_is_one_line() -> None:
    with in_ascii() as printed:
        assert main(["keys", "--region", "ü", "--state-dir", "é…"]) == 2

    assert printed.getvalue().count(b"\n") == 1


@pytest.mark.slow
def test_a_name_that_is_typed_in_the_c_locale_is_taken_as_utf_8(tmp_path: Path) -> None:
    bare = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PATH": os.environ["PATH"]}
    command = [str(Path(sys.executable).parent / "burstcache"), "explain", "bücher", "--state-dir", str(tmp_path)]

    done = subprocess.run(command, env=bare, capture_output=True, check=False)

    assert done.returncode == 1, done.stderr
    assert b"no local run in" in done.stderr
