"""The release: its notes, and archives that two builds of one commit make equal."""

from __future__ import annotations

import os
import runpy
import tarfile
import zipfile
from pathlib import Path

import pytest

import burstcache
from support.project import ROOT

RELEASE = runpy.run_path(str(ROOT / ".ci/release"))


def test_the_changelog_has_notes_of_this_version() -> None:
    assert RELEASE["notes_of"](burstcache.__version__, (ROOT / "CHANGELOG.md").read_text()).startswith(
        "The first release"
    )


def test_notes_end_where_the_next_version_begins() -> None:
    changelog = "# C\n\n## [Unreleased]\n\nx\n\n## [1.1] - 2027-01-02\n\nnew\n\n## [1.0] - 2026-01-02\n\nold\n"

    assert [RELEASE["notes_of"](version, changelog) for version in ("1.1", "1.0", "2", "Unreleased")] == [
        "new\n",
        "old\n",
        "",
        "",
    ]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    tree = tmp_path / "tree"
    (tree / "sub").mkdir(parents=True)
    (tree / "sub/run").write_text("#!/bin/sh\n")
    (tree / "sub/run").chmod(0o755)
    (tree / "a.txt").write_text("a")
    return tree


def test_equal_folders_make_equal_zips_whatever_their_times(tree: Path, tmp_path: Path) -> None:
    RELEASE["pack"](tree, tmp_path / "1.zip", 1_700_000_000)
    os.utime(tree / "a.txt", (1, 1))
    RELEASE["pack"](tree, tmp_path / "2.zip", 1_700_000_000)

    with zipfile.ZipFile(tmp_path / "1.zip") as made:
        modes = {entry.filename: entry.external_attr >> 16 for entry in made.infolist()}
    assert modes == {"a.txt": 0o644, "sub/run": 0o755}
    assert (tmp_path / "1.zip").read_bytes() == (tmp_path / "2.zip").read_bytes()


def test_equal_source_distributions_are_packed_equally_whatever_their_times(tree: Path, tmp_path: Path) -> None:
    for name, time_s in (("1", 1), ("2", 2)):
        os.utime(tree / "a.txt", (time_s, time_s))
        with tarfile.open(tmp_path / f"{name}.tar.gz", "w:gz") as made:
            made.add(tree, "tree")
        RELEASE["pack_again"](tmp_path / f"{name}.tar.gz", tmp_path / f"{name}.again", 1_700_000_000)

    assert (tmp_path / "1.again").read_bytes() == (tmp_path / "2.again").read_bytes()
    with tarfile.open(tmp_path / "1.again") as packed:
        assert packed.extractfile("tree/a.txt").read() == b"a"  # type: ignore[union-attr]


def test_an_unknown_option_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert RELEASE["main"](["--now"]) == 2
    assert capsys.readouterr().err == "release: --now: accepted is --dry, or nothing\n"
