"""The needs of an AWS call: the required permissions, as actions, resources and condition context.

Source:
    Service Authorization Reference, for the services below. Other calls need the action with the same name.
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
_PARTITION = "pk"  # partition key of the table
_DIRECTORY = "--x-s3"  # suffix of S3 Express bucket names
# Actions that S3 performs on behalf of the caller for an object encrypted with KMS. HEAD does not decrypt. Source:
# S3 User Guide, "Using server-side encryption with AWS KMS keys".
_KMS_BY_S3 = {"GetObject": "kms:Decrypt", "PutObject": "kms:GenerateDataKey"}
# Writes with If-Match need permission to read the object. The S3 User Guide documents this for deletions in "Enforce
# conditional deletes on Amazon S3 buckets".
_COMPARED = ("DeleteObject", "PutObject")
_NEWEST = "1"  # revision of a family, which policies leave open
_NEW_TASK = "0" * 32
_SERVICE_ROLES = {"ecs.amazonaws.com": "AWSServiceRoleForECS"}


@dataclass(frozen=True, slots=True)
class Place:
    """The region, and properties of the called resources."""

    region: str
    tags: Callable[[str], Mapping[str, str]] = lambda id_: {}  # of an instance, a volume or a task definition
    key: Callable[[str], str] = lambda id_: ""  # KMS key ARN of a bucket or an instance's volumes
    roles: Callable[[str], Iterable[str]] = lambda definition: ()  # ARNs in a task definition

    def arn(self, service: str, resource: str) -> str:
        """Return the ARN of a resource, given its name or ARN."""
        return resource if resource.startswith("arn:") else f"arn:aws:{service}:{self.region}:{ACCOUNT}:{resource}"


def needs(service: str, operation: str, parameters: Parameters, place: Place) -> list[Need]:
    """Return the permissions that a call needs.

    Args:
        service: Service name in signatures, such as `states`.
        operation: Operation name in the service's API, such as `StartExecution`.
        parameters: The call's parameters, named as in the API.
        place: Region and properties of the called resources.
    """
    if service in _NEEDS:
        return list(_NEEDS[service](operation, parameters, place))
    return [Need(f"{service}:{operation}")]


def _dynamodb(operation: str, parameters: Parameters, place: Place) -> Iterable[Need]:
    if operation == "TransactWriteItems":
        for part in parameters["TransactItems"]:
            ((kind, item),) = part.items()
            yield _of_items(_TRANSACTED[kind], item["TableName"], [item.get("Item") or item["Key"]], place)
    elif operation == "BatchGetItem":
        for table, part in parameters["RequestItems"].items():
            yield _of_items(operation, table, part["Keys"], place)
    elif operation == "BatchWriteItem":
        for table, parts in parameters["RequestItems"].items():
            items = [one.get("Item") or one["Key"] for part in parts for one in part.values()]
            yield _of_items(operation, table, items, place)
    elif operation == "Query":
        name, value = _EQUALS.match(parameters["KeyConditionExpression"]).groups()  # type: ignore[union-attr]
        name = parameters.get("ExpressionAttributeNames", {}).get(name, name)
        partition = {name: parameters["ExpressionAttributeValues"][value]}
        yield _of_items(operation, parameters["TableName"], [partition], place)
    else:
        attributes = re.findall(r"[^\s,]+", parameters.get("ProjectionExpression", ""))
        names = parameters.get("ExpressionAttributeNames", {})
        context = {"dynamodb:Attributes": tuple(names.get(each, each) for each in attributes)}
        yield _of_items(
            operation, parameters["TableName"], [parameters.get("Item") or parameters["Key"]], place, context
        )


def _of_items(
    operation: str, table: str, items: list[Parameters], place: Place, context: Mapping[str, tuple[str, ...]] = {}
) -> Need:
    partitions = tuple(str(next(iter(item[_PARTITION].values()))) for item in items)
    arn = place.arn("dynamodb", table if table.startswith("arn:") else f"table/{table}")
    return Need(f"dynamodb:{operation}", arn, {"dynamodb:LeadingKeys": partitions, **context})


def _s3(operation: str, parameters: Parameters, place: Place) -> Iterable[Need]:
    bucket, key = parameters["Bucket"], parameters.get("Key", "")
    if bucket.endswith(_DIRECTORY):
        # A session covers all object operations.
        action = "PutLifecycleConfiguration" if "Lifecycle" in operation else "CreateSession"
        yield Need(f"s3express:{action}", place.arn("s3express", f"bucket/{bucket}"))
    elif key:
        yield Need(f"s3:{operation.replace('Head', 'Get')}", f"arn:aws:s3:::{bucket}/{key}")
        if operation in _COMPARED and parameters.get("IfMatch", "*") != "*":
            yield Need("s3:GetObject", f"arn:aws:s3:::{bucket}/{key}")
        if operation in _KMS_BY_S3 and (kms_key := place.key(bucket)):
            yield Need(_KMS_BY_S3[operation], kms_key, {"kms:ViaService": (f"s3.{place.region}.amazonaws.com",)})
    else:
        action = "ListBucket" if operation.startswith("List") else operation
        yield Need(f"s3:{action}", f"arn:aws:s3:::{bucket}")


def missing_object(bucket: str) -> list[Need]:
    """Return the permission to learn that an object is missing. Without this permission, S3 responds with 403."""
    return [] if bucket.endswith(_DIRECTORY) else [Need("s3:ListBucket", f"arn:aws:s3:::{bucket}")]


def _ssm(operation: str, parameters: Parameters, place: Place) -> Iterable[Need]:
    for name in parameters.get("Names") or [parameters.get("Name") or parameters["Path"]]:
        yield Need(f"ssm:{operation}", place.arn("ssm", f"parameter{name}"))


def _events(operation: str, parameters: Parameters, place: Place) -> Iterable[Need]:
    for entry in parameters["Entries"]:
        bus = entry.get("EventBusName", "default")
        context = {"events:source": (entry["Source"],), "events:detail-type": (entry["DetailType"],)}
        yield Need(f"events:{operation}", place.arn("events", f"event-bus/{bus}"), context)


def _states(operation: str, parameters: Parameters, place: Place) -> Iterable[Need]:
    yield Need(f"states:{operation}", parameters.get("stateMachineArn") or parameters.get("executionArn") or ANY)


def _ec2(operation: str, parameters: Parameters, place: Place) -> Iterable[Need]:
    if operation.startswith("Describe"):
        yield Need(f"ec2:{operation}")
        return
    if operation in ("AttachVolume", "DetachVolume"):
        for kind, id_ in (("instance", parameters["InstanceId"]), ("volume", parameters["VolumeId"])):
            tags = {f"aws:ResourceTag/{name}": (value,) for name, value in place.tags(id_).items()}
            yield Need(f"ec2:{operation}", place.arn("ec2", f"{kind}/{id_}"), tags)
        if operation == "AttachVolume" and (kms_key := place.key(parameters["VolumeId"])):
            yield _grant_to_ec2(kms_key, place)
        return
    for instance in parameters["InstanceIds"]:
        tags = {f"aws:ResourceTag/{name}": (value,) for name, value in place.tags(instance).items()}
        yield Need(f"ec2:{operation}", place.arn("ec2", f"instance/{instance}"), tags)
        # On AWS, EC2 accepts the call even without this permission, but the instance stops immediately.
        if operation == "StartInstances" and (kms_key := place.key(instance)):
            yield _grant_to_ec2(kms_key, place)


def _grant_to_ec2(kms_key: str, place: Place) -> Need:
    via = f"ec2.{place.region}.amazonaws.com"
    return Need("kms:CreateGrant", kms_key, {"kms:GrantIsForAWSResource": ("true",), "kms:ViaService": (via,)})


def _ecs(operation: str, parameters: Parameters, place: Place) -> Iterable[Need]:
    cluster = place.arn("ecs", f"cluster/{parameters['cluster'].rpartition('/')[2]}")
    of_cluster = {"ecs:cluster": (cluster,)}
    if operation == "RunTask":
        name = parameters["taskDefinition"].rpartition("/")[2]
        definition = name if ":" in name else f"{name}:{_NEWEST}"
        tags = {f"aws:RequestTag/{each['key']}": (each["value"],) for each in parameters.get("tags", [])}
        tags |= {f"aws:ResourceTag/{key}": (value,) for key, value in place.tags(parameters["taskDefinition"]).items()}
        yield Need("ecs:RunTask", place.arn("ecs", f"task-definition/{definition}"), {**of_cluster, **tags})
        if "propagateTags" in parameters:
            task = place.arn("ecs", f"task/{cluster.rpartition('/')[2]}/{_NEW_TASK}")
            yield Need("ecs:TagResource", task, {"ecs:CreateAction": ("RunTask",)})
        for role in place.roles(parameters["taskDefinition"]):
            yield Need("iam:PassRole", role, {"iam:PassedToService": ("ecs-tasks.amazonaws.com",)})
    elif operation == "ListTasks":
        yield Need("ecs:ListTasks", ANY, of_cluster)
    elif operation in ("DescribeTasks", "StopTask"):
        for task in parameters.get("tasks") or [parameters["task"]]:
            id_ = task.rpartition("/")[2]
            yield Need(f"ecs:{operation}", place.arn("ecs", f"task/{cluster.rpartition('/')[2]}/{id_}"), of_cluster)
    else:
        yield _service_need(operation, parameters, place)


def _service_need(operation: str, parameters: Parameters, place: Place) -> Need:
    return Need(f"ecs:{operation}", place.arn("ecs", f"service/{parameters['cluster']}/{parameters['service']}"))


def _lambda(operation: str, parameters: Parameters, place: Place) -> Iterable[Need]:
    if operation == "Invoke":
        name = parameters["FunctionName"]
        arn = place.arn("lambda", name if name.startswith("arn:") else f"function:{name}")
        yield Need("lambda:InvokeFunction", arn)
    else:
        yield Need(f"lambda:{operation}")


def _iam(operation: str, parameters: Parameters, place: Place) -> Iterable[Need]:
    service = parameters.get("AWSServiceName", "")
    role = parameters.get("RoleName") or _SERVICE_ROLES[service]
    service = service or next((each for each, name in _SERVICE_ROLES.items() if name == role), "")
    path = f"aws-service-role/{service}/" if service else ""
    context = {"iam:AWSServiceName": (parameters["AWSServiceName"],)} if "AWSServiceName" in parameters else {}
    yield Need(f"iam:{operation}", f"arn:aws:iam::{ACCOUNT}:role/{path}{role}", context)


def _monitoring(operation: str, parameters: Parameters, place: Place) -> Iterable[Need]:
    yield Need(f"cloudwatch:{operation}", ANY, {"cloudwatch:namespace": (parameters.get("Namespace", ""),)})


def _cloudformation(operation: str, parameters: Parameters, place: Place) -> Iterable[Need]:
    name = parameters["StackName"]  # a name leaves the stack's id open, so the permission must cover all ids
    yield Need(f"cloudformation:{operation}", place.arn("cloudformation", name if ":" in name else f"stack/{name}/*"))


_NEEDS: Mapping[str, Callable[[str, Parameters, Place], Iterable[Need]]] = {
    "cloudformation": _cloudformation,
    "dynamodb": _dynamodb,
    "ec2": _ec2,
    "ecs": _ecs,
    "events": _events,
    "iam": _iam,
    "lambda": _lambda,
    "monitoring": _monitoring,  # CloudWatch in signatures
    "s3": _s3,
    "s3express": _s3,  # S3 in signatures with a session
    "ssm": _ssm,
    "states": _states,
}
