"""Parameters are questions that a person answers: defaults deploy, units are in the names, a page explains them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from burstcache.core.errors import InvalidSettingError
from burstcache.core.parameters import parameters_from_text
from burstcache.metrics import METRICS
from burstcache.web.prefixes import parse_patterns


@pytest.fixture(scope="module")
def parameters(template: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return template["Parameters"]  # type: ignore[no-any-return]


def test_every_parameter_has_a_default_that_it_accepts(parameters: dict[str, dict[str, Any]]) -> None:
    for name, parameter in parameters.items():
        default = parameter["Default"]

        assert default in parameter.get("AllowedValues", [default]), name
        assert re.fullmatch(parameter.get("AllowedPattern", ".*"), str(default)), name


def test_the_console_groups_parameters_as_they_are_asked_for(template: dict[str, Any]) -> None:
    interface = template["Metadata"]["AWS::CloudFormation::Interface"]
    groups = [group["Parameters"] for group in interface["ParameterGroups"]]

    assert [name for group in groups for name in group] == list(template["Parameters"])
    assert len(groups[0]) == 12  # those of `burstcache config`
    assert list(interface["ParameterLabels"]) == groups[0]


def test_the_page_has_them_in_the_order_in_which_they_are_asked_for(
    parameters: dict[str, dict[str, Any]], root: Path
) -> None:
    rows = re.findall(r"^\| `(\w+)`", (root / "docs/use/parameters.md").read_text().partition("\n## ")[0], re.MULTILINE)

    assert [name for name in parameters if name in rows] == rows


def test_the_transcript_of_a_guided_deployment_asks_for_them_with_their_defaults(
    parameters: dict[str, dict[str, Any]], root: Path
) -> None:
    transcript = (root / "docs/evidence/guided-deploy.md").read_text()

    asked = re.findall(r"^  Parameter (\w+) \[(.*)\]:$", transcript, re.MULTILINE)

    assert asked == [(name, str(parameter["Default"])) for name, parameter in parameters.items()]


def test_every_number_has_its_unit_in_its_name(parameters: dict[str, dict[str, Any]]) -> None:
    times = ("PerS", "PerMin", "Ms", "HoursPerDay", "Days", "GraceS", "KeepS")
    units = (*times, "Requests", "Keys", "Nodes", "Count", "Concurrency", "Mb", "Usd", "Port", "Issue")

    numbers = [name for name, parameter in parameters.items() if parameter["Type"] == "Number"]

    assert numbers
    assert [name for name in numbers if not name.endswith(units)] == []


def test_every_parameter_says_what_it_means(parameters: dict[str, dict[str, Any]]) -> None:
    for name, parameter in parameters.items():
        assert parameter["Description"].endswith((".", "]")), name


def test_the_policy_accepts_the_defaults(parameters: dict[str, dict[str, Any]]) -> None:
    parameters_from_text(
        rate=parameters["PolicyRatePerMin"]["Default"],
        sensitivity=parameters["PolicySensitivity"]["Default"],
        overrides=parameters["PolicyOverrides"]["Default"],
    )


def test_the_policy_accepts_the_example_in_the_description(parameters: dict[str, dict[str, Any]]) -> None:
    example = re.search(r"such as (\S+);", parameters["PolicyOverrides"]["Description"])

    assert example
    assert parameters_from_text(rate="9", sensitivity="4", overrides=example[1]).redis_threshold == 10


def test_every_parameter_is_explained(parameters: dict[str, dict[str, Any]], root: Path) -> None:
    page = (root / "docs/use/parameters.md").read_text()

    missing = [name for name in parameters if f"`{name}`" not in page]

    assert missing == []


def test_the_operations_guide_names_no_parameter_output_or_metric_that_is_gone(
    template: dict[str, Any], root: Path
) -> None:
    guide = (root / "docs/operate/operations.md").read_text()
    metrics = {metric.name for metric in METRICS}
    known = {*template["Parameters"], *template["Outputs"], *template["Resources"], *metrics}

    named = set(re.findall(r"`([A-Z][a-z0-9]+(?:[A-Z][a-z0-9]*)+)`", guide))

    assert named
    assert named - known == set()


@pytest.mark.parametrize(
    ("prefixes", "is_accepted"),
    [
        ("public/", True),
        ("public/,users/{sub}/,{org}/teams/{cognito:groups[]}/", True),
        ("public", False),
        ("/", False),
        ("users/{sub", False),
        ("users/{sub}", False),
        ("users/{}/", False),
        ("users/{sub[}/", False),
        ("a/,b", False),
    ],
)
def test_a_deployment_refuses_the_prefixes_that_the_proxy_refuses(
    parameters: dict[str, dict[str, Any]], prefixes: str, is_accepted: bool
) -> None:
    for name in ("JwtPrefixes", "JwtWritePrefixes"):
        assert bool(re.search(parameters[name]["AllowedPattern"], prefixes)) == is_accepted
    if is_accepted:
        assert parse_patterns(prefixes) == tuple(prefixes.split(","))
    else:
        with pytest.raises(InvalidSettingError):
            parse_patterns(prefixes)


@pytest.mark.parametrize(
    ("prefix", "is_accepted"),
    [
        *(("", True), ("public/", True), ("a/b=1/", True)),
        *(("public", False), ("/", False), ("/a/", False), ("a*/", False), ("a?/", False), ("${a}/", False)),
    ],
)
def test_the_origins_prefix_is_a_folder_and_nothing_that_iam_reads_as_a_pattern(
    parameters: dict[str, dict[str, Any]], prefix: str, is_accepted: bool
) -> None:
    assert bool(re.search(parameters["OriginPrefix"]["AllowedPattern"], prefix)) == is_accepted
