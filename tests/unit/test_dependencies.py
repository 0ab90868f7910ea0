"""What is installed here is what runs there: versions are exact, and stand alike in both places that name them."""

from __future__ import annotations

import re
import tomllib

from support.project import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
FUNCTIONS = (ROOT / "src" / "requirements.txt").read_text().splitlines()
CERTIFICATE = (ROOT / "cloudformation" / "requirements.txt").read_text().splitlines()
IN_LAMBDA_ALREADY = "boto3"


def test_the_functions_are_packaged_with_the_versions_that_are_installed_here() -> None:
    installed = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["functions"]]

    assert sorted(FUNCTIONS) == sorted(line for line in installed if not line.startswith(IN_LAMBDA_ALREADY))


def test_the_certificate_is_made_with_the_versions_of_the_local_run() -> None:
    extras = PROJECT["optional-dependencies"]

    assert set(CERTIFICATE) <= {*PROJECT["dependencies"], *extras["functions"], *extras["local"]}


def test_every_dependency_has_one_exact_version() -> None:
    extras = [line for extra in PROJECT["optional-dependencies"].values() for line in extra]
    named = [
        line
        for line in (*PROJECT["dependencies"], *extras, *FUNCTIONS, *CERTIFICATE)
        if not line.startswith("burstcache[")
    ]

    assert [line for line in named if not re.fullmatch(r"[\w-]+(\[[\w,]+\])?==[\w.]+", line)] == []
