"""Programs of instances and containers: the template has the text of their files."""

from __future__ import annotations

import ast
import io
import re
import runpy
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from moto import mock_aws

from burstcache_local.machines import nodes
from instance.__main__ import embed, main
from support.node_machine import user_data
from support.project import ROOT

_FOLDER = ROOT / "instance"


def _programs() -> list[Path]:
    return [path for path in _FOLDER.iterdir() if path.suffix in (".py", ".sh") and path.name != "__main__.py"]


def _copy(folder: Path) -> None:
    for path in _programs():
        (folder / path.name).write_text(path.read_text())


def _containers(task: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {container["Name"]: container for container in task["Properties"]["ContainerDefinitions"]}


def _entry_point(task: dict[str, Any], container: str) -> str:
    return str(_containers(task)[container]["EntryPoint"][-1])


def _variable(task: dict[str, Any], container: str, name: str) -> str:
    variables = [each.get("Fn::If", ["", each])[1] for each in _containers(task)[container]["Environment"]]
    (value,) = [each["Value"] for each in variables if each["Name"] == name]
    return str(value)


def _heredoc(resources: dict[str, Any], program: str) -> str:
    found = re.search(rf"^cat > /usr/local/sbin/{program} <<'(\w+)'\n(.*?\n)\1\n", user_data(resources), re.M | re.S)
    assert found
    return found[2]


def test_the_template_has_the_text_of_every_program(resources: dict[str, Any]) -> None:
    programs = {path.name: path.read_text() for path in _programs()}

    embedded = {
        "burstcache_node.py": _heredoc(resources, "burstcache-node"),
        "burstcache_secret.py": _heredoc(resources, "burstcache-secret"),
        "burstcache_state.py": resources["StateProgram"]["Properties"]["Value"],
        "burstcache_volume.py": resources["StateVolumeProgram"]["Properties"]["Value"],
        "pool_hub.py": _entry_point(resources["PoolHubTask"], "hub"),
        "redis_task.sh": _entry_point(resources["RedisTask"], "redis"),
        "relay.sh": _entry_point(resources["RelayTask"], "relay"),
        "set_up_redis.sh": _heredoc(resources, "set-up-redis"),
        "state_keeper.py": _entry_point(resources["StateTask"], "keeper"),
        "state_task.sh": _entry_point(resources["StateTask"], "redis"),
    }
    in_task = {
        "burstcache_node.py": _variable(resources["StateTask"], "keeper", "NODE_PROGRAM"),
        "burstcache_state.py": _variable(resources["StateTask"], "keeper", "STATE_PROGRAM_TEXT"),
    }

    assert embedded == programs, "`make template` writes the programs into the template"
    assert in_task == {name: programs[name] for name in in_task}


@pytest.mark.parametrize("name", ["burstcache_node.py", "relay.sh"])
def test_a_changed_program_replaces_its_old_text_alone(text: str, tmp_path: Path, name: str) -> None:
    _copy(tmp_path)
    (tmp_path / name).write_text("first\n\n  second\n")

    changed = embed(text, tmp_path)

    places = text.count(f"# From instance/{name}:\n")
    lines = len((_FOLDER / name).read_text().splitlines())
    assert len(re.findall(r"^( +)first\n\n\1  second\n", changed, re.MULTILINE)) == places
    assert len(text.splitlines()) - len(changed.splitlines()) == places * (lines - 3)
    assert embed(changed) == text


def test_a_template_that_differs_fails_its_check_until_it_is_written(text: str, tmp_path: Path) -> None:
    template = tmp_path / "template.yaml"
    template.write_text(text.replace("exec nats-server", "exec another-server"))

    before = main(["--check"], template)
    main([], template)

    assert before == "template.yaml differs from instance/: `make template` writes it"
    assert main(["--check"], template) is None
    assert template.read_text() == text


def test_a_program_in_user_data_has_nothing_that_cloudformation_would_substitute(text: str, tmp_path: Path) -> None:
    _copy(tmp_path)
    (tmp_path / "burstcache_node.py").write_text('print("${AWS::Region}")\n')

    with pytest.raises(ValueError, match=re.escape("instance/burstcache_node.py: CloudFormation would substitute ${")):
        embed(text, tmp_path)


@pytest.mark.parametrize("program", sorted(path.name for path in _programs() if path.suffix == ".py"))
def test_a_program_keeps_to_the_syntax_of_amazon_linux(program: str) -> None:
    text = (_FOLDER / program).read_text()

    assert ast.parse(text, feature_version=(3, 9))  # Amazon Linux 2023 has Python 3.9


def test_a_secret_is_read_by_its_kind_name_and_issue(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    variables = {"STACK": "mine", "CREDENTIALS_ISSUE": "2", "AWS_DEFAULT_REGION": "eu-central-1"}
    for name, value in {**variables, "AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "argv", ["burstcache-secret", "redis", "reader"])
    with mock_aws():
        for path in ("mine/redis/1/reader", "mine/redis/2/reader", "mine/state/2/reader"):
            boto3.client("ssm").put_parameter(Name=f"/burstcache/{path}", Value=path, Type="SecureString")

        runpy.run_path(str(_FOLDER / "burstcache_secret.py"), run_name="__main__")
        lines = "".join(f"{name}={value}\n" for name, value in variables.items())
        instance = SimpleNamespace(id="i-1", user_data=f"cat > environment <<'ENVIRONMENT'\n{lines}ENVIRONMENT\n")
        local: Any = SimpleNamespace(client=boto3.client)
        of_local_run = nodes._secret(instance, local, "redis", "reader")

    assert capsys.readouterr().out == "mine/redis/2/reader\n"
    assert of_local_run == "mine/redis/2/reader"


def test_a_hub_without_code_ends_with_the_error_of_pool_control(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = {"FunctionError": "Unhandled", "Payload": io.BytesIO(b'{"errorMessage": "no code"}')}
    monkeypatch.setenv("POOL_CONTROL_FUNCTION_NAME", "pool-control")
    monkeypatch.setattr(boto3, "client", lambda service: SimpleNamespace(invoke=lambda **asked: answer))

    with pytest.raises(SystemExit, match="pool control gives no code: .*no code"):
        runpy.run_path(str(_FOLDER / "pool_hub.py"), run_name="__main__")
