"""Health probes: side-effect-free AWS calls that verify connectivity and permissions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from burstcache.adapters.calls import call_aws, write_if
from burstcache.adapters.items import to_values
from burstcache.core.errors import ServiceError
from burstcache.core.table import NEVER, ItemKey

if TYPE_CHECKING:
    from types_boto3_dynamodb.client import DynamoDBClient
    from types_boto3_ec2.client import EC2Client
    from types_boto3_lambda.client import LambdaClient
    from types_boto3_stepfunctions.client import SFNClient

_PORTS = {"http": 80, "https": 443}
_INVALID_NAME = "no name"  # execution names must not contain blanks


def endpoint_of(client: Any) -> Callable[[], str]:
    """Return a getter for the host and port of a boto3 client's latest request.

    They may differ from `client.meta.endpoint_url`, since some services resolve a host name per request.
    """
    last_url = [client.meta.endpoint_url]

    def record(request: Any, **_: Any) -> None:
        last_url[0] = request.url

    client.meta.events.register("before-send", record)
    return lambda: host_and_port(last_url[0])


def host_and_port(url: str) -> str:
    """Return a URL's `host:port`."""
    parts = urlsplit(url)
    port = parts.port or _PORTS.get(parts.scheme)
    return f"{parts.hostname}:{port}" if port else str(parts.hostname)


def write(client: DynamoDBClient, table_name: str, item: ItemKey) -> None:
    """Verify the permission to put an item, or raise ServiceError."""
    write_if(client.put_item, TableName=table_name, Item=to_values(item), ConditionExpression=NEVER)


def update(client: DynamoDBClient, table_name: str, item: ItemKey) -> None:
    """Verify the permission to update an item, or raise ServiceError."""
    write_if(client.update_item, TableName=table_name, Key=to_values(item), ConditionExpression=NEVER)


def switch(client: EC2Client, instance_id: str) -> None:
    """Verify the permissions to start and stop an instance, or raise ServiceError."""
    for call in (client.start_instances, client.stop_instances):
        _expect_error({"DryRunOperation"}, call, InstanceIds=[instance_id], DryRun=True)


def start_execution(client: SFNClient, machine_arn: str) -> None:
    """Verify the permission to start an execution, with an invalid name, or raise ServiceError."""
    _expect_error({"InvalidName"}, client.start_execution, stateMachineArn=machine_arn, name=_INVALID_NAME, input="{}")


def invoke(client: LambdaClient, function_name: str) -> None:
    """Verify the permission to invoke a function, in a dry run, or raise ServiceError."""
    call_aws(client.invoke, FunctionName=function_name, InvocationType="DryRun")


def _expect_error(codes: set[str], call: Callable[..., Any], **arguments: Any) -> None:
    """Make a call that a healthy service rejects with one of `codes`. Raise ServiceError for any other error."""
    try:
        call_aws(call, **arguments)
    except ServiceError as error:
        if error.code not in codes:
            raise
