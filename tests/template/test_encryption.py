"""A KMS key of the account's own: what is encrypted with it, and who may use it for what."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from support.deployed import decided, kept

_KEY = "arn:aws:kms:eu-central-1:123456789012:key/11111111-2222-3333-4444-555555555555"
_S3_READERS = {"ProxyFunctionRole", "CacheFunctionRole", "RedisControlFunctionRole", "ReaderPolicy"}
Resources = dict[str, Any]
Walk = Callable[[Any], Iterator[Any]]


@pytest.fixture
def make(translate: Callable[[Mapping[str, str]], dict[str, Any]]) -> Callable[..., Resources]:
    """Return the resources that are made with some answers."""

    def make(**answers: str) -> Resources:
        template = translate(answers)
        return kept(template, "Resources", decided(template, answers))

    return make


def users(resources: Resources, walk: Walk, action: str) -> dict[str, Any]:
    """The statements that allow an action, by the resource that they are in."""
    return {
        name: part
        for name, resource in resources.items()
        for part in walk(resource)
        if isinstance(part, dict) and part.get("Action") == action
    }


def test_readers_of_objects_may_decrypt_them_through_s3(make: Callable[..., Resources], walk: Walk) -> None:
    readers = users(make(KmsKeyArn=_KEY), walk, "kms:Decrypt")

    assert readers.keys() == _S3_READERS == users(make(KmsKeyArn=_KEY), walk, "s3:GetObject").keys()
    for statement in readers.values():
        assert statement["Resource"] == {"Ref": "KmsKeyArn"}
        assert "s3.${AWS::Region}" in str(statement["Condition"]["StringEquals"]["kms:ViaService"])


def test_writers_of_objects_may_have_them_encrypted_through_s3(make: Callable[..., Resources], walk: Walk) -> None:
    writers = users(make(KmsKeyArn=_KEY, Writes="iam"), walk, "kms:GenerateDataKey")

    assert writers.keys() >= {"WriterFunctionRole", "WriterPolicy"}
    assert "WriterFunctionRole" not in users(make(KmsKeyArn=_KEY), walk, "kms:GenerateDataKey")
    for name in ("WriterFunctionRole", "WriterPolicy"):
        assert writers[name]["Resource"] == {"Ref": "KmsKeyArn"}
        assert "s3.${AWS::Region}" in str(writers[name]["Condition"]["StringEquals"]["kms:ViaService"])


def test_redis_control_may_let_ec2_open_the_volume_and_nothing_else(make: Callable[..., Resources], walk: Walk) -> None:
    starters = users(make(KmsKeyArn=_KEY, RedisOn="ec2"), walk, "kms:CreateGrant")

    assert starters.keys() == {"RedisControlFunctionRole"}
    assert starters["RedisControlFunctionRole"]["Condition"] == {"Bool": {"kms:GrantIsForAWSResource": True}}
    assert starters["RedisControlFunctionRole"]["Resource"] == {"Ref": "KmsKeyArn"}


def test_an_instance_may_have_ec2_open_the_volume_of_its_log(make: Callable[..., Resources], walk: Walk) -> None:
    log = {"StateDatabases": "orders", "StatePersistence": "aof"}
    resources = make(KmsKeyArn=_KEY, **log)

    starters = users(resources, walk, "kms:CreateGrant")

    assert starters.keys() == {"RedisControlFunctionRole", "StateInstancePolicy"}
    assert starters["StateInstancePolicy"]["Condition"] == {"Bool": {"kms:GrantIsForAWSResource": True}}
    volume = resources["StateVolume1"]["Properties"]
    assert (volume["Encrypted"], volume["KmsKeyId"]) == (True, {"Ref": "KmsKeyArn"})
    assert "StateInstancePolicy" not in users(make(**log), walk, "kms:CreateGrant")


def test_volumes_and_the_stacks_own_bucket_are_encrypted_with_the_key(make: Callable[..., Resources]) -> None:
    resources = make(KmsKeyArn=_KEY, RedisOn="ec2")

    (volume,) = resources["RedisLaunchTemplate"]["Properties"]["LaunchTemplateData"]["BlockDeviceMappings"]
    assert (volume["Ebs"]["Encrypted"], volume["Ebs"]["KmsKeyId"]) == (True, {"Ref": "KmsKeyArn"})
    (rule,) = resources["OriginBucket"]["Properties"]["BucketEncryption"]["ServerSideEncryptionConfiguration"]
    assert rule["ServerSideEncryptionByDefault"] == {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": {"Ref": "KmsKeyArn"}}


def test_without_a_key_nobody_needs_one(make: Callable[..., Resources], walk: Walk) -> None:
    resources = make(RedisOn="ec2")

    assert [part for part in walk(resources) if isinstance(part, str) and ("kms:" in part or "KmsKeyArn" in part)] == []
    (volume,) = resources["RedisLaunchTemplate"]["Properties"]["LaunchTemplateData"]["BlockDeviceMappings"]
    assert volume["Ebs"]["Encrypted"] is True


@pytest.mark.parametrize("nodes", ["0", "1", "8"])
@pytest.mark.parametrize("relay", ["nlb", "none"])
def test_without_nodes_there_is_no_volume_to_open(
    make: Callable[..., Resources], walk: Walk, nodes: str, relay: str
) -> None:
    resources = make(KmsKeyArn=_KEY, RedisOn="ec2", RedisNodeCount=nodes, Relay=relay, OriginBucketName="theirs")

    assert ("RedisLaunchTemplate" in resources) == (nodes != "0")
    assert "OriginBucket" not in resources
    assert users(resources, walk, "kms:Decrypt").keys() == _S3_READERS & resources.keys()
