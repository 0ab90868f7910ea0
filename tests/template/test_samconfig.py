"""Options in samconfig.toml, compared with the template and the local run."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest

from burstcache_local.moto.services import Services
from support.project import ROOT


@pytest.fixture(scope="module")
def config() -> dict[str, Any]:
    return tomllib.loads((ROOT / "samconfig.toml").read_text())


def test_both_environments_build_and_deploy_alike(config: dict[str, Any]) -> None:
    assert config["prod"]["build"] == config["default"]["build"]
    assert config["prod"]["deploy"]["parameters"].items() >= config["default"]["deploy"]["parameters"].items()


def test_parameters_that_are_given_are_the_templates(config: dict[str, Any], template: dict[str, Any]) -> None:
    for word in config["prod"]["deploy"]["parameters"]["parameter_overrides"].split():
        name, _, value = word.partition("=")

        assert value in map(str, template["Parameters"][name].get("AllowedValues", [value]))


@pytest.mark.parametrize("command", ["local_invoke", "local_start_api"])
def test_functions_run_in_the_region_of_the_local_run(config: dict[str, Any], command: str) -> None:
    services = Services()
    services.close()

    assert config["default"][command]["parameters"]["region"] == services.region
