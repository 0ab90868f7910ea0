"""What is installed here is what runs there: versions are exact, and stand alike in both places that name them."""

from __future__ import annotations

import re
import tomllib

from support.project import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
FUNCTIONS = (ROOT / "src" / "requirements.txt").read_text().splitlines()
CERTIFICATE = (ROOT / "certificate" / "requirements.txt").read_text().splitlines()
IN_LAMBDA_ALREADY = "boto3"


def test_command_and_functions_run_with_the_same_versions() -> None:
    of_the_command = [line for line in PROJECT["dependencies"] if not line.startswith(IN_LAMBDA_ALREADY)]
    of_the_functions = [line for line in FUNCTIONS if not line.startswith(IN_LAMBDA_ALREADY)]

    assert sorted(of_the_command) == sorted(of_the_functions)


def test_the_certificate_is_made_with_the_versions_of_the_local_run() -> None:
    assert set(CERTIFICATE) <= {*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["local"]}


def test_every_dependency_has_one_exact_version() -> None:
    extras = [line for extra in PROJECT["optional-dependencies"].values() for line in extra]
    named = [
        line
        for line in (*PROJECT["dependencies"], *extras, *FUNCTIONS, *CERTIFICATE)
        if not line.startswith("burstcache[")
    ]

    assert [line for line in named if not re.fullmatch(r"[\w-]+(\[[\w,]+\])?==[\w.]+", line)] == []
