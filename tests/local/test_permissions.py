"""Permissions of functions, machines, instances and programs in local runs: all needed ones granted, none unused.

Every test shows that nothing is missing: the local run denies calls that a role does not permit, by action, resource
and condition, and `tests/conftest.py` fails a test with a denial. Here each permission is used or has its reason.
"""

from __future__ import annotations

import contextlib
import json
import re
import urllib.error
import urllib.request
from pathlib import Path

import boto3
import pytest

from burstcache.client import Client
from burstcache.core.errors import ObjectNotFoundError
from burstcache.state import state
from burstcache_local.cloud import LocalCloud, LocalOptions
from burstcache_local.errors import LocalCloudError
from burstcache_local.iam.policies import Grant
from support.policies import THESIS
from support.project import ROOT
from support.roles import role_with
from support.waiting import until

_LAST = ("budget", "credentials")  # what the others need is paused, or gone
_EVENTS = sorted((ROOT / "events").glob("*/*.json"), key=lambda path: (path.parent.name in _LAST, path))
# Parameters, and the tier that a hot object reaches: with leased keys, by use, with copies.
_KEY = "arn:aws:kms:us-east-2:123456789012:key/0a1b2c3d"
_STATE = {"StateDatabases": "orders", "StateGraceS": "1", "PolicyOverrides": "redis_check_s=1"}
_RUNS: tuple[tuple[dict[str, str], str], ...] = (
    (THESIS | {"RedisOn": "ec2"}, "redis"),
    ({}, "redis"),
    ({"ExpressZone": "use2-az1", "KmsKeyArn": _KEY, "Writes": "iam", **_STATE}, "express"),
)
_FAILS = {"sqs:SendMessage": "Lambda's own, when it gives an event up"}
_LOGS = {
    f"DeliverItsLog logs:{action}": "Step Functions' own, for the log of its machine"
    for action in (
        *("CreateLogDelivery", "DeleteLogDelivery", "DescribeLogGroups", "DescribeResourcePolicies"),
        *("GetLogDelivery", "ListLogDeliveries", "PutResourcePolicy", "UpdateLogDelivery"),
    )
}
_SESSIONS = {
    f"LetPeopleInBySessionManager {action}": "of the agent of Session Manager"
    for action in (
        *("ssm:UpdateInstanceInformation", "ssmmessages:CreateControlChannel", "ssmmessages:CreateDataChannel"),
        *("ssmmessages:OpenControlChannel", "ssmmessages:OpenDataChannel"),
    )
}
_BY_CHANCE = {
    # Used when a look of the janitor falls between the change of a row and that of the digest.
    ("JanitorFunctionRole", "MendTheDigest dynamodb:UpdateItem"),
    # Used by lives of more than 15 s, which these have on a busy machine alone.
    ("CacheFunctionRole", "EndItsTask states:SendTaskHeartbeat"),
}
_OF_ECS = {
    "HandOverPasswordsAndCertificate ssm:GetParameters": "of ECS, before the task starts",
    "WriteItsLog logs:CreateLogStream": "of ECS",
    "WriteItsLog logs:PutLogEvents": "of ECS",
}
# Granted, and not used in these runs; by role, statement and action, with the reason.
_EXCEPTIONS: dict[str, dict[str, str]] = {
    "AccountFunctionRole": {
        "ReadLimits ec2:DescribeSubnets": "asked after Lambda's settings, which moto does not know",
        "ReadLimits ec2:DescribeInstanceTypeOfferings": "the same",
        "ReadLimits servicequotas:GetServiceQuota": "the same",
    },
    "BudgetFunctionRole": _FAILS,
    "CacheFunctionRole": {
        "ReportWhatItServed events:PutEvents": "given a second time, by SAM, for Lambda's report of one that died",
    },
    "JanitorFunctionRole": {
        "EndLivesPastTheirDeadline states:StopExecution": "no life outlives its deadline here",
    },
    "KeyLifecycleRole": _LOGS,
    "OriginFunctionRole": {
        **_FAILS,
        "MendTheDigestAndAnnounceChanges dynamodb:DeleteItem": "no key is in the digest whose life is over already",
    },
    "RedisControlFunctionRole": _FAILS,
    "RedisInstanceRole": {
        **_SESSIONS,
        "EndTheTaskOfItsBoot states:SendTaskFailure": "Redis answers on every instance here",
        "ReadPasswordsAndCertificate ssm:GetParameter": "of its set-up, which has run when a local instance boots",
    },
    "RedisNodeRole": _LOGS,
    "RedisTaskRole": _OF_ECS,
    "RelayTaskRole": _OF_ECS,
    "SchedulerFunctionRole": _FAILS,
    "StateFunctionRole": {
        "KeepLeasesOfHolders dynamodb:DeleteItem": "of a lease on a database that cools down after a failed boot",
    },
    "StateInstanceRole": {
        **_SESSIONS,
        "EndTheTasksOfItsBootAndItsSave states:SendTaskFailure": "Redis answers on every instance here",
        "ReadPasswordsProgramAndCertificate ssm:GetParameter": "of its set-up, which has run when a local one boots",
        "SaveAndRestore s3:DeleteObject": "of the fourth snapshot",
    },
}

Right = tuple[str, str, str, str]  # role, statement, action, resource


class Rights:
    """Permissions that the roles of a local run grant, and those used, by the template's names."""

    def __init__(self, cloud: LocalCloud) -> None:
        # Of a queue it is a URL, of a machine an ARN.
        ids = {name: re.split("[/:]", id_)[-1] for name, id_ in cloud.physical_ids.items()}
        self._names = {id_: name for name, id_ in ids.items() if len(id_) > len("burstcache")}
        roles = [cloud.physical_ids[name] for name in cloud._stacks[0].template.of_type("AWS::IAM::Role")]
        roles += [name for name in ("ReaderPolicy", "HolderPolicy") if name in cloud.physical_ids]  # of programs
        self.granted = {self._right(role, grant) for role in roles for grant in cloud.guard.granted(role)}
        self.used = {self._right(role, grant) for role, grant in cloud.guard.used}

    def _right(self, role: str, grant: Grant) -> Right:
        resource = grant.resource
        for id_ in sorted(self._names, key=len, reverse=True):
            resource = resource.replace(id_, self._names[id_])
        return self._names.get(role, role), grant.sid, grant.action, resource


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[set[Right], set[Right]]:
    """A burst and every sample event, under each set of parameters: the rights that were granted, and those used."""
    granted, used = set[Right](), set[Right]()
    for parameters, tier in _RUNS:
        options = LocalOptions(
            origin=ROOT / "tools/burstcache_local/samples",
            parameters={**parameters, "MonthlyBudgetUsd": "9"},
            environment={"AWS_ENDPOINT_URL_LAMBDA": ""},  # Lambda is asked where all others are
            run_dir=tmp_path_factory.mktemp("logs"),
            boot_s=0.2,
            stop_s=0.2,
        )
        with LocalCloud(options) as cloud:
            _burst(cloud, tier, _session(cloud, "ReaderPolicyArn"))
            if "StateDatabases" in parameters:
                _hold_twice(cloud)
            if "Writes" in parameters:
                _write(cloud)
            if "RedisTasksFunction" in cloud.physical_ids:
                _run_a_task(cloud)  # which the sample event ends
            for path in _EVENTS:
                _send(cloud, path)
            rights = Rights(cloud)
        granted, used = granted | rights.granted, used | rights.used
    return granted, used


def _session(cloud: LocalCloud, policy: str) -> boto3.Session:
    """Return the session of a program that has one of the stack's policies."""
    role = role_with(cloud, policy)
    return boto3.Session(aws_access_key_id=role, aws_secret_access_key="local", region_name=cloud.region)


def _burst(cloud: LocalCloud, hot_tier: str, readers: boto3.Session) -> None:
    """Ask for an object until it is hot, change it twice, and stop the node; ask for one that does not exist.

    A program reads it in its tiers, as the proxy does.
    """
    urls = {"": cloud.endpoint_url}
    client = Client(stack_name=cloud.stack_name, session=readers, endpoint_urls=urls, memory_bytes=0)

    def tier() -> str:
        with urllib.request.urlopen(f"{cloud.front_url}/objects/hello.txt") as answer:
            return str(answer.headers["X-Cache-Tier"])

    until(lambda: {client.get("hello.txt").tier, tier()} == {hot_tier})
    _send(cloud, ROOT / "events/janitor/scheduled.json")
    for body in (b"changed", b"changed again"):
        cloud.client("s3").put_object(Bucket=cloud.bucket_name, Key="hello.txt", Body=body)
    cloud.invoke("RedisControlFunction", {"op": "release", "node": "node-1"})
    until(lambda: tier() != "redis")
    with pytest.raises(urllib.error.HTTPError, match="404") as missing:
        urllib.request.urlopen(f"{cloud.front_url}/objects/missing.txt")
    missing.value.close()
    with client, pytest.raises(ObjectNotFoundError):
        client.get("missing.txt")


def _write(cloud: LocalCloud) -> None:
    """Write by the front door, on conditions that hold and on one that does not."""

    def ask(method: str, key: str, **headers: str) -> str:
        url, body = f"{cloud.front_url}/objects/{key}", b"1" if method == "PUT" else None
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        with urllib.request.urlopen(urllib.request.Request(url, body, named, method=method)) as answer:
            return str(answer.headers.get("ETag", ""))

    etag = ask("PUT", "written")
    with pytest.raises(urllib.error.HTTPError, match="404") as missing:
        ask("PUT", "missing", if_match=etag)
    missing.value.close()
    ask("DELETE", "written", if_match=ask("PUT", "written", if_match=etag))


def _hold_twice(cloud: LocalCloud) -> None:
    """Hold a database that sleeps, once it is asleep again as a workflow would, and let it be saved and restored."""

    def ask(op: str) -> str:
        payload = {"op": op, "database": "orders", "holder": "one"} | ({} if op == "release" else {"for_s": 60})
        return str(cloud.invoke("StateFunction", payload)["phase"])

    session = _session(cloud, "HolderPolicyArn")
    for _ in range(2):
        with state("orders", stack=cloud.stack_name, session=session, endpoint_urls={"": cloud.endpoint_url}) as redis:
            redis.incr("n")
            cloud.invoke(
                "StateFunction", {"op": "acquire", "database": "orders", "holder": "two", "for_s": 1, "token": "none"}
            )
        until(lambda: ask("release") == "stopped")


def _run_a_task(cloud: LocalCloud) -> None:
    cloud.invoke("RedisControlFunction", {"op": "hold", "node": "node-1", "for_s": 60})
    until(lambda: cloud.invoke("RedisControlFunction", {"op": "ping", "node": "node-1"})["phase"] == "running")


def _send(cloud: LocalCloud, path: Path) -> None:
    """Invoke the function of a sample event, if the run has it."""
    event = json.loads(path.read_text())
    if "StackId" in event:
        event["StackId"] = cloud.client("cloudformation").describe_stacks()["Stacks"][0]["StackId"]
    if "BucketName" in event.get("ResourceProperties", {}):
        event["ResourceProperties"]["BucketName"] = cloud.physical_ids.get("ExpressBucket", "")
    if "Family" in event.get("ResourceProperties", {}) and "RedisTasksFunction" in cloud.physical_ids:
        variables = cloud.function_variables("RedisControlFunction")
        event["ResourceProperties"]["Cluster"] = variables["TASK_CLUSTER"]
        event["ResourceProperties"]["Family"] = variables["TASK_DEFINITION"]
    if "ResponseURL" in event:
        event["ResponseURL"] = f"{cloud.lambda_endpoint_url}/custom-resources/sample"
    function = path.parent.name.title().replace("_", "") + "Function"
    if function in cloud.physical_ids:
        with contextlib.suppress(LocalCloudError):  # of a life or a run that this cloud does not have
            cloud.invoke(function, event)


def test_no_role_has_a_right_that_is_not_used(run: tuple[set[Right], set[Right]]) -> None:
    granted, used = run
    unused = sorted(granted - used)

    assert {(role, f"{sid} {action}".strip()) for role, sid, action, _ in unused} - _BY_CHANCE == {
        (role, right) for role, reasons in _EXCEPTIONS.items() for right in reasons
    }, "\n".join(map(str, unused))
