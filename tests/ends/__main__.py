"""Install the library with the oldest and the newest versions that its ranges accept, and test it with each.

    PYTHONPATH=tests python -m ends [--python 3.11 3.13]

Each environment is fresh. It gets the library and its extra `fsspec`, and runs `program.py` against moto's server.
Then it gets the extras `gateway` and `otel`, and runs `gateway_program.py`. At last it gets the other extras and the
pinned libraries of the tests, and runs the quick tests of `tests/contract`.
"""

from __future__ import annotations

import argparse
import logging
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

from moto.server import ThreadedMotoServer

_ROOT = Path(__file__).parents[2]
_PROGRAM, _GATEWAY_PROGRAM = map(Path(__file__).with_name, ("program.py", "gateway_program.py"))
_ENDS = {"oldest": "lowest-direct", "newest": "highest"}
_UV = str(Path(sys.executable).with_name("uv"))
_LIBRARY = tomllib.loads((_ROOT / "pyproject.toml").read_text())
_TOOLS = tomllib.loads((_ROOT / "tools" / "pyproject.toml").read_text())
_OF_TESTS = ("fakeredis", "hypothesis", "pytest")  # pinned by the group `dev`; the others are the tools'


def main() -> int:
    """Test both ends with each Python; return the exit code."""
    parser = argparse.ArgumentParser("python -m ends", description=(__doc__ or "").splitlines()[0])
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    parser.add_argument("--python", nargs="+", default=[own], metavar="VERSION", help=f"of Python (default: {own})")
    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # a line for each request
    failed = 0
    versions = parser.parse_args().python
    for python in versions:
        for end, resolution in _ENDS.items():
            with tempfile.TemporaryDirectory() as folder:
                try:
                    failed += not _Environment(Path(folder), f"Python {python}, {end}", resolution).passes(python)
                except subprocess.CalledProcessError as problem:  # uv has said why
                    print(f"Python {python}, {end}: FAILED, {problem.cmd[1]} did not end well", flush=True)
                    failed += 1
    print(f"ends: {len(_ENDS) * len(versions) - failed} passed, {failed} failed")
    return int(failed > 0)


class _Environment:
    """A fresh environment with one end of the library's ranges.

    Args:
        folder: Where it is made.
        name: How reports call it.
        resolution: uv's, which decides between the oldest and the newest versions.
    """

    def __init__(self, folder: Path, name: str, resolution: str) -> None:
        self._python = str(folder / "bin" / "python")
        self._folder = folder
        self._name = name
        self._resolution = resolution

    def passes(self, python: str) -> bool:
        """Run the programs and the contract tests; return whether all pass."""
        subprocess.run([_UV, "venv", "-q", "--python", python, self._folder], check=True)
        self._install(f"{_ROOT}[fsspec]")
        programs_versions = self._versions()
        runs = self._runs(_PROGRAM)
        self._report(runs, "program", programs_versions)
        self._install(f"{_ROOT}[fsspec,gateway,otel]", *programs_versions)
        runs_gateway = self._runs(_GATEWAY_PROGRAM)
        self._report(runs_gateway, "gateway", self._versions())
        # No library of the tests may move a version that the program ran with.
        self._install(f"{_ROOT}[fsspec,functions,pool]", *programs_versions, *_pins())
        done = self._run_contract_tests()
        is_passed = done.returncode == 0
        if not is_passed:
            print(done.stdout, done.stderr, sep="\n", flush=True)
        last_line = next(reversed(done.stdout.strip().splitlines()), "no output")
        self._report(is_passed, f"contract tests, {last_line}", self._versions())
        return runs and runs_gateway and is_passed

    def _report(self, is_passed: bool, subject: str, versions: Sequence[str]) -> None:
        print(f"{self._name}: {'ok' if is_passed else 'FAILED'}, {subject}  {' '.join(versions)}", flush=True)

    def _install(self, *requirements: str) -> None:
        options = ["-q", "--python", self._python, "--resolution", self._resolution]
        subprocess.run([_UV, "pip", "install", *options, *requirements], check=True)

    def _versions(self) -> list[str]:
        """Return the versions of the library's direct dependencies."""
        freeze = [_UV, "pip", "freeze", "--python", self._python]
        listed = subprocess.run(freeze, check=True, capture_output=True, text=True).stdout
        return [line for line in listed.splitlines() if line.partition("==")[0] in _direct_dependencies()]

    def _runs(self, program: Path) -> bool:
        s3 = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
        s3.start()
        try:
            host, port = s3.get_host_and_port()
            variables = _variables_of_the_program(f"http://{host}:{port}")
            ran = subprocess.run([self._python, program], env=variables, cwd=self._folder)
        finally:
            s3.stop()
        return ran.returncode == 0

    def _run_contract_tests(self) -> subprocess.CompletedProcess[str]:
        """Run the quick contract tests with libraries that no speed patch replaces."""
        variables = os.environ | {"BURSTCACHE_SPEED_PATCHES": "0"}
        variables.pop("PYTHONPATH", None)
        quick = ["-m", "not slow", "--hypothesis-profile", "quick"]
        # The oldest boto3 calls functions that Python 3.12 deprecates.
        quick += ["-W", "default::DeprecationWarning"]
        pytest = [self._python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *quick, "tests/contract"]
        return subprocess.run(pytest, env=variables, cwd=_ROOT, capture_output=True, text=True)


def _name(requirement: str) -> str:
    return re.split(r"[^\w-]", requirement)[0]


def _direct_dependencies() -> set[str]:
    project = _LIBRARY["project"]
    return set(map(_name, chain(project["dependencies"], *project["optional-dependencies"].values())))


def _pins() -> list[str]:
    """Return the exact requirements of the contract tests; the library's own dependencies keep their ranges."""
    tests = [
        line for line in _LIBRARY["dependency-groups"]["dev"] if isinstance(line, str) and _name(line) in _OF_TESTS
    ]
    tools = [line for line in _TOOLS["project"]["dependencies"] if not line.startswith("burstcache")]
    return [line for line in (*tests, *tools) if _name(line) not in _direct_dependencies()]


def _variables_of_the_program(endpoint_url: str) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(_ROOT / "tests"),
        "AWS_ENDPOINT_URL": endpoint_url,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "PYTHONWARNINGS": "error::DeprecationWarning:burstcache",
    }


if __name__ == "__main__":
    sys.exit(main())
