"""A stack on AWS or in the local run, with AWS clients."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import boto3
from botocore.exceptions import ClientError, InvalidRegionError, ProfileNotFound
from botocore.session import Session
from botocore.utils import validate_region_name

from burstcache.access import parse_nodes
from burstcache.adapters.clients import Clients
from burstcache.adapters.clock import Clock, SystemClock
from burstcache.adapters.stack_outputs import OPTIONAL_OUTPUTS
from burstcache.core.errors import BurstcacheError, InvalidSettingError
from burstcache.queries.slices import ObjectHead
from burstcache.queries.system import System
from burstcache_local import state_file
from burstcache_local.state_file import RunningCloud


class LocalRunAbsentError(BurstcacheError):
    """No local run was found."""


class StackIncompleteError(BurstcacheError):
    """A stack lacks an output that a command needs."""


@dataclass(frozen=True, slots=True)
class Resource:
    """A resource of a stack."""

    logical_id: str
    physical_id: str
    type: str


@dataclass(frozen=True)
class Stack:
    """A stack with its service endpoints."""

    name: str
    session: Any
    endpoint_urls: Mapping[str, str]  # by service, with "" for all others (no entries: AWS's own endpoints)

    def client(self, service: str) -> Any:
        """Return a new client of `service` for this stack."""
        return self.clients.make(service)

    @cached_property
    def clients(self) -> Clients:
        """AWS clients for this stack."""
        return Clients("patient", session=self.session, endpoint_urls=self.endpoint_urls)

    @cached_property
    def outputs(self) -> Mapping[str, str]:
        """The stack's outputs by name. Raises InvalidSettingError if the stack does not exist."""
        return {output["OutputKey"]: output["OutputValue"] for output in self._described.get("Outputs", [])}

    @property
    def created_s(self) -> float:
        """The creation time since 1970 [s]. Raises InvalidSettingError if the stack does not exist."""
        created: datetime = self._described["CreationTime"]
        return created.timestamp()

    @property
    def is_protected(self) -> bool:
        """Whether the stack has termination protection."""
        return bool(self._described.get("EnableTerminationProtection", False))

    @property
    def is_burstcache(self) -> bool:
        """Whether this is a Burstcache stack, according to its outputs or, if its creation failed, its parameters."""
        return "TableName" in self.outputs or {"OriginBucketName", "HitValueUsdPerMillion"} <= self.parameters.keys()

    @cached_property
    def parameters(self) -> Mapping[str, str]:
        """The parameter values of the latest update or, without updates, the creation."""
        return {each["ParameterKey"]: each["ParameterValue"] for each in self._described.get("Parameters", [])}

    @property
    def version(self) -> tuple[Any, ...]:
        """A value that changes at the start and end of each update, and when the stack is recreated."""
        described = self._described
        return described["StackId"], described.get("LastUpdatedTime"), described["StackStatus"]

    @cached_property
    def _described(self) -> Mapping[str, Any]:
        try:
            answer = self.client("cloudformation").describe_stacks(StackName=self.name)
        except ClientError as error:
            # CloudFormation reports a missing stack as a ValidationError.
            if error.response["Error"]["Code"] == "ValidationError":
                region = self.session.region_name
                raise InvalidSettingError(f"--stack-name {self.name}: there is no such stack in {region}") from error
            raise
        described: Mapping[str, Any] = answer["Stacks"][0]
        return described

    def output(self, name: str) -> str:
        """Return an output's value, or raise StackIncompleteError if there is no such output."""
        if name in OPTIONAL_OUTPUTS and name not in self.outputs and self.is_burstcache:
            raise StackIncompleteError(f"stack {self.name!r} has no output {name}: {OPTIONAL_OUTPUTS[name]}")
        if name not in self.outputs:
            raise StackIncompleteError(
                f"stack {self.name!r} ({self._described['StackStatus']}) has no output {name}: is it a Burstcache"
                f" stack with the parts for this? It has {', '.join(sorted(self.outputs)) or 'none'}"
            )
        return self.outputs[name]

    @property
    def is_deployed(self) -> bool:
        """Whether the stack is deployed to AWS instead of the local run."""
        return not self.endpoint_urls

    @cached_property
    def resources(self) -> tuple[Resource, ...]:
        """The existing resources, without resources that are still being created and have no physical id."""
        pages = self.client("cloudformation").get_paginator("list_stack_resources").paginate(StackName=self.name)
        return tuple(
            Resource(each["LogicalResourceId"], each["PhysicalResourceId"], each["ResourceType"])
            for page in pages
            for each in page["StackResourceSummaries"]
            if each.get("PhysicalResourceId") and each["ResourceStatus"] != "DELETE_COMPLETE"
        )

    @property
    def functions(self) -> Mapping[str, str]:
        """The names of the stack's functions, by logical id."""
        return {each.logical_id: each.physical_id for each in self.resources if each.type == "AWS::Lambda::Function"}

    def configuration(self, function_name: str) -> Mapping[str, Any]:
        """Return a function's configuration as from Lambda's GetFunctionConfiguration."""
        # The local run's Lambda endpoint only supports Invoke, so use the general endpoint.
        urls = {service: url for service, url in self.endpoint_urls.items() if service != "lambda"}
        client = Clients("patient", session=self.session, endpoint_urls=urls).make("lambda")
        configuration: Mapping[str, Any] = client.get_function_configuration(FunctionName=function_name)
        return configuration

    @cached_property
    def node_names(self) -> tuple[str, ...]:
        """Names of the stack's Redis nodes."""
        return tuple(node.name for node in parse_nodes(self.outputs.get("RedisNodes", "")))

    @cached_property
    def database_nodes(self) -> tuple[str, ...]:
        """Names of the stack's nodes with state databases, which are shown but not operated by hand."""
        return tuple(node.name for node in parse_nodes(self.outputs.get("StateNodes", "")))

    def node_name(self, name: str) -> str:
        """Return the name of one of the stack's Redis nodes. An empty `name` selects the stack's only node.

        Raises:
            InvalidSettingError: The stack has no node with that name, or `name` is empty and does not identify a node.
        """
        if not name and len(self.node_names) == 1:
            return self.node_names[0]
        if name not in self.node_names:
            problem = f"node {name!r}" if name else "NODE is missing"
            raise InvalidSettingError(f"{problem}: stack {self.name} has {', '.join(self.node_names) or 'none'}")
        return name

    def system(self, clock: Clock | None = None) -> System:
        """Return the stack as a system for queries. The default clock is this machine's clock."""
        return System(
            table_name=self.output("TableName"),
            key_machine_arn=self.outputs.get("KeyLifecycleArn", ""),  # absent in a stack without tiers
            node_machine_arn=self.outputs.get("RedisNodeArn", ""),
            node_names=(*self.node_names, *self.database_nodes),
            dynamodb=self.clients.dynamodb,
            states=self.clients.states,
            clock=clock or SystemClock(),
        )


def find_stack(
    *, stack_name: str = "", region: str = "", profile: str = "", state_dir: Path = state_file.STATE_DIR
) -> Stack:
    """Return the deployed stack with that name, or the local run if the name is empty.

    Raises:
        InvalidSettingError: An option is invalid, or does not apply to the local run.
        LocalRunAbsentError: The name is empty and there is no local run.
    """
    if stack_name:
        return _deployed(stack_name, region, profile)
    for option, value in (("--region", region), ("--profile", profile)):
        if value:
            raise InvalidSettingError(f"{option} {value}: applies to deployed stacks only; add --stack-name")
    return local_stack(running_in(state_dir))


def absent_stack(stack: Stack) -> bool:
    """Return whether the stack does not exist or has been deleted."""
    try:
        return bool(stack.version[-1] == "DELETE_COMPLETE")
    except InvalidSettingError:
        return True


def kept_values(stack: Stack) -> dict[str, str]:
    """Return the values of parameters that an update keeps unless it names others.

    Those are the deployed ones, and `RedisOn` = `ec2` of a stack from before this parameter that has nodes.
    """
    if absent_stack(stack):
        return {}
    values = dict(stack.parameters)
    if "RedisOn" not in values and any(each.logical_id.startswith("RedisInstance") for each in stack.resources):
        values["RedisOn"] = "ec2"
    return values


def failed_resources(cloudformation: Any, name: str, verb: str) -> Iterator[str]:
    """Yield the resources on which a stack's latest operation failed, with reasons. Events are newest first.

    Args:
        cloudformation: A client.
        name: The stack.
        verb: The operation: CREATE, UPDATE or DELETE.
    """
    for page in cloudformation.get_paginator("describe_stack_events").paginate(StackName=name):
        for each in page["StackEvents"]:
            is_stack = each["ResourceType"] == "AWS::CloudFormation::Stack"
            if is_stack and each["ResourceStatus"] == f"{verb}_IN_PROGRESS":
                return
            if not is_stack and each["ResourceStatus"] in (f"{verb}_FAILED", "CREATE_FAILED"):
                yield f"{each['LogicalResourceId']}: {each.get('ResourceStatusReason', 'no reason was given')}"


def head_of(stack: Stack, key: str) -> ObjectHead:
    """Return size and ETag of an object in the origin. `exists` is None if permission to ask is missing."""
    try:
        answer = stack.client("s3").head_object(Bucket=stack.output("BucketName"), Key=key)
    except ClientError as error:  # HEAD responses have no error code, only a status
        return ObjectHead(exists=False if error.response["Error"]["Code"] == "404" else None)
    return ObjectHead(exists=True, size_bytes=answer["ContentLength"], etag=answer.get("ETag", ""))


def exists(stack: Stack, key: str) -> bool | None:
    """Return whether the origin has an object with this key, or None if permission to check is missing."""
    return head_of(stack, key).exists


def stack_of(args: argparse.Namespace) -> Stack:
    """Return the stack selected by a command's options."""
    return find_stack(stack_name=args.stack_name, region=args.region, profile=args.profile, state_dir=args.state_dir)


def _deployed(stack_name: str, region: str, profile: str) -> Stack:
    return Stack(stack_name, session_of(region=region, profile=profile), {})


def session_of(*, region: str, profile: str) -> Any:
    """Return a boto3 session for a profile and region. Empty arguments default to the AWS configuration.

    Raises:
        InvalidSettingError: The profile does not exist, or the region is missing or malformed.
    """
    try:
        session = boto3.Session(profile_name=profile or None, region_name=region or None)
    except ProfileNotFound as error:
        name = profile or os.environ.get("AWS_PROFILE", "")
        profiles = ", ".join(Session().available_profiles)
        remedy = f"expected one of {profiles}" if profiles else "this machine has none; `aws configure` creates one"
        raise InvalidSettingError(f"--profile {name}: {remedy}") from error
    if not session.region_name:
        raise InvalidSettingError(
            "--region is missing, and the profile names none: set AWS_REGION, or for make REGION=NAME"
        )
    try:
        validate_region_name(session.region_name)
    except InvalidRegionError as error:
        raise InvalidSettingError(f"--region {session.region_name!r}: expected one such as eu-central-1") from error
    return session


def running_in(state_dir: Path) -> RunningCloud:
    """Return the local run in a folder, or raise LocalRunAbsentError."""
    if (running := state_file.read(state_dir)) is None:
        raise LocalRunAbsentError(
            f"no local run in {state_dir}: start one with `burstcache local up`, or name a deployed one (--stack-name)"
        )
    return running


def local_stack(running: RunningCloud) -> Stack:
    """Return a local run's stack."""
    session = boto3.Session(aws_access_key_id="local", aws_secret_access_key="local", region_name=running.region)
    endpoint_urls = {"": running.endpoint_url, "lambda": running.lambda_endpoint_url}
    return Stack(running.stack_name, session, endpoint_urls)
