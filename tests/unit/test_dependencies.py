"""Dependencies: exact versions and hashes of what is deployed and of the tools, ranges of what programs install."""

from __future__ import annotations

import json
import re
import runpy
import shutil
import subprocess
import tomllib
from collections.abc import Callable
from itertools import chain
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import burstcache
from burstcache.command import GROUP
from burstcache_cli.registry import children
from support.project import ROOT
from support.waiting import LIMIT_S

LIBRARY = tomllib.loads((ROOT / "pyproject.toml").read_text())
TOOLS = tomllib.loads((ROOT / "tools" / "pyproject.toml").read_text())
MAKEFILE = (ROOT / "Makefile").read_text()
IN_LAMBDA_ALREADY = "boto3"
EXTRAS = LIBRARY["project"]["optional-dependencies"]
RANGES = [*LIBRARY["project"]["dependencies"], *chain(*EXTRAS.values())]  # a program brings its own versions
PINS = [
    *TOOLS["project"]["dependencies"][1:],
    *chain(*TOOLS["project"]["optional-dependencies"].values()),
    *(line for group in LIBRARY["dependency-groups"].values() for line in group if isinstance(line, str)),
]

_PINNED = re.compile(r"[\w-]+(\[[\w,-]+\])?==(\d+!)?[\w.]+")
Locked = dict[str, frozenset[str]]


def locked(path: str) -> Locked:
    """Return the hashes of each pinned package in a lock, by `name==version`."""
    blocks = re.split(r"^(?=[\w])", re.sub(r"^\s*#.*\n", "", (ROOT / path).read_text(), flags=re.MULTILINE), flags=re.M)
    return {
        pin(block): frozenset(re.findall(r"--hash=(sha256:[0-9a-f]{64})", block)) for block in blocks if block.strip()
    }


def pin(line: str) -> str:
    """Return `name==version` of a requirement, without extras and markers."""
    return re.sub(r"\[.*?\]", "", re.split(r"[ ;\\\n]", line)[0]).lower().replace("_", "-")


LOCK = locked("requirements.lock")
PACKAGES = {
    folder: locked(f"{folder}/requirements.txt")
    for folder in ("src", "cloudformation", "deploy/gateway", "examples/thumbnails/src")
} | {"the gateway's image": locked("deploy/gateway/requirements-image.txt")}
SAM_LOCK = locked("requirements-sam.lock")
LOCKS_ASIDE = {  # by group
    "recording": locked("benchmarks/recording.lock"),
    "cdk": locked("examples/cdk/requirements.txt"),
    "clients": locked("tests/clients/requirements.lock"),
    "engines": locked("tests/engines/requirements.lock"),
}


def made(folder: Path, python: str) -> subprocess.CompletedProcess[str]:
    shutil.copy(ROOT / "Makefile", folder)
    (folder / "tools").mkdir()
    for name in ("pyproject.toml", "tools/pyproject.toml", "requirements.lock"):
        (folder / name).write_text("")
    return subprocess.run(
        ["make", "setup", f"PYTHON={python}"], cwd=folder, capture_output=True, text=True, check=False, timeout=LIMIT_S
    )


@pytest.mark.parametrize("python", ["", "no-such-python", "/bin/false"])
def test_a_set_up_without_a_python_for_it_is_one_line_and_makes_nothing(tmp_path: Path, python: str) -> None:
    done = made(tmp_path, python)

    assert done.returncode == 2
    assert (
        f"make: {python or 'no Python of 3.11'} {'is no Python of 3.11' if python else 'or newer was found'}"
        in done.stderr
    )
    assert not (tmp_path / ".venv").exists()


def test_an_environment_without_pip_is_made_anew(tmp_path: Path) -> None:
    left = tmp_path / ".venv" / "bin" / "python"
    left.parent.mkdir(parents=True)
    left.symlink_to("/bin/false")

    assert "no-such-python is no Python of 3.11" in made(tmp_path, "no-such-python").stderr


def test_a_deployment_takes_build_and_deploy_from_the_same_environment_of_the_file() -> None:
    recipe = MAKEFILE.partition("define SAM_DEPLOY\n")[2].partition("endef")[0]

    calls = [line for line in recipe.splitlines() if line.startswith(("\t$(SAM) ", "\t$(SAM_PATH) "))]

    assert len(calls) == 2
    assert all("--config-env $(CONFIG_ENV)" in call for call in calls)


def test_the_functions_are_packaged_with_the_versions_that_are_installed_here() -> None:
    of_the_library = {Requirement(line).name for line in LIBRARY["project"]["dependencies"]} - {IN_LAMBDA_ALREADY}
    wanted = {each for each in LOCK if each.partition("==")[0] in of_the_library}
    of_the_functions = {Requirement(line).name for line in EXTRAS["functions"]}
    wanted |= {each for each in LOCK if each.partition("==")[0] in of_the_functions}

    assert len(wanted) == len(of_the_library) + 1
    assert wanted <= PACKAGES["src"].keys()


def test_the_tools_and_the_tests_are_pinned() -> None:
    assert [line for line in PINS if not _PINNED.fullmatch(re.split(r"[ ;]", line)[0])] == []


def test_the_tools_depend_on_the_library_of_their_version() -> None:
    own = Requirement(TOOLS["project"]["dependencies"][0])

    assert TOOLS["project"]["version"] == burstcache.__version__
    assert (own.name, str(own.specifier)) == ("burstcache", f"=={burstcache.__version__}")
    assert own.extras <= EXTRAS.keys()


def test_every_subcommand_is_an_entry_point_of_the_tools_or_of_the_library() -> None:
    provided = [*TOOLS["project"]["entry-points"][GROUP], *LIBRARY["project"]["entry-points"][GROUP]]

    assert sorted(provided) == sorted(["help", *children("")])


@pytest.mark.parametrize("line", RANGES)
def test_a_range_has_a_lower_end_and_takes_the_version_of_the_lock(line: str) -> None:
    requirement = Requirement(line)
    (version,) = (each.partition("==")[2] for each in LOCK if each.startswith(f"{requirement.name}=="))

    assert any(each.operator == ">=" for each in requirement.specifier)
    assert requirement.specifier.contains(version)


def test_the_lock_has_every_version_that_the_project_names() -> None:
    groups = LIBRARY["dependency-groups"]
    others = set().union(*(groups[name] for name in ("peers", "s3fs", "s3tests", *LOCKS_ASIDE)))
    peers = others - {line for line in groups["dev"] if isinstance(line, str)}

    assert {pin(line) for line in PINS if line not in peers} <= LOCK.keys()


@pytest.mark.parametrize("group", LOCKS_ASIDE)
def test_the_lock_of_another_environment_has_its_whole_group_with_hashes(group: str) -> None:
    lock = LOCKS_ASIDE[group]

    assert {pin(line) for line in LIBRARY["dependency-groups"][group]} <= lock.keys()
    assert [each for each, hashes in lock.items() if not hashes] == []


@pytest.mark.parametrize(("folder", "package"), [("clients", "@aws-sdk/client-s3"), ("engines", "dynalite")])
def test_packages_of_node_are_locked_with_hashes_and_without_a_registry(folder: str, package: str) -> None:
    packages = json.loads((ROOT / f"tests/{folder}/node/package-lock.json").read_text())["packages"]

    assert package in packages.pop("")["dependencies"]
    assert [name for name, package in packages.items() if "integrity" not in package or "resolved" in package] == []


def test_the_makefile_names_one_version_of_uv_that_of_the_lock() -> None:
    named_versions = re.findall(r"uv==(\d[\w.]*)|UV_VERSION := ([\w.]+)", MAKEFILE)

    assert [f"uv=={''.join(version)}" for version in named_versions] == [
        each for each in LOCK if each.startswith("uv==")
    ]


@pytest.mark.parametrize("folder", PACKAGES)
def test_a_package_of_functions_is_a_part_of_the_lock(folder: str) -> None:
    assert PACKAGES[folder]
    assert {each: LOCK[each] for each in PACKAGES[folder]} == PACKAGES[folder]


def test_everything_in_the_lock_has_hashes() -> None:
    assert len(LOCK) > 100
    assert [each for each, hashes in LOCK.items() if not hashes] == []


def test_the_tool_that_deploys_is_locked_with_hashes() -> None:
    recipe = re.search(r"^\$\(SAM_VENV\)/\.sam.*?\n\n", MAKEFILE, re.MULTILINE | re.DOTALL)[0]  # type: ignore[index]
    versions = dict(re.findall(r"^(SAM|UV)_VERSION := (\S+)", MAKEFILE, re.MULTILINE))

    assert {f"aws-sam-cli=={versions['SAM']}", f"uv=={versions['UV']}"} <= SAM_LOCK.keys()
    assert [each for each, hashes in SAM_LOCK.items() if not hashes] == []
    installs = re.findall(r"pip install[^\n]*", recipe)
    assert ["--require-hashes" in each for each in installs] == [True, True]
    assert "-r $(SAM_LOCK)" in installs[-1]


def test_nothing_is_installed_into_the_environment_without_its_hash() -> None:
    recipe = re.search(r"^\$\(VENV\)/\.ready:.*?\n\n", MAKEFILE, re.MULTILINE | re.DOTALL)[0]  # type: ignore[index]
    installs = re.findall(r"pip install[^\n]*", recipe)

    assert len(installs) == 4
    assert all(
        "--require-hashes" in each or "--no-deps --no-build-isolation -e . -e tools" in each for each in installs
    )


@pytest.fixture(scope="module")
def verdict() -> Callable[[str, str], tuple[list[str], int]]:
    return runpy.run_path(str(ROOT / ".ci" / "audit"))["verdict"]  # type: ignore[no-any-return]


def test_a_known_vulnerability_fails_the_audit(verdict: Callable[[str, str], tuple[list[str], int]]) -> None:
    vulnerable = {"name": "jinja2", "version": "2.11.0", "vulns": [{"id": "PYSEC-1", "fix_versions": ["2.11.3"]}]}
    report = {"dependencies": [vulnerable, {"name": "six", "version": "1", "vulns": []}], "fixes": []}

    lines, code = verdict(json.dumps(report), "Found 1 known vulnerability in 1 package")

    assert code == 1
    assert lines == ["jinja2 2.11.0: PYSEC-1, mended in 2.11.3", "2 packages audited, 1 known vulnerabilities"]


def test_an_audit_that_could_not_be_made_fails_where_it_is_required() -> None:
    audit = runpy.run_path(str(ROOT / ".ci" / "audit"))["verdict"]
    skipped = {"dependencies": [{"name": "ours", "skip_reason": "not found"}], "fixes": []}
    clean = {"dependencies": [{"name": "six", "version": "1", "vulns": []}], "fixes": []}

    codes = [audit(report, "", required=True)[1] for report in ("", json.dumps(skipped), json.dumps(clean))]

    assert codes == [1, 1, 0]


def test_an_audit_that_could_not_be_made_says_so(verdict: Callable[[str, str], tuple[list[str], int]]) -> None:
    skipped = {"dependencies": [{"name": "ours", "skip_reason": "not found"}], "fixes": []}

    assert verdict("", "Traceback …\nConnectionError: no route") == (["NOT AUDITED: ConnectionError: no route"], 0)
    assert verdict(json.dumps(skipped), "")[0] == [
        "NOT AUDITED: ours: not found",
        "0 packages audited, 0 known vulnerabilities",
    ]
