"""A stack is found on this machine by its state file, in AWS by its name; what cannot be found is named."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from moto import mock_aws

from burstcache.core.errors import InvalidSettingError
from burstcache_cli.stack import LocalRunAbsentError, StackIncompleteError, find_stack
from burstcache_local import state_file
from burstcache_local.state_file import RunningCloud

TEMPLATE = {
    "Resources": {"Topic": {"Type": "AWS::SNS::Topic"}},
    "Outputs": {
        "TableName": {"Value": "the-table"},
        "RedisNodes": {"Value": "node-1=i-1@10.0.0.5:6379,node-2=i-2@10.0.0.6:6379"},
        "StateNodes": {"Value": "state-orders=i-3@10.0.0.7:6379"},
    },
}


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    (tmp_path / "config").write_text(
        "[profile production]\nregion = eu-west-1\naws_access_key_id = test\naws_secret_access_key = test\n"
    )


@pytest.fixture
def _deployed() -> Iterator[None]:
    with mock_aws():
        client = boto3.client("cloudformation", region_name="eu-west-1")
        client.create_stack(StackName="mine", TemplateBody=json.dumps(TEMPLATE))
        yield


def write_state(directory: Path, *, pid: int, started: str) -> None:
    running = RunningCloud(
        pid=pid,
        started=started,
        front_url="http://127.0.0.1:3990",
        endpoint_url="http://127.0.0.1:5900",
        lambda_endpoint_url="http://127.0.0.1:3990",
        stack_name="local-stack",
        bucket_name="bucket",
        region="eu-central-1",
        log_dir="",
        outputs={},
        variables={},
        sam_variables={},
    )
    state_file.write(running, directory)


def test_local_stack_is_reached_at_the_endpoints_of_its_state_file(tmp_path: Path) -> None:
    write_state(tmp_path, pid=os.getpid(), started=state_file.start_of(os.getpid()))

    stack = find_stack(state_dir=tmp_path)

    assert stack.name == "local-stack"
    assert stack.client("lambda").meta.endpoint_url == "http://127.0.0.1:3990"
    assert stack.client("dynamodb").meta.endpoint_url == "http://127.0.0.1:5900"
    assert stack.client("dynamodb").meta.region_name == "eu-central-1"


def test_missing_local_run_is_named_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(LocalRunAbsentError, match="no local run in .*: start one with `burstcache local up`, or name"):
        find_stack(state_dir=tmp_path)


def test_local_run_that_is_gone_is_none(tmp_path: Path) -> None:
    write_state(tmp_path, pid=os.getpid(), started="1")  # this process's number, of an earlier process

    with pytest.raises(LocalRunAbsentError, match="no local run in"):
        find_stack(state_dir=tmp_path)


@pytest.mark.usefixtures("_deployed")
@pytest.mark.parametrize("options", [{"region": "eu-west-1"}, {"profile": "production"}])
def test_deployed_stack_is_found_by_its_name(options: dict[str, Any]) -> None:
    stack = find_stack(stack_name="mine", **options)

    assert stack.output("TableName") == "the-table"
    assert stack.client("lambda").meta.endpoint_url == "https://lambda.eu-west-1.amazonaws.com"


@pytest.mark.usefixtures("_deployed")
def test_stack_that_does_not_exist_is_named_with_its_region() -> None:
    stack = find_stack(stack_name="yours", region="eu-west-1")

    with pytest.raises(InvalidSettingError, match="--stack-name yours: there is no such stack in eu-west-1"):
        stack.output("TableName")


@pytest.mark.usefixtures("_deployed")
def test_stack_of_something_else_lacks_an_output_that_is_named() -> None:
    stack = find_stack(stack_name="mine", region="eu-west-1")

    with pytest.raises(StackIncompleteError, match="'mine'.* no output KeyLifecycleArn.* It has RedisNodes, StateNo"):
        stack.output("KeyLifecycleArn")


@pytest.mark.usefixtures("_deployed")
def test_part_that_the_stack_was_deployed_without_is_named_with_its_parameter() -> None:
    stack = find_stack(stack_name="mine", region="eu-west-1")
    vars(stack)["_described"] = {"Outputs": [{"OutputKey": "TableName", "OutputValue": "t"}]}

    with pytest.raises(StackIncompleteError, match="'mine' has no output PoolSettings: it has no pool.* PoolMembers"):
        stack.output("PoolSettings")


@pytest.mark.usefixtures("_deployed")
def test_stack_that_is_not_complete_is_named_with_its_status() -> None:
    stack = find_stack(stack_name="mine", region="eu-west-1")
    vars(stack)["_described"] = {"StackStatus": "CREATE_IN_PROGRESS"}

    with pytest.raises(StackIncompleteError, match=r"stack 'mine' \(CREATE_IN_PROGRESS\) has no output .* It has none"):
        stack.output("TableName")


@pytest.mark.usefixtures("_deployed")
def test_what_an_update_still_makes_or_has_removed_is_not_asked_for() -> None:
    stack = find_stack(stack_name="mine", region="eu-west-1")
    balancer = {"LogicalResourceId": "LoadBalancer", "ResourceType": "AWS::ElasticLoadBalancingV2::LoadBalancer"}
    function = {"LogicalResourceId": "OldFunction", "ResourceType": "AWS::Lambda::Function"}
    summaries = [
        {**balancer, "ResourceStatus": "CREATE_IN_PROGRESS"},
        {**function, "PhysicalResourceId": "mine-Old-0123", "ResourceStatus": "DELETE_COMPLETE"},
        {**function, "PhysicalResourceId": "mine-Failed-0123", "ResourceStatus": "DELETE_FAILED"},
    ]
    page = {"StackResourceSummaries": summaries}
    paginator = SimpleNamespace(paginate=lambda **_: [page])
    vars(stack)["clients"] = SimpleNamespace(make=lambda _: SimpleNamespace(get_paginator=lambda _: paginator))

    assert [each.physical_id for each in stack.resources] == ["mine-Failed-0123"]


@pytest.mark.usefixtures("_deployed")
def test_databases_of_state_are_shown_with_the_nodes() -> None:
    stack = find_stack(stack_name="mine", region="eu-west-1")

    assert stack.system().node_names == ("node-1", "node-2", "state-orders")


@pytest.mark.usefixtures("_deployed")
def test_one_of_two_nodes_must_be_named() -> None:
    stack = find_stack(stack_name="mine", region="eu-west-1")

    assert stack.node_name("node-2") == "node-2"
    with pytest.raises(InvalidSettingError, match="NODE is missing: stack mine has node-1, node-2"):
        stack.node_name("")
    with pytest.raises(InvalidSettingError, match="node 'node-3': stack mine has node-1, node-2"):
        stack.node_name("node-3")


def test_profile_that_does_not_exist_is_named_with_those_that_do() -> None:
    with pytest.raises(InvalidSettingError, match="--profile prod: expected one of .*production"):
        find_stack(stack_name="mine", profile="prod")


def test_missing_region_is_asked_for() -> None:
    with pytest.raises(InvalidSettingError, match="--region is missing"):
        find_stack(stack_name="mine")


@pytest.mark.parametrize("options", [{"region": "eu-west-1"}, {"profile": "production"}])
def test_options_of_a_deployed_stack_need_its_name(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidSettingError, match="applies to deployed stacks only; add --stack-name"):
        find_stack(**options)
