"""The stack in moto, created from the template, plus properties that moto's CloudFormation ignores."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from burstcache_local.errors import FunctionNotFoundError, TemplateError
from burstcache_local.event_sources import Mapped
from burstcache_local.front.front_door import Door, HttpApi, LoadBalancer
from burstcache_local.front.http_events import Route
from burstcache_local.functions import ACCOUNT, EventInvokeConfig, FunctionSpec
from burstcache_local.moto import resources
from burstcache_local.moto.services import Services
from burstcache_local.template.names import named
from burstcache_local.template.template import LocalTemplate


class Stack:
    """A stack created from a template, with tags of its own."""

    def __init__(
        self, name: str, template: LocalTemplate, services: Services, tags: Mapping[str, str] | None = None
    ) -> None:
        self.name, self.template, self._services = name, template, services
        self._tags = [{"Key": key, "Value": value} for key, value in (tags or {}).items()]
        self.outputs: dict[str, str] = {}
        self.physical_ids: dict[str, str] = {}  # by logical id

    def create(self) -> None:
        """Create all resources, or raise TemplateError."""
        resources.register({resource["Type"] for resource in self.template.resources.values()})
        cloudformation = self._services.client("cloudformation")
        try:
            body = json.dumps(named(self.template.body, self.name, self._services.region))
            cloudformation.create_stack(StackName=self.name, TemplateBody=body, Tags=self._tags)
        except ClientError as error:
            errors = self._services.errors
            cause = errors.pop() if errors else error
            raise TemplateError(f"the stack cannot be created: {' '.join(str(cause).split())[:500]}") from cause
        (stack,) = cloudformation.describe_stacks(StackName=self.name)["Stacks"]
        if stack["StackStatus"] != "CREATE_COMPLETE":
            raise TemplateError(
                f"the stack is {stack['StackStatus']}: {stack.get('StackStatusReason', 'no reason given')}"
            )
        self.outputs = {output["OutputKey"]: output["OutputValue"] for output in stack["Outputs"]}
        for resource in cloudformation.describe_stack_resources(StackName=self.name)["StackResources"]:
            self.physical_ids[resource["LogicalResourceId"]] = resource.get("PhysicalResourceId", "")
        self._complete()

    def _complete(self) -> None:
        """Set properties that moto's CloudFormation silently drops."""
        for name, properties in self.template.of_type("AWS::DynamoDB::Table").items():
            if "TimeToLiveSpecification" in properties:
                self._services.client("dynamodb").update_time_to_live(
                    TableName=self.physical_ids[name], TimeToLiveSpecification=properties["TimeToLiveSpecification"]
                )
        for name, properties in self.template.of_type("AWS::S3::Bucket").items():
            if "EventBridgeConfiguration" in properties.get("NotificationConfiguration", {}):
                self._services.client("s3").put_bucket_notification_configuration(
                    Bucket=self.physical_ids[name], NotificationConfiguration={"EventBridgeConfiguration": {}}
                )
        for name, properties in self.template.of_type("AWS::IAM::Role").items():
            for policy in properties.get("ManagedPolicyArns", []):
                arn = self._arn_of(policy)
                if f":{ACCOUNT}:policy/" in arn:  # AWS managed policies are not loaded
                    self._services.client("iam").attach_role_policy(RoleName=self.physical_ids[name], PolicyArn=arn)

        for name in self.template.of_type("AWS::ECS::TaskDefinition") if self._tags else ():
            tags = [{"key": each["Key"], "value": each["Value"]} for each in self._tags]
            self._services.client("ecs").tag_resource(resourceArn=self.physical_ids[name], tags=tags)

    def door(self) -> Door:
        """Return the front door, which is the load balancer if the template has one, or else the HTTP API."""
        for name, properties in self.template.of_type("AWS::ElasticLoadBalancingV2::TargetGroup").items():
            if properties.get("TargetType") == "lambda":
                attributes = {each["Key"]: each["Value"] for each in properties.get("TargetGroupAttributes", [])}
                return LoadBalancer(
                    function=self._function_of(properties["Targets"][0]["Id"]),
                    target_group_arn=self.physical_ids[name],
                    multi_value=attributes.get("lambda.multi_value_headers.enabled") == "true",
                )
        routes = [
            Route.parse(key, self.physical_ids[function])
            for properties in self.template.of_type("AWS::ApiGatewayV2::Api").values()
            for key, function in _routes(properties["Body"]["paths"])
        ]
        apis = [self.physical_ids[name] for name in self.template.of_type("AWS::ApiGatewayV2::Api")]
        return HttpApi(sorted(routes, key=lambda route: route.rank), apis[0] if apis else "none")

    def event_sources(self) -> list[Mapped]:
        """Return the functions that take messages from queues."""
        sqs = self._services.client("sqs")
        found = []
        for properties in self.template.of_type("AWS::Lambda::EventSourceMapping").values():
            url = self.physical_ids[_referred(properties["EventSourceArn"])]
            answer = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])
            found.append(
                Mapped(
                    queue_url=url,
                    queue_arn=answer["Attributes"]["QueueArn"],
                    function=self._function_of(properties["FunctionName"]),
                    batch_size=properties["BatchSize"],
                    concurrency=properties["ScalingConfig"]["MaximumConcurrency"],
                )
            )
        return found

    def _arn_of(self, value: Any) -> str:
        """Return a literal ARN, or the ARN of the referenced parameter or resource."""
        if isinstance(value, str):
            return value
        name = _referred(value)
        return str(self.template.parameters.get(name) or self.physical_ids[name])

    def _function_of(self, reference: Any) -> str:
        return self.physical_ids[_referred(reference)]


def _referred(value: Any) -> str:
    """Return the logical id that a Ref, GetAtt or Sub of one resource names."""
    ((name, operand),) = value.items()
    if name == "Fn::Sub":
        return str(operand).partition("${")[2].partition("}")[0].partition(".")[0]
    return str(operand[0] if isinstance(operand, list) else operand)


def _routes(paths: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the key and the function's logical id for each route in an OpenAPI document."""
    for path, methods in paths.items():
        for method, operation in methods.items():
            if (integration := operation.get("x-amazon-apigateway-integration")) is None:
                continue  # a condition excludes the route's function
            uri = integration["uri"]["Fn::Sub"]
            function = uri.partition("functions/${")[2].partition(".Arn}")[0]
            if path == "$default":
                yield path, function
            else:
                yield f"{'ANY' if method.startswith('x-') else method.upper()} {path}", function


def function_named(
    name: str,
    roots: Mapping[str, Path],
    isolated: Collection[str],
    variables: Mapping[str, str],
    services: Services,
) -> tuple[FunctionSpec, EventInvokeConfig]:
    """Return a function's specification and event configuration from moto's Lambda.

    Args:
        name: The function's name.
        roots: Handler → code folder.
        isolated: Handlers of functions with tenant isolation, which moto does not support.
        variables: Environment variables that override the function's own.
        services: The cloud's services.

    Raises:
        FunctionNotFoundError: There is no such function.
    """
    api = services.cloud_client("lambda")
    try:
        config = api.get_function_configuration(FunctionName=name)
    except api.exceptions.ResourceNotFoundException:
        raise FunctionNotFoundError(f"Function not found: {name}") from None
    spec = FunctionSpec(
        name=name,
        arn=config["FunctionArn"].removesuffix(":$LATEST"),
        handler=config["Handler"],
        timeout_s=int(config.get("Timeout") or 3),
        memory_mb=int(config.get("MemorySize") or 128),
        root=roots[config["Handler"]],
        variables={**_texts(config.get("Environment", {}).get("Variables", {})), **variables},
        is_tenant_isolated=config["Handler"] in isolated,
    )
    try:
        async_config = api.get_function_event_invoke_config(FunctionName=name)
    except api.exceptions.ResourceNotFoundException:
        return spec, EventInvokeConfig()
    destination = async_config.get("DestinationConfig", {}).get("OnFailure", {}).get("Destination", "")
    defaults = EventInvokeConfig()
    return spec, EventInvokeConfig(
        max_retries=async_config.get("MaximumRetryAttempts", defaults.max_retries),
        max_age_s=async_config.get("MaximumEventAgeInSeconds", defaults.max_age_s),
        on_failure_arn=destination,
    )


def _texts(variables: Mapping[str, Any]) -> dict[str, str]:
    return {name: str(value) for name, value in variables.items()}
