"""`burstcache config` asks for what matters, and changes one line of samconfig.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from samtranslator.yaml_helper import yaml_parse

from burstcache_cli.cli import main
from burstcache_cli.config import answers, overrides, with_overrides
from support.project import ROOT

_TEXT = (ROOT / "samconfig.toml").read_text()


@pytest.fixture(scope="module")
def template() -> dict[str, Any]:
    return yaml_parse((ROOT / "template.yaml").read_text())  # type: ignore[no-any-return]


def answered(template: Mapping[str, Any], typed: Mapping[str, str], **given: str) -> dict[str, str]:
    """What comes of typing these answers, and Enter to all other questions."""
    return dict(answers(template, given, lambda question: typed.get(question.partition(" ")[0], "")))


def test_enter_takes_every_default(template: dict[str, Any]) -> None:
    taken = answered(template, {})

    assert len(taken) == 8
    assert all(str(template["Parameters"][name]["Default"]) == value for name, value in taken.items())


def test_enter_keeps_an_earlier_answer(template: dict[str, Any]) -> None:
    assert answered(template, {}, Relay="direct")["Relay"] == "direct"


def test_a_bucket_of_yours_asks_whether_it_is_public(template: dict[str, Any]) -> None:
    assert "ExistingBucketIsPublic" in answered(template, {"OriginBucketName": "mine"})
    assert "ExistingBucketIsPublic" not in answered(template, {"OriginBucketName": "mine", "ApiAuth": "iam"})


def test_tokens_ask_for_their_issuer(template: dict[str, Any]) -> None:
    typed = {"ApiAuth": "jwt", "JwtIssuer": "https://example.com", "JwtAudience": "a,b"}

    assert answered(template, typed).items() >= typed.items()


def test_an_answer_that_the_template_refuses_is_asked_for_again(
    template: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    typed = iter(["", "everybody", "iam"])

    taken = dict(answers(template, {}, lambda question: next(typed, "")))

    assert taken["ApiAuth"] == "iam"
    assert "'everybody' is not accepted: public, iam, jwt" in capsys.readouterr().out


@pytest.mark.parametrize("environment", ["default", "prod"])
def test_the_answers_are_what_sam_reads_and_nothing_else_changes(environment: str) -> None:
    given = {"OriginBucketName": "", "ApiAuth": "iam", "JwtAudience": "a,b"}

    once = with_overrides(_TEXT, environment, given)
    twice = with_overrides(once, environment, given)

    before, after = tomllib.loads(_TEXT), tomllib.loads(once)
    assert overrides(after[environment]["deploy"]["parameters"].pop("parameter_overrides")) == given
    before[environment]["deploy"]["parameters"].pop("parameter_overrides", None)
    assert before == after
    assert twice == once
    assert [line for line in _TEXT.splitlines() if line not in once] == (
        [] if environment == "default" else [line for line in _TEXT.splitlines() if "parameter_overrides" in line]
    )


@pytest.mark.parametrize(
    "parameters",
    [
        '[default.deploy.parameters] # mine\nparameter_overrides = "A=1"\n',
        '[default.deploy.parameters]\nparameter_overrides = """\nA=1\n"""\n',
        '[default.deploy.parameters]\nparameter_overrides = ["A=1"]\n',
    ],
)
def test_a_file_that_would_not_get_the_answers_stays_as_it_is(
    parameters: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "samconfig.toml"
    file.write_text(parameters)
    monkeypatch.setattr("builtins.input", lambda question: "")

    assert main(["config", "--template", str(ROOT / "template.yaml"), "--file", str(file)]) == 2

    assert "parameter_overrides" in capsys.readouterr().err
    assert file.read_text() == parameters
