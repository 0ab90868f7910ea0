"""Installation of the wheels in fresh environments: the library alone, with fsspec, and with the tools."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from moto.server import ThreadedMotoServer

import burstcache
from support.project import ROOT
from support.waiting import LIMIT_S

pytestmark = pytest.mark.slow

_UV = Path(sys.executable).with_name("uv")
_IMPORT_ALL = """
import importlib, pkgutil, burstcache
with_an_extra = (
    *("burstcache.client.files", "burstcache.client.filesystem"),
    *("burstcache.gateway.",),
    *("burstcache.client.remote_pool", "burstcache.client.stack_pool", "burstcache.pool."),
    "burstcache.results.functions_framework",  # the framework brings flask
)
for module in pkgutil.walk_packages(burstcache.__path__, "burstcache."):
    if not module.name.startswith(with_an_extra):
        importlib.import_module(module.name)
"""
_THREE_LINES = """
import boto3, burstcache
s3 = burstcache.wrap(boto3.client("s3"), bucket="examples")
print(s3.get_object(Bucket="examples", Key="a.txt")["Body"].read())
"""
_FIND_FILE_SYSTEM = """
import fsspec
print(fsspec.filesystem("burstcache"))
"""


_BUILT = {"__pycache__", "build", "dist"}


def tracked(*names: str) -> list[str]:
    """Return the files at these paths and in these folders, in a clone or in an archive of it without git."""
    if shutil.which("git") and (ROOT / ".git").exists():
        command = ["git", "ls-files", *names]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    paths = [path for name in names for path in [ROOT / name, *(ROOT / name).rglob("*")] if path.is_file()]
    files = [path.relative_to(ROOT) for path in paths]
    return [file.as_posix() for file in files if not any(part in _BUILT or ".egg-info" in part for part in file.parts)]


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheels of both distributions, built by way of their source distributions from what a clone has."""
    source, built = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheels")
    for name in tracked("pyproject.toml", "README.md", "LICENSE", "src", "tools"):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, source / name)
    for folder in (source, source / "tools"):
        build = (_UV, "build", "-q", "--no-build-isolation", "--python", sys.executable)
        subprocess.run([*build, "--out-dir", built, folder], check=True)
    return built


def install(environment: Path, wheels: Path, *requirements: str) -> Path:
    """Install requirements from uv's cache, which `make setup` has filled, or else from the package index."""
    subprocess.run([_UV, "venv", "-q", "--python", sys.executable, environment], check=True)
    command = (_UV, "pip", "install", "-q", "--python", environment / "bin" / "python", "--find-links", wheels)
    if subprocess.run([*command, "--offline", *requirements], capture_output=True).returncode:
        subprocess.run([*command, *requirements], check=True)
    return environment / "bin"


@pytest.fixture(scope="module")
def library(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The scripts of an environment that has the library and its dependencies alone."""
    return install(tmp_path_factory.mktemp("library") / "env", wheels, "burstcache")


@pytest.fixture(scope="module")
def tools(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The scripts of an environment that has the tools."""
    return install(tmp_path_factory.mktemp("tools") / "env", wheels, "burstcache-tools")


def run(*command: str | Path, **environ: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], **environ}
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd="/", env=environment)


def test_all_that_is_deployed_is_importable_without_the_extras(library: Path) -> None:
    for absent in ("aws_lambda_powertools", "burstcache_cli", "fsspec", "matplotlib", "moto", "numba", "numpy"):
        assert run(library / "python", "-c", f"import {absent}").returncode == 1

    imported = run(library / "python", "-I", "-c", _IMPORT_ALL)

    assert imported.returncode == 0, imported.stderr


@pytest.fixture
def endpoint_url() -> Iterator[str]:
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    yield "http://{}:{}".format(*server.get_host_and_port())
    server.stop()


def test_three_lines_read_through_the_cache_without_a_stack(library: Path, endpoint_url: str) -> None:
    environ = {
        "AWS_ENDPOINT_URL": endpoint_url,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    put = "s3.create_bucket(Bucket='examples'); s3.put_object(Bucket='examples', Key='a.txt', Body=b'body')"
    run(library / "python", "-c", f"import boto3; s3 = boto3.client('s3'); {put}", **environ)

    read = run(library / "python", "-c", _THREE_LINES, **environ)

    assert (read.stdout, read.stderr) == ("b'body'\n", "")


def test_fsspec_finds_the_file_system_with_its_extra_alone(wheels: Path, tmp_path: Path) -> None:
    scripts = install(tmp_path / "env", wheels, "burstcache[fsspec]")

    found = run(scripts / "python", "-I", "-c", _FIND_FILE_SYSTEM)

    assert found.stdout.startswith("<burstcache.client.filesystem.BurstcacheFileSystem"), found.stderr


@pytest.mark.parametrize("words", [[], ["advise", "log.csv"], ["no-such-command"]])
def test_a_command_without_the_tools_names_their_package(library: Path, words: list[str]) -> None:
    done = run(library / "burstcache", *words)

    assert (done.returncode, done.stdout) == (2, "")
    assert (
        f"(pip install burstcache-tools=={burstcache.__version__}, or from a clone ./burstcache/tools)" in done.stderr
    )
    assert not words or repr(words[0]) in done.stderr


@pytest.mark.parametrize("scripts", ["library", "tools"])
def test_version_and_help_are_there(scripts: str, request: pytest.FixtureRequest) -> None:
    command = request.getfixturevalue(scripts) / "burstcache"

    assert run(command, "--version").stdout == f"burstcache {burstcache.__version__}\n"
    assert run(command, "--help").stdout == run(command, "help").stdout != ""


def test_the_library_alone_names_its_own_command_and_the_extra_that_it_needs(library: Path) -> None:
    listed = run(library / "burstcache", "--help")
    helped = run(library / "burstcache", "gateway", "--help")
    started = run(library / "burstcache", "gateway", "--bucket", "examples")

    assert "burstcache gateway" in listed.stdout
    assert (helped.returncode, helped.stdout[:25]) == (0, "usage: burstcache gateway")
    assert (started.returncode, started.stdout) == (2, "")
    assert f"pip install 'burstcache[gateway]=={burstcache.__version__}'" in started.stderr


def test_a_gateway_runs_without_the_tools_and_names_the_extra_for_spans(
    wheels: Path, tmp_path: Path, endpoint_url: str
) -> None:
    scripts = install(tmp_path / "env", wheels, "burstcache[gateway]")
    environ = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test-secret", "AWS_DEFAULT_REGION": "us-east-1"}
    put = "s3.create_bucket(Bucket='examples'); s3.put_object(Bucket='examples', Key='a.txt', Body=b'body')"
    get = "print(s3.get_object(Bucket='examples', Key='a.txt')['Body'].read())"
    connect = "import boto3, sys; s3 = boto3.client('s3', endpoint_url=sys.argv[1]); "
    run(scripts / "python", "-c", connect + put, endpoint_url, **environ)
    command = (scripts / "burstcache", "gateway", "--bucket", "examples", "--port", "0")
    with (tmp_path / "log").open("wb") as log:
        gateway = subprocess.Popen(
            [*command, "--origin-endpoint", endpoint_url],
            env=environ | {"OTEL_TRACES_EXPORTER": "otlp"},
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    assert gateway.stdout is not None
    try:
        url = gateway.stdout.readline().partition(" ")[0]

        read = run(scripts / "python", "-c", connect + get, url, **environ)
    finally:
        gateway.terminate()
        ended = gateway.wait(LIMIT_S)
        gateway.stdout.close()

    assert (read.stdout, read.stderr) == ("b'body'\n", "")
    assert ended == 0
    assert f"pip install 'burstcache[gateway,otel]=={burstcache.__version__}'" in (tmp_path / "log").read_text()


def test_the_tools_read_a_log(tools: Path) -> None:
    inspected = run(tools / "burstcache", "sim", "inspect", ROOT / "examples" / "logs" / "bursts.csv.gz")

    assert (inspected.returncode, inspected.stderr) == (0, "")
    assert "requests" in inspected.stdout


def test_a_local_run_needs_a_template(tools: Path) -> None:
    done = run(tools / "burstcache", "local", "up", "--port", "0", "--endpoint-port", "0")

    assert done.returncode == 2
    assert "template.yaml" in done.stderr
    assert "--template" in done.stderr


def test_every_file_of_the_packages_is_installed(tools: Path) -> None:
    (site_packages,) = tools.parent.glob("lib/python*/site-packages")
    installed = {path.relative_to(site_packages).as_posix() for path in site_packages.rglob("*") if path.is_file()}

    names = {name.partition("/")[2] for name in tracked("src", "tools")}
    expected = names - {"requirements.txt", "pyproject.toml", "README.md", "LICENSE"}

    assert expected - installed == set()
