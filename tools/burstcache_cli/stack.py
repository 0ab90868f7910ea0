"""Finds a stack: on this machine by the local run's state file, in AWS by its name. Both speak the same API."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
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
from burstcache.core.errors import BurstcacheError, InvalidSettingError
from burstcache.queries.system import System
from burstcache_local import state_file
from burstcache_local.state_file import RunningCloud


class LocalRunAbsentError(BurstcacheError):
    """No system is running on this machine."""


class StackIncompleteError(BurstcacheError):
    """A stack lacks an output that a command needs."""


@dataclass(frozen=True, slots=True)
class Resource:
    """One resource of a stack."""

    logical_id: str
    physical_id: str
    type: str


@dataclass(frozen=True)
class Stack:
    """One stack and how to reach its services."""

    name: str
    session: Any
    endpoint_urls: Mapping[str, str]  # by service; empty text: every other service; no entry: AWS's own

    def client(self, service: str) -> Any:
        """Return a new client of `service` for this stack."""
        return self.clients.make(service)

    @cached_property
    def clients(self) -> Clients:
        """The clients of this stack."""
        return Clients("patient", session=self.session, endpoint_urls=self.endpoint_urls)

    @cached_property
    def outputs(self) -> Mapping[str, str]:
        """The stack's outputs by name; raises InvalidSettingError if there is no stack of that name."""
        return {output["OutputKey"]: output["OutputValue"] for output in self._described.get("Outputs", [])}

    @property
    def created_s(self) -> float:
        """When it was made, since 1970 [s]; raises InvalidSettingError if there is no stack of that name."""
        created: datetime = self._described["CreationTime"]
        return created.timestamp()

    @property
    def is_protected(self) -> bool:
        """Whether CloudFormation refuses to delete it."""
        return bool(self._described.get("EnableTerminationProtection", False))

    @property
    def is_burstcache(self) -> bool:
        """Whether it is a stack of this template, by outputs, or by parameters where it was never made whole."""
        return "TableName" in self.outputs or {"OriginBucketName", "HitValueUsdPerMillion"} <= self.parameters.keys()

    @cached_property
    def parameters(self) -> Mapping[str, str]:
        """The parameters that it was made with, or updated last."""
        return {each["ParameterKey"]: each["ParameterValue"] for each in self._described.get("Parameters", [])}

    @property
    def version(self) -> tuple[Any, ...]:
        """What differs once the stack was updated, and again once that is over, or was made anew."""
        described = self._described
        return described["StackId"], described.get("LastUpdatedTime"), described["StackStatus"]

    @cached_property
    def _described(self) -> Mapping[str, Any]:
        try:
            answer = self.client("cloudformation").describe_stacks(StackName=self.name)
        except ClientError as error:
            # CloudFormation has no error of its own for this: a stack that does not exist is a ValidationError.
            if error.response["Error"]["Code"] == "ValidationError":
                region = self.session.region_name
                raise InvalidSettingError(f"--stack-name {self.name}: there is no such stack in {region}") from error
            raise
        described: Mapping[str, Any] = answer["Stacks"][0]
        return described

    def output(self, name: str) -> str:
        """Return one output, or raise StackIncompleteError."""
        if name not in self.outputs:
            raise StackIncompleteError(
                f"stack {self.name!r} ({self._described['StackStatus']}) has no output {name}: is it one of Burstcache,"
                f" with the parts for this? It has {', '.join(sorted(self.outputs)) or 'none'}"
            )
        return self.outputs[name]

    @property
    def is_deployed(self) -> bool:
        """Whether it is one of AWS, not the local run's."""
        return not self.endpoint_urls

    @cached_property
    def resources(self) -> tuple[Resource, ...]:
        """All that it consists of by now: what is still being made has no name yet."""
        pages = self.client("cloudformation").get_paginator("list_stack_resources").paginate(StackName=self.name)
        return tuple(
            Resource(each["LogicalResourceId"], each["PhysicalResourceId"], each["ResourceType"])
            for page in pages
            for each in page["StackResourceSummaries"]
            if each.get("PhysicalResourceId") and each["ResourceStatus"] != "DELETE_COMPLETE"
        )

    @property
    def functions(self) -> Mapping[str, str]:
        """The names of its functions, by logical id."""
        return {each.logical_id: each.physical_id for each in self.resources if each.type == "AWS::Lambda::Function"}

    def configuration(self, function_name: str) -> Mapping[str, Any]:
        """Return how a function is configured, in the terms of Lambda's API."""
        # The local run's endpoint of Lambda only invokes; what describes functions is behind that of all services.
        urls = {service: url for service, url in self.endpoint_urls.items() if service != "lambda"}
        client = Clients("patient", session=self.session, endpoint_urls=urls).make("lambda")
        configuration: Mapping[str, Any] = client.get_function_configuration(FunctionName=function_name)
        return configuration

    @cached_property
    def node_names(self) -> tuple[str, ...]:
        """The Redis nodes of this stack, which may have none."""
        return tuple(node.name for node in parse_nodes(self.outputs.get("RedisNodes", "")))

    @cached_property
    def database_nodes(self) -> tuple[str, ...]:
        """The nodes of this stack's databases of state, which may have none; people only look at them."""
        return tuple(node.name for node in parse_nodes(self.outputs.get("StateNodes", "")))

    def node_name(self, name: str) -> str:
        """Return the name of a Redis node of this stack; an empty `name` stands for the only one.

        Raises:
            InvalidSettingError: The stack has no node of that name, or several and none was named.
        """
        if not name and len(self.node_names) == 1:
            return self.node_names[0]
        if name not in self.node_names:
            problem = f"node {name!r}" if name else "NODE is missing"
            raise InvalidSettingError(f"{problem}: stack {self.name} has {', '.join(self.node_names) or 'none'}")
        return name

    def system(self, clock: Clock | None = None) -> System:
        """Return what queries ask; the clock is the machine's unless another is given."""
        return System(
            table_name=self.output("TableName"),
            key_machine_arn=self.outputs.get("KeyLifecycleArn", ""),  # a stack without tiers has no lives
            node_machine_arn=self.outputs.get("RedisNodeArn", ""),
            node_names=(*self.node_names, *self.database_nodes),
            dynamodb=self.clients.dynamodb,
            states=self.clients.states,
            clock=clock or SystemClock(),
        )


def find_stack(
    *, stack_name: str = "", region: str = "", profile: str = "", state_dir: Path = state_file.STATE_DIR
) -> Stack:
    """Return the deployed stack of that name, or without a name the one that runs on this machine.

    Raises:
        InvalidSettingError: An option names something that does not exist.
        LocalRunAbsentError: No name was given and nothing runs here.
    """
    if stack_name:
        return _deployed(stack_name, region, profile)
    for option, value in (("--region", region), ("--profile", profile)):
        if value:
            raise InvalidSettingError(f"{option} {value}: is for a deployed stack only; give its --stack-name too")
    return local_stack(running_in(state_dir))


def absent_stack(stack: Stack) -> bool:
    """Whether there is no stack of that name."""
    try:
        return bool(stack.version[-1] == "DELETE_COMPLETE")
    except InvalidSettingError:
        return True


def exists(stack: Stack, key: str) -> bool | None:
    """Return whether the origin has an object; None if this person may not know."""
    try:
        stack.client("s3").head_object(Bucket=stack.output("BucketName"), Key=key)
    except ClientError as error:  # a HEAD has no body, so no code but the status
        return False if error.response["Error"]["Code"] == "404" else None
    return True


def stack_of(args: argparse.Namespace) -> Stack:
    """Return the stack that a command's options name."""
    return find_stack(stack_name=args.stack_name, region=args.region, profile=args.profile, state_dir=args.state_dir)


def _deployed(stack_name: str, region: str, profile: str) -> Stack:
    return Stack(stack_name, session_of(region=region, profile=profile), {})


def session_of(*, region: str, profile: str) -> Any:
    """Return a session of a profile and a region, empty for those of the AWS configuration.

    Raises:
        InvalidSettingError: There is no such profile, or no region is named, or none can have that name.
    """
    try:
        session = boto3.Session(profile_name=profile or None, region_name=region or None)
    except ProfileNotFound as error:
        named = profile or os.environ.get("AWS_PROFILE", "")
        known = Session().available_profiles
        remedy = f"expected one of {', '.join(known)}" if known else "this machine has none; `aws configure` makes one"
        raise InvalidSettingError(f"--profile {named}: {remedy}") from error
    if not session.region_name:
        raise InvalidSettingError("--region is missing: neither the environment nor the profile names one")
    try:
        validate_region_name(session.region_name)
    except InvalidRegionError as error:
        raise InvalidSettingError(f"--region {session.region_name!r}: expected one such as eu-central-1") from error
    return session


def running_in(state_dir: Path) -> RunningCloud:
    """Return the local run of a folder, or raise LocalRunAbsentError."""
    if (running := state_file.read(state_dir)) is None:
        raise LocalRunAbsentError(
            f"no local run in {state_dir}: start one with `burstcache local up`, or name a deployed one (--stack-name)"
        )
    return running


def local_stack(running: RunningCloud) -> Stack:
    """Return the stack of a local run."""
    session = boto3.Session(aws_access_key_id="local", aws_secret_access_key="local", region_name=running.region)
    endpoint_urls = {"": running.endpoint_url, "lambda": running.lambda_endpoint_url}
    return Stack(running.stack_name, session, endpoint_urls)
