"""Resource types that moto's CloudFormation lacks or breaks. A class defined for a type overrides moto's own class."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from moto.cloudformation import parsing
from moto.cloudformation.exceptions import UnformattedGetAttTemplateException
from moto.core.common_models import CloudFormationModel
from moto.core.utils import pascal_to_camelcase, remap_nested_keys

from burstcache_local.functions import ACCOUNT
from burstcache_local.moto import custom_resources
from burstcache_local.moto.services import Services, of_region

Properties = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Made:
    """A created resource, with the values of `Ref` and `Fn::GetAtt`."""

    ref: str
    attributes: Mapping[str, Any]


Maker = Callable[[str, Properties, Services], Made]


def _http_api(name: str, properties: Properties, services: Services) -> Made:
    title = properties["Body"]["info"]["title"]
    api = services.client("apigatewayv2").create_api(Name=title, ProtocolType="HTTP")
    return Made(api["ApiId"], {"ApiId": api["ApiId"], "ApiEndpoint": services.front_url})


def _stage(name: str, properties: Properties, services: Services) -> Made:
    stage = properties["StageName"]
    services.client("apigatewayv2").create_stage(ApiId=properties["ApiId"], StageName=stage, AutoDeploy=True)
    return Made(stage, {})


def _state_machine(name: str, properties: Properties, services: Services) -> Made:
    definition = properties["DefinitionString"]
    for placeholder, value in properties.get("DefinitionSubstitutions", {}).items():
        definition = definition.replace(f"${{{placeholder}}}", str(value))
    arn = services.client("stepfunctions").create_state_machine(
        name=properties.get("StateMachineName", name),
        definition=definition,
        roleArn=properties["RoleArn"],
        type=properties.get("StateMachineType", "STANDARD"),
    )["stateMachineArn"]
    return Made(arn, {"Arn": arn, "Name": arn.rpartition(":")[2]})


def _event_bus(name: str, properties: Properties, services: Services) -> Made:
    arn = services.client("events").create_event_bus(Name=name)["EventBusArn"]
    return Made(name, {"Arn": arn, "Name": name})


def _load_balancer(name: str, properties: Properties, services: Services) -> Made:
    accepted = ("Subnets", "SecurityGroups", "Scheme", "Type", "IpAddressType")
    balancer = services.client("elbv2").create_load_balancer(
        Name=name, **{part: properties[part] for part in accepted if part in properties}
    )["LoadBalancers"][0]
    arn = balancer["LoadBalancerArn"]
    is_network = properties.get("Type") == "network"
    return Made(
        arn,
        {
            "LoadBalancerArn": arn,
            "DNSName": services.relay_address if is_network else services.front_url.partition("//")[2],
            "LoadBalancerName": name,
            "LoadBalancerFullName": arn.partition("loadbalancer/")[2],
            "CanonicalHostedZoneID": balancer["CanonicalHostedZoneId"],
        },
    )


def _task_definition(name: str, properties: Properties, services: Services) -> Made:
    """Register all properties. moto's own class leaves out roles and the network mode."""
    definition = remap_nested_keys(dict(properties), pascal_to_camelcase)
    arn = services.client("ecs").register_task_definition(**definition)["taskDefinition"]["taskDefinitionArn"]
    return Made(arn, {"TaskDefinitionArn": arn})


def _target_group(name: str, properties: Properties, services: Services) -> Made:
    accepted = ("VpcId", "TargetType", "Port", "Protocol", "HealthCheckProtocol", "HealthCheckPort", "HealthCheckPath")
    group = services.client("elbv2").create_target_group(
        Name=name, **{part: properties[part] for part in accepted if part in properties}
    )["TargetGroups"][0]
    arn = group["TargetGroupArn"]
    full_name = arn.rpartition(":")[2]
    return Made(arn, {"TargetGroupArn": arn, "TargetGroupFullName": full_name, "TargetGroupName": name})


def _listener(name: str, properties: Properties, services: Services) -> Made:
    protocol = properties["Protocol"]
    listener = services.client("elbv2").create_listener(
        LoadBalancerArn=properties["LoadBalancerArn"],
        Port=int(properties["Port"]),
        Protocol="HTTP" if protocol == "HTTPS" else protocol,  # HTTPS would need a certificate
        DefaultActions=properties["DefaultActions"],
    )["Listeners"][0]
    return Made(listener["ListenerArn"], {"ListenerArn": listener["ListenerArn"]})


def _event_invoke_config(name: str, properties: Properties, services: Services) -> Made:
    accepted = ("FunctionName", "MaximumRetryAttempts", "MaximumEventAgeInSeconds", "DestinationConfig")
    services.cloud_client("lambda").put_function_event_invoke_config(
        **{part: properties[part] for part in accepted if part in properties}
    )
    return Made(name, {})


def _function_version(name: str, properties: Properties, services: Services) -> Made:
    return Made(f"{properties['FunctionName']}:1", {"Version": "1"})  # the local cloud has no older versions


def _egress_gateway(name: str, properties: Properties, services: Services) -> Made:
    gateway = services.client("ec2").create_egress_only_internet_gateway(VpcId=properties["VpcId"])
    return Made(gateway["EgressOnlyInternetGateway"]["EgressOnlyInternetGatewayId"], {})


def _directory_bucket(name: str, properties: Properties, services: Services) -> Made:
    bucket = f"{name.lower()[:30]}--{properties['LocationName']}--x-s3"
    services.client("s3").create_bucket(
        Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": services.region}
    )
    return Made(bucket, {"Arn": f"arn:aws:s3express:{services.region}:{ACCOUNT}:bucket/{bucket}"})


def _custom_resource(name: str, properties: Properties, services: Services) -> Made:
    return Made(*custom_resources.create(name, properties, services))


def _role_policy(name: str, properties: Properties, services: Services) -> Made:
    services.client("iam").put_role_policy(
        RoleName=properties["RoleName"],
        PolicyName=properties["PolicyName"],
        PolicyDocument=json.dumps(properties["PolicyDocument"]),
    )
    return Made(properties["PolicyName"], {})


def _queue_policy(name: str, properties: Properties, services: Services) -> Made:
    policy = {"Policy": json.dumps(properties["PolicyDocument"])}
    for url in properties["Queues"]:
        services.client("sqs").set_queue_attributes(QueueUrl=url, Attributes=policy)
    return Made(name, {})


def _launch_template(name: str, properties: Properties, services: Services) -> Made:
    return Made(name, {"LatestVersionNumber": "1"})  # `template/complete.py` copies the data into instances


def _parameter(name: str, properties: Properties, services: Services) -> Made:
    services.client("ssm").put_parameter(Name=name, Type=properties["Type"], Value=properties["Value"])
    return Made(name, {"Type": properties["Type"], "Value": properties["Value"]})


class _AnyAttribute(dict[str, str]):
    def __init__(self, name: str, region: str) -> None:
        super().__init__()
        self._name, self._region = name, region

    def __missing__(self, attribute: str) -> str:
        arn = f"arn:aws:local:{self._region}:{ACCOUNT}:{self._name}"
        return arn if attribute == "Arn" else f"{self._name}-{attribute}"


def _placeholder(name: str, properties: Properties, services: Services) -> Made:
    """Create a placeholder for a resource that the local cloud does not use, with generated attributes."""
    return Made(name, _AnyAttribute(name, services.region))


# Type → name property and maker.
_TYPES: dict[str, tuple[str, Maker]] = {
    "AWS::ApiGatewayV2::Api": ("", _http_api),
    "AWS::ApiGatewayV2::Stage": ("", _stage),
    "AWS::CloudFormation::CustomResource": ("", _custom_resource),
    "AWS::EC2::EgressOnlyInternetGateway": ("", _egress_gateway),
    "AWS::EC2::LaunchTemplate": ("LaunchTemplateName", _launch_template),
    "AWS::ECS::TaskDefinition": ("", _task_definition),
    "AWS::ElasticLoadBalancingV2::Listener": ("", _listener),
    "AWS::ElasticLoadBalancingV2::LoadBalancer": ("Name", _load_balancer),
    "AWS::ElasticLoadBalancingV2::TargetGroup": ("Name", _target_group),
    "AWS::Events::EventBus": ("Name", _event_bus),
    "AWS::IAM::RolePolicy": ("", _role_policy),
    "AWS::Lambda::Alias": ("", _placeholder),
    "AWS::Lambda::EventInvokeConfig": ("", _event_invoke_config),
    "AWS::Lambda::EventSourceMapping": ("", _placeholder),  # `event_sources.py` takes the messages
    "AWS::Lambda::Version": ("", _function_version),
    "AWS::S3Express::DirectoryBucket": ("BucketName", _directory_bucket),
    "AWS::SQS::QueuePolicy": ("", _queue_policy),
    "AWS::SSM::Parameter": ("Name", _parameter),
    "AWS::StepFunctions::StateMachine": ("StateMachineName", _state_machine),
}


_models: dict[str, type] = {}  # strong references, because moto finds only classes that still exist


def register(types: set[str]) -> set[str]:
    """Register a model with moto for each of `types`. Return the types that become placeholders."""
    for type_, (name_property, maker) in _TYPES.items():
        if type_ not in _models:
            _models[type_] = _model(type_, name_property, maker)
    lacking = {type_ for type_ in types if type_ not in _known_to_moto()}
    for type_ in lacking:
        _models[type_] = _model(type_, "", _placeholder)
    _known_to_moto()
    return lacking


def _known_to_moto() -> set[str]:
    """Search moto's classes again, and return all types that moto can create or ignores."""
    for cached in (parsing.get_model_list, parsing.get_model_map, parsing.get_name_type_map):
        cached.cache_clear()
    return {*parsing.get_model_map(), *parsing.NULL_MODELS}


def _model(type_: str, name_property: str, maker: Maker) -> type:
    """Return a direct subclass of moto's model class. moto does not find indirect subclasses."""

    class Model(CloudFormationModel):  # type: ignore[misc]
        def __init__(self, made: Made) -> None:
            self._made = made

        @property
        def physical_resource_id(self) -> str:
            return self._made.ref

        @staticmethod
        def cloudformation_type() -> str:
            return type_

        @staticmethod
        def cloudformation_name_type() -> str:
            return name_property

        @classmethod
        def create_from_cloudformation_json(
            cls, resource_name: str, cloudformation_json: Any, account_id: str, region_name: str, **_: Any
        ) -> Model:
            services = of_region(region_name)
            assert services is not None, f"no local cloud has the region {region_name}"
            return cls(maker(resource_name, cloudformation_json.get("Properties", {}), services))

        @classmethod
        def update_from_cloudformation_json(cls, original_resource: Any, *_: Any, **__: Any) -> Any:
            return original_resource

        @classmethod
        def delete_from_cloudformation_json(cls, *_: Any, **__: Any) -> None:
            pass

        @classmethod
        def has_cfn_attr(cls, attr: str) -> bool:
            return True

        def get_cfn_attribute(self, attribute_name: str) -> Any:
            try:
                return self._made.attributes[attribute_name]
            except KeyError:
                raise UnformattedGetAttTemplateException() from None

    return Model
