"""The `burstcache` command finds subcommands in installed packages."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

from burstcache import command


@pytest.fixture
def provided(monkeypatch: pytest.MonkeyPatch) -> list[EntryPoint]:
    points: list[EntryPoint] = []
    monkeypatch.setattr(command, "entry_points", lambda *, group: points)
    return points


def test_a_package_that_cannot_be_imported_is_named(
    provided: list[EntryPoint], capsys: pytest.CaptureFixture[str]
) -> None:
    provided.append(EntryPoint("extra", "no_such_module:main", command.GROUP))

    assert command.main(["extra"]) == 1

    assert "no_such_module:main cannot be loaded" in capsys.readouterr().err


def test_help_of_a_subcommand_is_that_of_its_package(provided: list[EntryPoint]) -> None:
    provided.append(EntryPoint("extra", "builtins:len", command.GROUP))

    assert command.main(["help", "extra", "part"]) == len(["extra", "part", "--help"])
