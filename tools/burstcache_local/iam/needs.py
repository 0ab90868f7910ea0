"""What a call of AWS needs: which actions, on which resources, with what for conditions to ask about.

Source:
    Service Authorization Reference, of the services below; a call that is not listed needs an action of its own name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from burstcache_local.functions import ACCOUNT
from burstcache_local.iam.policies import ANY, Need

Parameters = Mapping[str, Any]

_TRANSACTED = {"ConditionCheck": "ConditionCheckItem", "Delete": "DeleteItem", "Put": "PutItem", "Update": "UpdateItem"}
_EQUALS = re.compile(r"\s*(\S+)\s*=\s*(:\w+)")
_PARTITION = "pk"  # of the table's key
_DIRECTORY = "--x-s3"  # the end of the name of a bucket of S3 Express
# What S3 does in its caller's name with an object under a KMS key, which a HEAD does not open. S3 User Guide, "Using
# server-side encryption with AWS KMS keys".
_KMS_BY_S3 = {"GetObject": "kms:Decrypt", "PutObject": "kms:GenerateDataKey"}
# Writes whose If-Match takes the right to read what is there. S3 User Guide, "Enforce conditional deletes on Amazon S3
# buckets", which says so of deletions.
_COMPARED = ("DeleteObject", "PutObject")
_SERVICE_ROLES = {"ecs.amazonaws.com": "AWSServiceRoleForECS"}


@dataclass(frozen=True, slots=True)
class Place:
    """Where the called resources are."""

    region: str
    tags: Callable[[str], Mapping[str, str]] = lambda instance_id: {}  # of an EC2 instance
    key: Callable[[str], str] = lambda id_: ""  # ARN of the KMS key of a bucket or of an instance's volumes, if any

    def arn(self, service: str, resource: str) -> str:
        """Return the ARN of a resource that may be given by its name or by its ARN."""
        return resource if resource.startswith("arn:") else f"arn:aws:{service}:{self.region}:{ACCOUNT}:{resource}"


def needs(service: str, operation: str, parameters: Parameters, place: Place) -> list[Need]:
    """Return the rights that one call takes.

    Args:
        service: As a signature names it, such as `states`.
        operation: As the service's API names it, such as `StartExecution`.
        parameters: As the API names them.
        place: Where its resources are.
    """
    if service in _NEEDS:
        return list(_NEEDS[service](operation, parameters, place))
    return [Need(f"{service}:{operation}")]


def _dynamodb(operation: str, asked: Parameters, place: Place) -> Iterable[Need]:
    if operation == "TransactWriteItems":
        for part in asked["TransactItems"]:
            ((kind, item),) = part.items()
            yield _of_items(_TRANSACTED[kind], item["TableName"], [item.get("Item") or item["Key"]], place)
    elif operation == "BatchGetItem":
        for table, part in asked["RequestItems"].items():
            yield _of_items(operation, table, part["Keys"], place)
    elif operation == "BatchWriteItem":
        for table, parts in asked["RequestItems"].items():
            items = [one.get("Item") or one["Key"] for part in parts for one in part.values()]
            yield _of_items(operation, table, items, place)
    elif operation == "Query":
        name, value = _EQUALS.match(asked["KeyConditionExpression"]).groups()  # type: ignore[union-attr]
        name = asked.get("ExpressionAttributeNames", {}).get(name, name)
        partition = {name: asked["ExpressionAttributeValues"][value]}
        yield _of_items(operation, asked["TableName"], [partition], place)
    else:
        attributes = re.findall(r"[^\s,]+", asked.get("ProjectionExpression", ""))
        names = asked.get("ExpressionAttributeNames", {})
        context = {"dynamodb:Attributes": tuple(names.get(each, each) for each in attributes)}
        yield _of_items(operation, asked["TableName"], [asked.get("Item") or asked["Key"]], place, context)


def _of_items(
    operation: str, table: str, items: list[Parameters], place: Place, context: Mapping[str, tuple[str, ...]] = {}
) -> Need:
    partitions = tuple(str(next(iter(item[_PARTITION].values()))) for item in items)
    arn = place.arn("dynamodb", table if table.startswith("arn:") else f"table/{table}")
    return Need(f"dynamodb:{operation}", arn, {"dynamodb:LeadingKeys": partitions, **context})


def _s3(operation: str, asked: Parameters, place: Place) -> Iterable[Need]:
    bucket, key = asked["Bucket"], asked.get("Key", "")
    if bucket.endswith(_DIRECTORY):
        action = "PutLifecycleConfiguration" if "Lifecycle" in operation else "CreateSession"  # of all work on objects
        yield Need(f"s3express:{action}", place.arn("s3express", f"bucket/{bucket}"))
    elif key:
        yield Need(f"s3:{operation.replace('Head', 'Get')}", f"arn:aws:s3:::{bucket}/{key}")
        if operation in _COMPARED and asked.get("IfMatch", "*") != "*":
            yield Need("s3:GetObject", f"arn:aws:s3:::{bucket}/{key}")
        if operation in _KMS_BY_S3 and (kms_key := place.key(bucket)):
            yield Need(_KMS_BY_S3[operation], kms_key, {"kms:ViaService": (f"s3.{place.region}.amazonaws.com",)})
    else:
        action = "ListBucket" if operation.startswith("List") else operation
        yield Need(f"s3:{action}", f"arn:aws:s3:::{bucket}")


def missing_object(bucket: str) -> list[Need]:
    """Return what a caller needs to see that an object is missing; without it S3 answers 403."""
    return [] if bucket.endswith(_DIRECTORY) else [Need("s3:ListBucket", f"arn:aws:s3:::{bucket}")]


def _ssm(operation: str, asked: Parameters, place: Place) -> Iterable[Need]:
    for name in asked.get("Names") or [asked.get("Name") or asked["Path"]]:
        yield Need(f"ssm:{operation}", place.arn("ssm", f"parameter{name}"))


def _events(operation: str, asked: Parameters, place: Place) -> Iterable[Need]:
    for entry in asked["Entries"]:
        bus = entry.get("EventBusName", "default")
        context = {"events:source": (entry["Source"],), "events:detail-type": (entry["DetailType"],)}
        yield Need(f"events:{operation}", place.arn("events", f"event-bus/{bus}"), context)


def _states(operation: str, asked: Parameters, place: Place) -> Iterable[Need]:
    yield Need(f"states:{operation}", asked.get("stateMachineArn") or asked.get("executionArn") or ANY)


def _ec2(operation: str, asked: Parameters, place: Place) -> Iterable[Need]:
    if operation.startswith("Describe"):
        yield Need(f"ec2:{operation}")
        return
    for instance in asked["InstanceIds"]:
        tags = {f"aws:ResourceTag/{name}": (value,) for name, value in place.tags(instance).items()}
        yield Need(f"ec2:{operation}", place.arn("ec2", f"instance/{instance}"), tags)
        # Without it EC2 accepts the call on AWS, and the instance stops at once.
        if operation == "StartInstances" and (kms_key := place.key(instance)):
            via = f"ec2.{place.region}.amazonaws.com"
            yield Need("kms:CreateGrant", kms_key, {"kms:GrantIsForAWSResource": ("true",), "kms:ViaService": (via,)})


def _ecs(operation: str, asked: Parameters, place: Place) -> Iterable[Need]:
    yield Need(f"ecs:{operation}", place.arn("ecs", f"service/{asked['cluster']}/{asked['service']}"))


def _lambda(operation: str, asked: Parameters, place: Place) -> Iterable[Need]:
    if operation == "Invoke":
        name = asked["FunctionName"]
        arn = place.arn("lambda", name if name.startswith("arn:") else f"function:{name}")
        yield Need("lambda:InvokeFunction", arn)
    else:
        yield Need(f"lambda:{operation}")


def _iam(operation: str, asked: Parameters, place: Place) -> Iterable[Need]:
    service = asked.get("AWSServiceName", "")
    role = asked.get("RoleName") or _SERVICE_ROLES[service]
    service = service or next((each for each, name in _SERVICE_ROLES.items() if name == role), "")
    path = f"aws-service-role/{service}/" if service else ""
    context = {"iam:AWSServiceName": (asked["AWSServiceName"],)} if "AWSServiceName" in asked else {}
    yield Need(f"iam:{operation}", f"arn:aws:iam::{ACCOUNT}:role/{path}{role}", context)


def _monitoring(operation: str, asked: Parameters, place: Place) -> Iterable[Need]:
    yield Need(f"cloudwatch:{operation}", ANY, {"cloudwatch:namespace": (asked.get("Namespace", ""),)})


def _cloudformation(operation: str, asked: Parameters, place: Place) -> Iterable[Need]:
    name = asked["StackName"]  # of which IAM knows no stack's id: it asks for a right to them all
    yield Need(f"cloudformation:{operation}", place.arn("cloudformation", name if ":" in name else f"stack/{name}/*"))


_NEEDS: Mapping[str, Callable[[str, Parameters, Place], Iterable[Need]]] = {
    "cloudformation": _cloudformation,
    "dynamodb": _dynamodb,
    "ec2": _ec2,
    "ecs": _ecs,  # of services alone
    "events": _events,
    "iam": _iam,
    "lambda": _lambda,
    "monitoring": _monitoring,  # as CloudWatch's calls are signed
    "s3": _s3,
    "s3express": _s3,  # as sessions are signed
    "ssm": _ssm,
    "states": _states,
}
