"""Calls that show whether a service is reached and lets a function do its work, and that change nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from burstcache.adapters.calls import ask, write_if
from burstcache.adapters.items import to_values
from burstcache.core.errors import ServiceError
from burstcache.core.table import NEVER, ItemKey

if TYPE_CHECKING:
    from types_boto3_dynamodb.client import DynamoDBClient
    from types_boto3_ec2.client import EC2Client
    from types_boto3_lambda.client import LambdaClient
    from types_boto3_stepfunctions.client import SFNClient

_PORTS = {"http": 80, "https": 443}
_NO_NAME = "no name"  # of an execution: a name has no blanks


def endpoint_of(client: Any) -> Callable[[], str]:
    """Return what names the host and port that a boto3 client called last.

    `client.meta.endpoint_url` is not always it: some names are made for each request.
    """
    called = [client.meta.endpoint_url]

    def note(request: Any, **_: Any) -> None:
        called[0] = request.url

    client.meta.events.register("before-send", note)
    return lambda: host_and_port(called[0])


def host_and_port(url: str) -> str:
    """Return `host:port` of a URL."""
    parts = urlsplit(url)
    port = parts.port or _PORTS.get(parts.scheme)
    return f"{parts.hostname}:{port}" if port else str(parts.hostname)


def write(client: DynamoDBClient, table_name: str, item: ItemKey) -> None:
    """Return if DynamoDB would put an item for this function, or raise ServiceError."""
    write_if(client.put_item, TableName=table_name, Item=to_values(item), ConditionExpression=NEVER)


def update(client: DynamoDBClient, table_name: str, item: ItemKey) -> None:
    """Return if DynamoDB would update an item for this function, or raise ServiceError."""
    write_if(client.update_item, TableName=table_name, Key=to_values(item), ConditionExpression=NEVER)


def switch(client: EC2Client, instance_id: str) -> None:
    """Return if EC2 would start and stop an instance for this function, or raise ServiceError."""
    for call in (client.start_instances, client.stop_instances):
        _refused({"DryRunOperation"}, call, InstanceIds=[instance_id], DryRun=True)


def start_execution(client: SFNClient, machine_arn: str) -> None:
    """Return if Step Functions knows a state machine and refuses no more than the name, or raise ServiceError."""
    _refused({"InvalidName"}, client.start_execution, stateMachineArn=machine_arn, name=_NO_NAME, input="{}")


def invoke(client: LambdaClient, function_name: str) -> None:
    """Return if this function may invoke another one, which does not run for it, or raise ServiceError."""
    ask(client.invoke, FunctionName=function_name, InvocationType="DryRun")


def _refused(codes: set[str], call: Callable[..., Any], **arguments: Any) -> None:
    """Return if a service refuses a call with one of `codes`."""
    try:
        ask(call, **arguments)
    except ServiceError as error:
        if error.code not in codes:
            raise
