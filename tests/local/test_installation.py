"""A fresh installation without extras, or with fsspec alone: what a reader needs, nothing of a person's machine."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.project import ROOT

_IMPORT_ALL = """
import importlib, pkgutil, burstcache
with_an_extra = (
    *("burstcache.client.files", "burstcache.client.filesystem"),
    *("burstcache.client.remote_pool", "burstcache.client.stack_pool", "burstcache.pool."),
    "burstcache.results.functions_framework",  # the framework brings flask
)
for module in pkgutil.walk_packages(burstcache.__path__, "burstcache."):
    if not module.name.startswith(with_an_extra):
        importlib.import_module(module.name)
"""
_FIND_FILE_SYSTEM = """
import fsspec
print(fsspec.filesystem("burstcache"))
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project as it would be fetched."""
    source = tmp_path_factory.mktemp("source")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    for name in ("src", "tools"):  # a copy, for a build leaves its own folders where the source is
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("*.egg-info", "__pycache__"))
    return source


@pytest.fixture(scope="module")
def scripts(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of `python` and `burstcache` in an environment that has the base dependencies alone."""
    return install(str(source), tmp_path_factory.mktemp("fresh"))


def install(source: str, environment: Path) -> Path:
    """Install the project from uv's cache, which `make setup` has filled, or from the package index."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    python = environment / "bin" / "python"
    uv = Path(sys.executable).parent / "uv"
    if uv.exists():
        command: list[str | Path] = [uv, "pip", "install", "-q", "--python", python, source]
        if subprocess.run([*command, "--offline"], capture_output=True).returncode == 0:
            return environment / "bin"
    else:
        command = [sys.executable, "-m", "pip", "--python", python, "install", "-q", source]
    subprocess.run(command, check=True)
    return environment / "bin"


def test_all_that_is_deployed_is_importable_without_the_extras(scripts: Path) -> None:
    for absent in ("aws_lambda_powertools", "fsspec", "matplotlib", "moto", "numba", "numpy"):
        assert subprocess.run([scripts / "python", "-c", f"import {absent}"], capture_output=True).returncode == 1

    imported = subprocess.run([scripts / "python", "-I", "-c", _IMPORT_ALL], capture_output=True, text=True)

    assert imported.returncode == 0, imported.stderr


def test_fsspec_finds_the_file_system_with_its_extra_alone(source: Path, tmp_path: Path) -> None:
    scripts = install(f"{source}[fsspec]", tmp_path)

    found = subprocess.run([scripts / "python", "-I", "-c", _FIND_FILE_SYSTEM], capture_output=True, text=True)

    assert found.stdout.startswith("<burstcache.client.filesystem.BurstcacheFileSystem"), found.stderr


def test_the_command_is_there_and_helps(scripts: Path) -> None:
    shown = subprocess.run([scripts / "burstcache", "--help"], capture_output=True, text=True, check=True)

    assert shown.stdout.startswith("usage: burstcache")


def test_every_file_of_the_packages_is_installed(scripts: Path) -> None:
    (site_packages,) = scripts.parent.glob("lib/python*/site-packages")
    installed = {path.relative_to(site_packages).as_posix() for path in site_packages.rglob("*") if path.is_file()}

    tracked = subprocess.run(["git", "ls-files", "src", "tools"], cwd=ROOT, capture_output=True, text=True, check=True)
    expected = {line.partition("/")[2] for line in tracked.stdout.splitlines()} - {"requirements.txt"}

    assert expected - installed == set()
