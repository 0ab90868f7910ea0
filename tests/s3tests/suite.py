"""The suite itself: a checkout at a fixed commit, an environment to run it in, and runs against an endpoint."""

from __future__ import annotations

import configparser
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from s3tests.tables import Outcome, Table, read_table, write_table
from support.project import ROOT

COMMIT = "8f0ae7b404a3a2fcf7038bf1e6bf29544fe9b6a3"  # of 7 May 2026
SOURCE = "https://github.com/ceph/s3-tests.git"
# The other files test IAM, STS and SNS, which are services of their own.
FILES = tuple(f"s3tests/functional/test_{name}.py" for name in ("s3", "headers", "s3select"))

_PLUGIN = Path(__file__).with_name("outcome_plugin.py")
_UV = str(Path(sys.executable).with_name("uv"))
_TEST_LIMIT_S = 60
_SILENCE_LIMIT_S = 3 * _TEST_LIMIT_S  # set-up, call and teardown
_CHUNK = 50
_POLL_S = 0.2


@dataclass(frozen=True)
class User:
    """User of the suite."""

    name: str

    @property
    def access_key(self) -> str:
        """The user's access key: no secret, the endpoint is a test's."""
        return f"s3tests{self.name}"

    @property
    def secret_key(self) -> str:
        """The key's secret."""
        return f"secret-of-{self.name}"


USERS = tuple(map(User, ("main", "alt", "tenant", "iam", "root", "altroot")))
_SECTIONS = {
    "s3 main": "main",
    "s3 alt": "alt",
    "s3 tenant": "tenant",
    "iam": "iam",
    "iam root": "root",
    "iam alt root": "altroot",
}


def check_out(source: str, folder: Path) -> Path:
    """Clone the suite at its fixed commit from a repository's path or URL, and return the folder."""
    subprocess.run(["git", "clone", "-q", "--no-checkout", source, folder], check=True)
    subprocess.run(["git", "-C", folder, "checkout", "-q", COMMIT], check=True)
    return folder


def make_environment(folder: Path) -> Path:
    """Make the suite's environment from the dependency group `s3tests`, and return its Python."""
    python = folder / "bin" / "python"
    subprocess.run([_UV, "venv", "-q", "--allow-existing", "--python", sys.executable, folder], check=True)
    install = [_UV, "pip", "install", "-q", "--compile-bytecode", "--python", str(python), "--group", "s3tests"]
    subprocess.run(install, check=True, cwd=ROOT)
    return python


def write_settings(path: Path, endpoint_url: str, owner: str, prefix: str = "s3tests-{random}-") -> None:
    """Write the suite's configuration for an endpoint.

    Args:
        path: File to write.
        endpoint_url: Base URL of the endpoint; an IP address makes boto3 address buckets by path.
        owner: Canonical id of the main user, which ACLs are compared with.
        prefix: Prefix of the buckets' names.
    """
    url = urlsplit(endpoint_url)
    settings = configparser.RawConfigParser()
    settings["DEFAULT"] = {
        "host": url.hostname or "",
        "port": str(url.port or 80),
        "is_secure": "no",
        "ssl_verify": "no",
    }
    settings["fixtures"] = {"bucket prefix": prefix}
    for section, name in _SECTIONS.items():
        user = User(name)
        settings[section] = {
            "access_key": user.access_key,
            "secret_key": user.secret_key,
            "user_id": owner if name == "main" else user.access_key,
            "display_name": "webfile" if name == "main" else name,
            "email": f"{name}@example.com",
        }
    settings["s3 main"].update({"api_name": "us-east-1", "lc_debug_interval": "1"})
    settings["s3 tenant"]["tenant"] = "tenant"
    with path.open("w") as file:
        settings.write(file)


class Suite:
    """Checkout of the suite with an environment, to be run against endpoints.

    Attributes:
        hits: How many responses of the last run came from the gateway's cache.

    Args:
        checkout: The checkout's folder.
        python: Python of the suite's environment.
        folder: Where settings and outcomes of a run are kept.
        bucket: The bucket that the endpoint caches. Each test then makes this one first, and sends each read twice.
    """

    def __init__(self, checkout: Path, python: Path, folder: Path, *, bucket: str = "") -> None:
        self._checkout, self._python, self._folder = checkout, python, folder.resolve()
        self._prefix, self.hits = bucket.removesuffix("1"), 0
        folder.mkdir(parents=True, exist_ok=True)

    def tests(self) -> list[str]:
        """Return the ids of all tests in the suite's order."""
        listed = self._pytest(["--collect-only", "-q", *FILES], capture_output=True, text=True, check=True).stdout
        return [line for line in listed.splitlines() if "::" in line]

    def run(self, endpoint_url: str, tests: Sequence[str], path: Path, *, owner: str) -> Table:
        """Run tests against an endpoint, a process for each fifty of them, and return their outcomes.

        A process that says nothing for three minutes is killed. Its test hangs, and the rest is run by another process.

        Args:
            endpoint_url: Base URL of the endpoint.
            tests: Ids of the tests.
            path: Table that is written after each process. Tests that it already has are not run again.
            owner: Canonical id of the main user.
        """
        write_settings(self._folder / "s3tests.conf", endpoint_url, owner, self._prefix or "s3tests-{random}-")
        before = read_table(path) if path.exists() else {}
        table = {test: before[test] for test in tests if test in before}
        self.hits = 0
        for chunk in _chunks([test for test in tests if test not in table]):
            left = list(chunk)
            while left:
                outcomes = self._run_chunk(left)
                table |= outcomes
                left = [test for test in left if test not in outcomes] if outcomes else []
                write_table(path, table)
            print(f"{len(table):,} of {len(tests):,} tests, {self.hits:,} hits", flush=True)
        return table

    def _run_chunk(self, tests: Sequence[str]) -> Table:
        outcomes = self._folder / "outcomes.jsonl"
        outcomes.write_text("")
        options = ["-q", f"--timeout={_TEST_LIMIT_S}", "--timeout-method=signal", "-p", "no:cacheprovider"]
        command = self._command([*options, *tests])
        with subprocess.Popen(
            command,
            cwd=self._checkout,
            env=self._variables(outcomes),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as process:
            while process.poll() is None:
                if time.time() - outcomes.stat().st_mtime > _SILENCE_LIMIT_S:
                    process.kill()
                time.sleep(_POLL_S)
        noted = [json.loads(line) for line in outcomes.read_text().splitlines()]
        self.hits += sum(int(each["hits"]) for each in noted if "hits" in each)
        return {
            each["id"]: Outcome(each.get("outcome", "hangs"), each.get("reason", "")) for each in noted if "id" in each
        }

    def _pytest(self, arguments: Sequence[str], **options: object) -> subprocess.CompletedProcess[str]:
        write_settings(self._folder / "s3tests.conf", "http://127.0.0.1:1", "")
        return subprocess.run(  # type: ignore[call-overload, no-any-return]
            self._command(arguments), cwd=self._checkout, env=self._variables(Path()), **options
        )

    def _command(self, arguments: Sequence[str]) -> list[str]:
        return [str(self._python), "-m", "pytest", "-p", _PLUGIN.stem, *arguments]

    def _variables(self, outcomes: Path) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": os.pathsep.join((str(self._checkout), str(_PLUGIN.parent))),
            "S3TEST_CONF": str(self._folder / "s3tests.conf"),
            "S3TESTS_OUTCOMES": str(outcomes) if outcomes.name else "",
            "S3TESTS_PREFIX": self._prefix,
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_MAX_ATTEMPTS": "1",  # a retry would hide an error
        }


def _chunks(tests: Sequence[str]) -> Iterator[Sequence[str]]:
    for first in range(0, len(tests), _CHUNK):
        yield tests[first : first + _CHUNK]
