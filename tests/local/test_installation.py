"""A fresh installation without extras: what a reader's process needs, and nothing of a person's machine."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.project import ROOT

_IMPORT_ALL = """
import importlib, pkgutil, burstcache
for module in pkgutil.walk_packages(burstcache.__path__, "burstcache."):
    importlib.import_module(module.name)
"""


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of `python` and `burstcache` in an environment that has the base dependencies alone."""
    folder = tmp_path_factory.mktemp("fresh")
    source, environment = folder / "source", folder / "venv"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    for name in ("src", "tools"):  # a copy, for a build leaves its own folders where the source is
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("*.egg-info", "__pycache__"))
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    install(source, environment / "bin" / "python")
    return environment / "bin"


def install(source: Path, python: Path) -> None:
    """Install the project from uv's cache, which `make setup` has filled, or from the package index."""
    uv = Path(sys.executable).parent / "uv"
    if uv.exists():
        command: list[str | Path] = [uv, "pip", "install", "-q", "--python", python, source]
        if subprocess.run([*command, "--offline"], capture_output=True).returncode == 0:
            return
    else:
        command = [sys.executable, "-m", "pip", "--python", python, "install", "-q", source]
    subprocess.run(command, check=True)


def test_all_that_is_deployed_is_importable_without_the_extras(scripts: Path) -> None:
    for absent in ("matplotlib", "moto", "numba", "numpy"):
        assert subprocess.run([scripts / "python", "-c", f"import {absent}"], capture_output=True).returncode == 1

    imported = subprocess.run([scripts / "python", "-I", "-c", _IMPORT_ALL], capture_output=True, text=True)

    assert imported.returncode == 0, imported.stderr


def test_the_command_is_there_and_helps(scripts: Path) -> None:
    shown = subprocess.run([scripts / "burstcache", "--help"], capture_output=True, text=True, check=True)

    assert shown.stdout.startswith("usage: burstcache")


def test_every_file_of_the_packages_is_installed(scripts: Path) -> None:
    (site_packages,) = scripts.parent.glob("lib/python*/site-packages")
    installed = {path.relative_to(site_packages).as_posix() for path in site_packages.rglob("*") if path.is_file()}

    tracked = subprocess.run(["git", "ls-files", "src", "tools"], cwd=ROOT, capture_output=True, text=True, check=True)
    expected = {line.partition("/")[2] for line in tracked.stdout.splitlines()} - {"requirements.txt"}

    assert expected - installed == set()
