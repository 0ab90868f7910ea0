"""The template's roles in worlds. A call of a function or machine is denied unless its role permits it."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import boto3
from botocore.exceptions import ClientError

from burstcache_local.functions import ACCOUNT
from burstcache_local.iam.guard import Guard
from burstcache_local.iam.needs import Place, needs
from burstcache_local.stepfunctions.execution import ROLE
from burstcache_local.template.intrinsics import Conditions, only, walk
from burstcache_local.template.parameters import parameter_values
from support.project import STACK, template

if TYPE_CHECKING:
    from burstcache_local.cloud import LocalCloud  # with all that reads templates: a second

REGION: Final = "eu-central-1"
TABLE, BUCKET, BUS = "table", "origin", "bus"
CLUSTER, FAMILY, STATE_FAMILY = "nodes", "node", "state"  # of tasks
# Logical ids of functions by their names in worlds.
FUNCTIONS = {
    "cache": "CacheFunction",
    "janitor": "JanitorFunction",
    "origin": "OriginFunction",
    "pool_control": "PoolControlFunction",
    "pool_member": "PoolMemberFunction",
    "proxy": "ProxyFunction",
    "redis_control": "RedisControlFunction",
    "scheduler": "SchedulerFunction",
    "state": "StateFunction",
    "writer": "WriterFunction",
}
STACK_ID = f"arn:aws:cloudformation:{REGION}:{ACCOUNT}:stack/{STACK}/51af3dc0-da77-11e4-872e-1234567b2b6e"
MACHINES = {
    "KeyLifecycle": "burstcache-key-lifecycle-51af3dc0",
    "RedisNode": "burstcache-redis-node-51af3dc0",
    "Pool": "burstcache-pool-51af3dc0",
}

_SERVICES = {"eventbridge": "events", "sfn": "states"}  # signing names that differ from botocore's service ids
_CALLER: ContextVar[str] = ContextVar("caller", default="")  # logical id of the running function
_TAGS = {"aws:cloudformation:stack-name": STACK}  # of every instance
_PLACE = Place(REGION, lambda instance_id: _TAGS)


def role_with(cloud: LocalCloud, *policies: str) -> str:
    """Create a role with policies from a stack's outputs. Return its name, with which a program signs."""
    iam, name = cloud.client("iam"), policies[-1].removesuffix("Arn")
    trust = {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"Service": "ec2.amazonaws.com"}}
    document = json.dumps({"Version": "2012-10-17", "Statement": [trust]})
    iam.create_role(RoleName=name, AssumeRolePolicyDocument=document)
    for policy in policies:
        iam.attach_role_policy(RoleName=name, PolicyArn=cloud.outputs[policy])
    return name


@contextmanager
def acting(function: str) -> Iterator[None]:
    """Act as a function, by its name in worlds, for the duration of a `with`."""
    token = _CALLER.set(FUNCTIONS[function])
    try:
        yield
    finally:
        _CALLER.reset(token)


def check(service: str, operation: str, parameters: Mapping[str, Any]) -> None:
    """Check that the running function or machine may make a call. If not, raise the AWS client's AccessDenied error."""
    role = _CALLER.get() or ROLE.get().rpartition("/")[2]
    if role in _documents() and (problem := _guard().problem(role, needs(service, operation, parameters, _PLACE))):
        raise ClientError({"Error": {"Code": "AccessDeniedException", "Message": problem}}, operation)


def check_call(**sent: Any) -> None:
    """Check a boto3 client's call before it is sent."""
    model = sent["model"]
    service = model.service_model.service_id.hyphenize()
    check(_SERVICES.get(service, service), model.name, sent["params"])


@cache
def _guard() -> Guard:
    return Guard(REGION, documents=_documents().__getitem__)


@cache
def _documents() -> dict[str, list[Mapping[str, Any]]]:
    """Return the policies of functions and machines by logical id, in stacks with a relay, on EC2 and on Fargate."""
    documents = defaultdict[str, list[Mapping[str, Any]]](list)
    for kind in ("ec2", "fargate-spot"):
        answers = {"Relay": "nlb", "RedisOn": kind, "StateOn": kind, "StateDatabases": "orders"}
        parameters = parameter_values(template()["Parameters"], answers)
        conditions = Conditions(template(), parameters | {"AWS::Region": REGION})
        for name in (*FUNCTIONS.values(), *MACHINES):
            policies = conditions.resolve(template()["Resources"][name]["Properties"]["Policies"])
            documents[name] += walk(policies, _resolved)
    return documents


def _resolved(value: Any) -> Any:
    """Return a reference as the ARN of its resource in worlds."""
    if only(value, "Ref"):
        return _NAMES[value["Ref"]]
    if only(value, "Fn::Sub"):
        text, variables = value["Fn::Sub"] if isinstance(value["Fn::Sub"], list) else (value["Fn::Sub"], {})
        names = {**_NAMES, **{name: _resolved(each) for name, each in variables.items()}}
        return re.sub(r"\$\{([^}]+)\}", lambda name: names[name[1]], text)
    if only(value, "Fn::Select"):
        index, (separator, text) = value["Fn::Select"][0], value["Fn::Select"][1]["Fn::Split"]
        return str(_resolved(text)).split(separator)[index]
    if only(value, "Fn::GetAtt"):
        attribute = value["Fn::GetAtt"]
        return _NAMES[attribute if isinstance(attribute, str) else ".".join(attribute)]
    return value


_NAMES = {
    "AWS::AccountId": ACCOUNT,
    "AWS::Partition": "aws",
    "AWS::Region": REGION,
    "AWS::StackId": STACK_ID,
    "AWS::StackName": STACK,
    "CredentialsIssue": "1",
    "OriginPrefix": "",
    "RelayCluster": CLUSTER,
    "RelayCluster.Arn": _PLACE.arn("ecs", f"cluster/{CLUSTER}"),
    **{
        f"{role}.Arn": f"arn:aws:iam::{ACCOUNT}:role/node"
        for role in ("RedisTaskRole", "StateStartRole", "StateTaskRole")
    },
    "RedisTasks.Family": FAMILY,
    "StateTasks.Family": STATE_FAMILY,
    "CacheTable.Arn": _PLACE.arn("dynamodb", f"table/{TABLE}"),
    "EventBus.Arn": _PLACE.arn("events", f"event-bus/{BUS}"),
    "OriginEventsQueue.Arn": _PLACE.arn("sqs", "origin-events"),
    "OriginBucket.Arn": f"arn:aws:s3:::{BUCKET}",
    **{f"{function}.Arn": _PLACE.arn("lambda", f"function:{name}") for name, function in FUNCTIONS.items()},
    **{f"{machine}.Name": name for machine, name in MACHINES.items()},
    **{machine: _PLACE.arn("states", f"stateMachine:{name}") for machine, name in MACHINES.items()},
}


def holder_of(cloud: LocalCloud) -> dict[str, Any]:
    """Return the arguments by which a holder of databases names its stack, with a role that may no more."""
    role = role_with(cloud, "HolderPolicyArn")
    session = boto3.Session(aws_access_key_id=role, aws_secret_access_key="local", region_name=cloud.region)
    return {"stack": cloud.stack_name, "session": session, "endpoint_urls": {"": cloud.endpoint_url}}
