"""`burstcache deploy` executes a change set of SAM CLI's only after it has looked at it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from burstcache_cli import deploy
from burstcache_cli.cli import main
from support.stack_in_moto import REGION, TEMPLATE, Aws

_PARAMETERS = {name: {"Type": "String", "Default": ""} for name in ("StatePersistence", "StateDatabases")}
_VOLUME = {"Type": "AWS::EC2::Volume", "Properties": {"Size": 1, "AvailabilityZone": f"{REGION}a"}}
_KEPT = {"StatePersistence": "aof", "StateDatabases": "orders"}
pytestmark = pytest.mark.slow  # each makes a stack in moto


def template(**resources: Mapping[str, Any]) -> dict[str, Any]:
    whole: dict[str, Any] = dict(TEMPLATE)
    return {**whole, "Parameters": {**whole["Parameters"], **_PARAMETERS}, "Resources": whole["Resources"] | resources}


class Sam:
    """SAM CLI, which makes a change set of a template."""

    def __init__(self, aws: Aws, monkeypatch: pytest.MonkeyPatch) -> None:
        self.commands: list[list[str]] = []
        self.new: dict[str, Any] | None = None
        self.kind, self.exit_status = "UPDATE", 0
        self._cloudformation = aws.client("cloudformation")
        monkeypatch.setattr(deploy, "subprocess", SimpleNamespace(run=self._run))

    def _run(self, command: list[str], *, check: bool) -> SimpleNamespace:
        assert not check
        self.commands.append(command)
        if self.new is not None:
            self._cloudformation.create_change_set(
                StackName="mine" if self.kind == "UPDATE" else "new",
                ChangeSetName="samcli-deploy1",
                ChangeSetType=self.kind,
                TemplateBody=json.dumps(self.new),
                Parameters=[{"ParameterKey": key, "ParameterValue": value} for key, value in _KEPT.items()],
            )
        return SimpleNamespace(returncode=self.exit_status)


@pytest.fixture
def sam(aws: Aws, monkeypatch: pytest.MonkeyPatch) -> Sam:
    """SAM CLI, and a stack with a log on a volume."""
    aws.update(template(StateVolume1=_VOLUME), **_KEPT)
    monkeypatch.setattr("builtins.input", lambda question: pytest.fail("nothing asks"))
    return Sam(aws, monkeypatch)


@pytest.fixture
def deployed(tmp_path: Path) -> Callable[..., int]:
    def deployed(*options: str, asks: bool = False, stack: str = "mine", overrides: str = "") -> int:
        file = tmp_path / "samconfig.toml"
        settings = f"confirm_changeset = {str(asks).lower()}\nparameter_overrides = '{overrides}'\n"
        file.write_text(f"[default.deploy.parameters]\n{settings}")
        return main(["deploy", "--file", str(file), "--stack-name", stack, "--region", REGION, *options])

    return deployed


def resources(aws: Aws, stack: str = "mine") -> set[str]:
    listed = aws.client("cloudformation").list_stack_resources(StackName=stack)["StackResourceSummaries"]
    return {each["LogicalResourceId"] for each in listed}


def change_sets(aws: Aws) -> list[str]:
    return [
        each["ChangeSetName"] for each in aws.client("cloudformation").list_change_sets(StackName="mine")["Summaries"]
    ]


def test_a_change_set_that_loses_nothing_is_executed(
    aws: Aws, sam: Sam, deployed: Callable[..., int], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    sam.new = template(StateVolume1=_VOLUME, StateVolume2=_VOLUME)

    assert deployed() == 0

    assert resources(aws) == {"Table", "StateVolume1", "StateVolume2"}
    file = ["--config-file", str(tmp_path / "samconfig.toml"), "--config-env", "default"]
    named = ["--stack-name", "mine", "--region", REGION]
    assert sam.commands == [["sam", "deploy", "--no-execute-changeset", *file, *named]]
    printed = capsys.readouterr().out
    assert "Deployed mine." in printed
    assert "BucketName" in printed


def test_a_change_set_that_loses_state_is_neither_executed_nor_left(
    aws: Aws, sam: Sam, deployed: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    sam.new = template()

    assert deployed() == 1

    assert resources(aws) == {"Table", "StateVolume1"}
    assert change_sets(aws) == []
    said = capsys.readouterr()
    assert "StateVolume1 (" in said.out
    assert "the log of orders" in " ".join(said.out.split())
    assert "LOSE_STATE=1" in said.err


def test_state_is_lost_if_that_is_asked_for(
    aws: Aws, sam: Sam, deployed: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    sam.new = template()

    assert deployed("--lose-state") == 0

    assert resources(aws) == {"Table"}
    assert "StateVolume1 (" in capsys.readouterr().out


@pytest.mark.parametrize(("answer", "status", "number"), [("y", 0, 2), ("", 1, 1), ("no", 1, 1)])
def test_it_asks_if_the_file_says_so(
    aws: Aws,
    sam: Sam,
    deployed: Callable[..., int],
    monkeypatch: pytest.MonkeyPatch,
    answer: str,
    status: int,
    number: int,
) -> None:
    monkeypatch.setattr("builtins.input", lambda question: answer)
    sam.new = template(StateVolume1=_VOLUME, StateVolume2=_VOLUME)

    assert deployed(asks=True) == status

    assert len(resources(aws) - {"Table"}) == number


def test_a_stack_without_changes_is_up_to_date_whatever_was_planned_before(
    aws: Aws, sam: Sam, deployed: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    aws.client("cloudformation").create_change_set(
        StackName="mine", ChangeSetName="earlier", TemplateBody=json.dumps(template(StateVolume2=_VOLUME))
    )

    assert deployed() == 0

    assert "mine is up to date." in capsys.readouterr().out
    assert resources(aws) == {"Table", "StateVolume1"}


def test_a_new_stack_is_created(aws: Aws, sam: Sam, deployed: Callable[..., int]) -> None:
    sam.kind, sam.new = "CREATE", template(StateVolume1=_VOLUME)

    assert deployed(stack="new") == 0

    assert resources(aws, "new") == {"Table", "StateVolume1"}


def test_without_a_change_set_of_sam_nothing_is_changed(
    aws: Aws, sam: Sam, deployed: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    sam.exit_status = 1

    assert deployed() == 1

    assert "`sam deploy` made no change set" in capsys.readouterr().err


_INSTANCE = {"Type": "AWS::EC2::Instance", "Properties": {"ImageId": "ami-1", "InstanceType": "t4g.micro"}}
_OVERRIDES = 'Tracing="Active" RedisInstanceType="t4g.small"'


@pytest.mark.parametrize(
    ("parameters", "overrides", "resource", "given"),
    [
        ({}, _OVERRIDES, "RedisInstance1", f'{_OVERRIDES} RedisOn="ec2"'),
        ({}, _OVERRIDES, "StateInstance1", None),  # it had no node
        ({}, f'{_OVERRIDES} RedisOn="fargate"', "RedisInstance1", None),
        ({"RedisOn": "ec2"}, _OVERRIDES, "RedisInstance1", None),  # SAM CLI keeps it
    ],
    ids=["from before", "no node", "chosen", "deployed"],
)
def test_nodes_from_before_the_parameter_stay_on_their_instances(
    aws: Aws,
    sam: Sam,
    deployed: Callable[..., int],
    capsys: pytest.CaptureFixture[str],
    parameters: dict[str, str],
    overrides: str,
    resource: str,
    given: str | None,
) -> None:
    whole = template(**{resource: _INSTANCE})
    whole["Parameters"] |= {name: {"Type": "String"} for name in parameters}
    aws.update(whole, **parameters)

    assert deployed(overrides=overrides) == 0

    (command,) = sam.commands
    expected = [] if given is None else ["--parameter-overrides", given]
    assert command[command.index("--region") + 2 :] == expected
    assert ("nodes of mine stay on EC2" in capsys.readouterr().out) == (given is not None)


def test_a_new_stack_has_the_nodes_of_the_template(aws: Aws, sam: Sam, deployed: Callable[..., int]) -> None:
    sam.kind, sam.new = "CREATE", template()

    assert deployed(stack="new", overrides=_OVERRIDES) == 0

    assert "--parameter-overrides" not in sam.commands[0]
