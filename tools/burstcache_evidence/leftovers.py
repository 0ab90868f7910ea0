"""Leftovers of a deleted stack in an account, looked for by tag, stack and name. Their absence proves a deletion."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from burstcache_evidence import network, visitor
from burstcache_evidence.certificate import certificate_names

_STACK_TAG = "aws:cloudformation:stack-name"
_HELPERS = (network.SUFFIX, visitor.SUFFIX)
_GONE = ("terminated", "shutting-down")
# Deleted resources that keep their tags: terminated instances and NAT gateways for an hour, inactive task definitions.
# Instances and gateways have lists of their own.
_GHOSTS = (":instance/", ":task-definition/", ":natgateway/")


def leftovers(session: Any, name: str, tags: Mapping[str, str]) -> dict[str, list[str]]:
    """Return a stack's leftovers by kind of resource. A kind without leftovers has an empty list.

    Args:
        session: A boto3 session.
        name: The stack's name.
        tags: The tags of the run, which all its resources have that can be tagged.
    """
    ec2 = session.client("ec2")
    of_stack = [{"Name": f"tag:{_STACK_TAG}", "Values": [name, *(name + suffix for suffix in _HELPERS)]}]
    return {
        "stacks": list(_stacks(session.client("cloudformation"), name)),
        "instances": [
            each["InstanceId"]
            for page in ec2.get_paginator("describe_instances").paginate(Filters=of_stack)
            for reservation in page["Reservations"]
            for each in reservation["Instances"]
            if each["State"]["Name"] not in _GONE
        ],
        "volumes": _ids(ec2, "describe_volumes", "Volumes", "VolumeId", of_stack),
        "snapshots": _ids(ec2, "describe_snapshots", "Snapshots", "SnapshotId", of_stack, OwnerIds=["self"]),
        "networks": _ids(ec2, "describe_vpcs", "Vpcs", "VpcId", of_stack),
        "NAT gateways": [
            each["NatGatewayId"]
            for page in ec2.get_paginator("describe_nat_gateways").paginate(Filters=of_stack)
            for each in page["NatGateways"]
            if each["State"] not in ("deleting", "deleted")
        ],
        "addresses": [each["AllocationId"] for each in ec2.describe_addresses(Filters=of_stack)["Addresses"]],
        "interfaces": list(_interfaces(ec2, name, of_stack)),
        "tasks": list(_tasks(session.client("ecs"), name)),
        "buckets": [
            each["Name"] for each in session.client("s3").list_buckets()["Buckets"] if each["Name"].startswith(name)
        ],
        "log groups": [
            each["logGroupName"]
            for page in session.client("logs").get_paginator("describe_log_groups").paginate()
            for each in page["logGroups"]
            if name in each["logGroupName"]
        ],
        "parameters": [
            each["Name"]
            for page in session.client("ssm")
            .get_paginator("describe_parameters")
            .paginate(ParameterFilters=[{"Key": "Path", "Option": "Recursive", "Values": [f"/burstcache/{name}"]}])
            for each in page["Parameters"]
        ],
        "certificates": certificate_names(session.client("acm"), name),
        "tagged": list(_tagged(session.client("resourcegroupstaggingapi"), name, tags)),
    }


def _stacks(cloudformation: Any, name: str) -> Iterator[str]:
    """Yield the stack and its helpers. CloudFormation goes on listing deleted stacks for 90 days."""
    for page in cloudformation.get_paginator("list_stacks").paginate():
        for each in page["StackSummaries"]:
            if each["StackName"].startswith(name) and each["StackStatus"] != "DELETE_COMPLETE":
                yield f"{each['StackName']} ({each['StackStatus']})"


def _ids(ec2: Any, operation: str, plural: str, field: str, filters: Any, **further: Any) -> list[str]:
    pages = ec2.get_paginator(operation).paginate(Filters=filters, **further)
    return [each[field] for page in pages for each in page[plural]]


def _interfaces(ec2: Any, name: str, of_stack: Any) -> Iterator[str]:
    """Yield network interfaces: the stack's own, and those of Lambda, whose descriptions name the function."""
    for filters in (of_stack, [{"Name": "description", "Values": [f"AWS Lambda VPC ENI-{name}*"]}]):
        yield from _ids(ec2, "describe_network_interfaces", "NetworkInterfaces", "NetworkInterfaceId", filters)


def _tasks(ecs: Any, name: str) -> Iterator[str]:
    for page in ecs.get_paginator("list_clusters").paginate():
        for cluster in page["clusterArns"]:
            if name in cluster:
                yield cluster.rpartition("/")[2]
                for tasks in ecs.get_paginator("list_tasks").paginate(cluster=cluster):
                    yield from (arn.rpartition("/")[2] for arn in tasks["taskArns"])


def _tagged(tagging: Any, name: str, tags: Mapping[str, str]) -> Iterator[str]:
    """Yield what the Resource Groups Tagging API finds. It forgets a deleted resource after some minutes."""
    filters = [{"Key": key, "Values": [value]} for key, value in tags.items()]
    for page in tagging.get_paginator("get_resources").paginate(TagFilters=filters):
        for each in page["ResourceTagMappingList"]:
            if any(ghost in each["ResourceARN"] for ghost in _GHOSTS):
                continue
            if name in {tag["Value"] for tag in each["Tags"]} or name in each["ResourceARN"]:
                yield each["ResourceARN"].split(":", 5)[-1]
