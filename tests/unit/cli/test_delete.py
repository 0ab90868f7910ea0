"""`burstcache delete` removes a stack after its name was typed: first what would keep CloudFormation from it."""

from __future__ import annotations

import gc
import io
import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber
from moto.s3 import models

from burstcache_cli import delete
from burstcache_cli.cli import main
from burstcache_cli.stack import Stack, failed_resources
from support.stack_in_moto import REGION, TEMPLATE, Aws

_BUCKET = "mine-kept"
pytestmark = pytest.mark.slow  # each makes and deletes a stack in moto


@pytest.fixture
def stack(aws: Aws, monkeypatch: pytest.MonkeyPatch) -> Iterator[Aws]:
    """A stack with a bucket that outlives it, in which an object has two versions, and a life under way."""
    bucket = {"Type": "AWS::S3::Bucket", "DeletionPolicy": "Retain", "Properties": {"BucketName": _BUCKET}}
    template: dict[str, Any] = dict(TEMPLATE)
    aws.update({**template, "Resources": {**template["Resources"], "OriginBucket": bucket}})
    s3 = aws.client("s3")
    in_memory = SimpleNamespace(SpooledTemporaryFile=lambda max_size=0: io.BytesIO())  # moto closes no deleted version
    monkeypatch.setattr(models, "tempfile", in_memory)
    monkeypatch.setattr(models.FakeKey, "__del__", lambda self: None)  # which warns of them
    s3.put_bucket_versioning(Bucket=_BUCKET, VersioningConfiguration={"Status": "Enabled"})
    for body in (b"1", b"2"):
        s3.put_object(Bucket=_BUCKET, Key="k", Body=body)
    s3.delete_object(Bucket=_BUCKET, Key="k")
    aws.make_machine("mine-key-lifecycle")
    yield aws
    delete._delete_bucket(s3, _BUCKET)
    gc.collect()


def deleted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, typed: str, *options: str) -> int:
    monkeypatch.setattr("builtins.input", lambda question: typed)
    words = ["delete", "--file", str(tmp_path / "absent.toml"), "--stack-name", "mine", "--region", REGION]
    return main([*words, *options])


def stacks(aws: Aws) -> list[str]:
    return [each["StackName"] for each in aws.client("cloudformation").describe_stacks()["Stacks"]]


def buckets(aws: Aws) -> list[str]:
    return [each["Name"] for each in aws.client("s3").list_buckets()["Buckets"]]


def test_a_stack_goes_once_its_name_was_typed_and_its_bucket_stays(
    stack: Aws, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert deleted(monkeypatch, tmp_path, "mine") == 0

    assert stacks(stack) == []
    assert _BUCKET in buckets(stack)
    printed = capsys.readouterr().out
    assert f"Stack mine in {REGION}, account 123456789012" in printed
    assert f"Stays: bucket {_BUCKET}." in printed


def test_buckets_go_with_every_version_if_that_is_asked_for(
    stack: Aws, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert deleted(monkeypatch, tmp_path, "mine", "--with-buckets") == 0

    assert _BUCKET not in buckets(stack)


@pytest.mark.parametrize("typed", ["", "yes", "mine2"])
def test_nothing_goes_without_its_name(
    stack: Aws, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str], typed: str
) -> None:
    assert deleted(monkeypatch, tmp_path, typed) == 1

    assert stacks(stack) == ["mine"]
    assert "nothing was deleted" in capsys.readouterr().err


def test_a_stack_that_is_gone_is_deleted_again_without_a_question(
    stack: Aws, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert deleted(monkeypatch, tmp_path, "mine") == 0

    assert deleted(monkeypatch, tmp_path, "") == 0

    assert "There is no stack mine" in capsys.readouterr().out


def test_a_stack_that_an_earlier_attempt_left_without_its_table_is_deleted(
    stack: Aws, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    stack.client("dynamodb").delete_table(TableName=stack.table_name)
    asked: list[Any] = []
    monkeypatch.setattr(delete, "_delete_stack", asked.append)

    assert deleted(monkeypatch, tmp_path, "mine") == 0

    assert len(asked) == 1


@pytest.mark.parametrize("parameters", [{}, {"OriginBucketName": {"Type": "String", "Default": ""}}])
def test_another_stack_of_the_account_is_left_as_it_is(
    stack: Aws,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    parameters: dict[str, Any],
) -> None:
    table = {"Table": TEMPLATE["Resources"]["Table"]}  # type: ignore[index]
    other = json.dumps({"Parameters": parameters, "Resources": table})
    stack.client("cloudformation").create_stack(StackName="other", TemplateBody=other)

    assert deleted(monkeypatch, tmp_path, "other", "--stack-name", "other") == 2

    assert "other: not a Burstcache stack" in capsys.readouterr().err
    assert sorted(stacks(stack)) == ["mine", "other"]
    stack.client("cloudformation").delete_stack(StackName="other")


def test_a_stack_that_was_never_made_whole_is_known_by_its_parameters(stack: Aws) -> None:
    given = {name: {"Type": "String", "Default": ""} for name in ("OriginBucketName", "HitValueUsdPerMillion")}
    table = {"Table": TEMPLATE["Resources"]["Table"]}  # type: ignore[index]
    client = stack.client("cloudformation")
    client.create_stack(StackName="half", TemplateBody=json.dumps({"Parameters": given, "Resources": table}))

    assert Stack("half", boto3.Session(region_name=REGION), {}).is_burstcache

    client.delete_stack(StackName="half")


def test_a_protected_stack_is_refused_before_anything_of_it_is_stopped(
    stack: Aws, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Stack, "is_protected", True)

    assert deleted(monkeypatch, tmp_path, "mine") == 1

    assert "termination protection" in capsys.readouterr().err
    assert stack.client("dynamodb").scan(TableName=stack.table_name)["Items"] == []


def test_a_stack_whose_first_change_set_was_not_confirmed_is_deleted(
    stack: Aws, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    table = {"Table": TEMPLATE["Resources"]["Table"]}  # type: ignore[index]
    stack.client("cloudformation").create_change_set(
        StackName="planned", ChangeSetName="c", ChangeSetType="CREATE", TemplateBody=json.dumps({"Resources": table})
    )
    asked: list[Any] = []
    monkeypatch.setattr(delete, "_delete_stack", asked.append)

    assert deleted(monkeypatch, tmp_path, "planned", "--stack-name", "planned") == 0

    assert len(asked) == 1
    stack.client("cloudformation").delete_stack(StackName="planned")


def test_only_failures_of_the_newest_deletion_are_reported() -> None:
    client = boto3.client("cloudformation", REGION, aws_access_key_id="test", aws_secret_access_key="test")

    def event(number: int, name: str, kind: str, status: str, **more: str) -> dict[str, Any]:
        which = {"StackId": "s", "EventId": str(number), "StackName": "mine", "Timestamp": datetime(2026, 1, number)}
        return {**which, "LogicalResourceId": name, "ResourceType": kind, "ResourceStatus": status, **more}

    whole = "AWS::CloudFormation::Stack"
    events = [
        event(6, "mine", whole, "DELETE_FAILED"),
        event(5, "Vpc", "AWS::EC2::VPC", "DELETE_FAILED", ResourceStatusReason="has dependencies"),
        event(4, "mine", whole, "DELETE_IN_PROGRESS"),
        event(3, "mine", whole, "DELETE_FAILED"),
        event(2, "Group", "AWS::EC2::SecurityGroup", "DELETE_FAILED", ResourceStatusReason="in use"),
        event(1, "mine", whole, "DELETE_IN_PROGRESS"),
    ]
    with Stubber(client) as stubber:
        stubber.add_response("describe_stack_events", {"StackEvents": events})

        assert list(failed_resources(client, "mine", "DELETE")) == ["Vpc: has dependencies"]


def test_nothing_starts_any_more_when_cloudformation_is_asked(
    stack: Aws, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen: list[Any] = []

    def look(of: Any) -> None:
        seen.append(stack.client("dynamodb").scan(TableName=stack.table_name)["Items"])

    monkeypatch.setattr(delete, "_delete_stack", look)

    assert deleted(monkeypatch, tmp_path, "mine") == 0

    assert "the stack is being deleted" in str(seen)


def test_executions_that_run_are_stopped_on_every_page() -> None:
    states = boto3.client("stepfunctions", REGION, aws_access_key_id="test", aws_secret_access_key="test")
    stubber = Stubber(states)
    machine = f"arn:aws:states:{REGION}:123456789012:stateMachine:mine"
    for name, more in (("one", {"nextToken": "t"}), ("two", {})):
        arn = f"arn:aws:states:{REGION}:123456789012:execution:mine:{name}"
        times = datetime(2026, 1, 1)
        running = {
            "executionArn": arn,
            "stateMachineArn": machine,
            "name": name,
            "status": "RUNNING",
            "startDate": times,
        }
        stubber.add_response("list_executions", {"executions": [running], **more})
    for _ in range(2):
        stubber.add_response("stop_execution", {"stopDate": datetime(2026, 1, 1)})
    stubber.activate()

    assert delete._stop_executions(states, machine) == 2

    stubber.assert_no_pending_responses()
