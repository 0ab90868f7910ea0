"""The creation of a stack's resources as calls, with the context that policies of an account test.

moto creates resources from the template without API calls. For guardrails and the deploying role, each resource stands
for the call that creates it on AWS.

Source:
    Service Authorization Reference, for actions and condition keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from burstcache_local.functions import ACCOUNT
from burstcache_local.iam.policies import Need
from burstcache_local.template.intrinsics import Conditions, only
from burstcache_local.template.names import LIMITS, generated
from burstcache_local.template.template import LocalTemplate

PROPERTY = "property/"  # beginning of condition keys that name a property, which a hook of CloudFormation sees
_CREATIONS: Mapping[str, str] = {
    "AWS::ApiGatewayV2::Api": "apigateway:POST",
    "AWS::ApiGatewayV2::Stage": "apigateway:POST",
    "AWS::Budgets::Budget": "budgets:ModifyBudget",
    "AWS::CloudWatch::Alarm": "cloudwatch:PutMetricAlarm",
    "AWS::CloudWatch::Dashboard": "cloudwatch:PutDashboard",
    "AWS::DynamoDB::Table": "dynamodb:CreateTable",
    "AWS::EC2::EgressOnlyInternetGateway": "ec2:CreateEgressOnlyInternetGateway",
    "AWS::EC2::Instance": "ec2:RunInstances",
    "AWS::EC2::InternetGateway": "ec2:CreateInternetGateway",
    "AWS::EC2::LaunchTemplate": "ec2:CreateLaunchTemplate",
    "AWS::EC2::Route": "ec2:CreateRoute",
    "AWS::EC2::RouteTable": "ec2:CreateRouteTable",
    "AWS::EC2::SecurityGroup": "ec2:CreateSecurityGroup",
    "AWS::EC2::SecurityGroupEgress": "ec2:AuthorizeSecurityGroupEgress",
    "AWS::EC2::SecurityGroupIngress": "ec2:AuthorizeSecurityGroupIngress",
    "AWS::EC2::Subnet": "ec2:CreateSubnet",
    "AWS::EC2::SubnetRouteTableAssociation": "ec2:AssociateRouteTable",
    "AWS::EC2::VPC": "ec2:CreateVpc",
    "AWS::EC2::VPCCidrBlock": "ec2:AssociateVpcCidrBlock",
    "AWS::EC2::VPCEndpoint": "ec2:CreateVpcEndpoint",
    "AWS::EC2::VPCGatewayAttachment": "ec2:AttachInternetGateway",
    "AWS::EC2::Volume": "ec2:CreateVolume",
    "AWS::ECS::Cluster": "ecs:CreateCluster",
    "AWS::ECS::Service": "ecs:CreateService",
    "AWS::ECS::TaskDefinition": "ecs:RegisterTaskDefinition",
    "AWS::ElasticLoadBalancingV2::Listener": "elasticloadbalancing:CreateListener",
    "AWS::ElasticLoadBalancingV2::LoadBalancer": "elasticloadbalancing:CreateLoadBalancer",
    "AWS::ElasticLoadBalancingV2::TargetGroup": "elasticloadbalancing:CreateTargetGroup",
    "AWS::Events::EventBus": "events:CreateEventBus",
    "AWS::Events::Rule": "events:PutRule",
    "AWS::IAM::InstanceProfile": "iam:CreateInstanceProfile",
    "AWS::IAM::ManagedPolicy": "iam:CreatePolicy",
    "AWS::IAM::Role": "iam:CreateRole",
    "AWS::IAM::RolePolicy": "iam:PutRolePolicy",
    "AWS::Lambda::Alias": "lambda:CreateAlias",
    "AWS::Lambda::EventInvokeConfig": "lambda:PutFunctionEventInvokeConfig",
    "AWS::Lambda::EventSourceMapping": "lambda:CreateEventSourceMapping",
    "AWS::Lambda::Function": "lambda:CreateFunction",
    "AWS::Lambda::LayerVersion": "lambda:PublishLayerVersion",
    "AWS::Lambda::Permission": "lambda:AddPermission",
    "AWS::Lambda::Version": "lambda:PublishVersion",
    "AWS::Logs::LogGroup": "logs:CreateLogGroup",
    "AWS::S3::Bucket": "s3:CreateBucket",
    "AWS::S3Express::BucketPolicy": "s3express:PutBucketPolicy",
    "AWS::S3Express::DirectoryBucket": "s3express:CreateBucket",
    "AWS::SNS::Subscription": "sns:Subscribe",
    "AWS::SNS::Topic": "sns:CreateTopic",
    "AWS::SNS::TopicPolicy": "sns:SetTopicAttributes",
    "AWS::SQS::Queue": "sqs:CreateQueue",
    "AWS::SQS::QueuePolicy": "sqs:SetQueueAttributes",
    "AWS::SSM::Parameter": "ssm:PutParameter",
    "AWS::ServiceDiscovery::PrivateDnsNamespace": "servicediscovery:CreatePrivateDnsNamespace",
    "AWS::ServiceDiscovery::Service": "servicediscovery:CreateService",
    "AWS::StepFunctions::StateMachine": "states:CreateStateMachine",
}
_ARNS: Mapping[str, str] = {  # without the beginning; `!` stands for the name
    "AWS::IAM::InstanceProfile": "iam::{account}:instance-profile/!",
    "AWS::IAM::ManagedPolicy": "iam::{account}:policy/!",
    "AWS::IAM::Role": "iam::{account}:role/!",
    "AWS::Lambda::Function": "lambda:{region}:{account}:function:!",
}
_OF_PARAMETERS = ("Ref", "Fn::Select", "Fn::Sub")  # functions whose operands may be parameters alone
_ROLE_PROPERTIES = ("ExecutionRoleArn", "Role", "RoleArn", "TaskRoleArn")
_CUSTOM = "lambda:InvokeFunction"  # CloudFormation invokes a custom resource's function for the deploying role

Properties = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class StackCreation:
    """The calls that create a stack, with the stack's own tags, which CloudFormation hands on to its resources."""

    template: LocalTemplate
    stack_name: str
    region: str
    tags: Mapping[str, str]

    def needs(self) -> Iterator[tuple[str, Need]]:
        """Yield the permissions that the calls need, with the logical ids of their resources."""
        for name, resource in self.template.resources.items():
            properties = self._filled(resource.get("Properties", {}))
            for need in self._needs_of(name, resource["Type"], properties):
                yield name, need

    def _needs_of(self, name: str, type_: str, properties: Properties) -> Iterator[Need]:
        if type_ not in _CREATIONS:
            yield Need(_CUSTOM, self._arn(_target(properties["ServiceToken"])), self._context({}, {}))
            return
        tags = {**self.tags, **_tags(properties.get("Tags", {}))}
        if type_ == "AWS::EC2::Instance":
            yield from self._of_instance(properties, tags)
        else:
            place = properties["RoleName"] if type_ == "AWS::IAM::RolePolicy" else name
            yield Need(_CREATIONS[type_], self._arn(_target(place)), self._context(properties, tags))
        for role in _roles(properties):
            service = self.template.resources[role]["Properties"]["AssumeRolePolicyDocument"]["Statement"][0][
                "Principal"
            ]
            (to, *_) = _listed(service["Service"])
            yield Need("iam:PassRole", self._arn(role), {"iam:PassedToService": (to,)})

    def _of_instance(self, properties: Properties, tags: Mapping[str, str]) -> Iterator[Need]:
        """Yield the needs of one RunInstances call, which creates a volume and an interface and uses an image."""
        specified = {
            each["ResourceType"]: _tags(each.get("Tags", {})) for each in properties.get("TagSpecifications", [])
        }
        are_on_volumes = str(properties.get("PropagateTagsToVolumeOnCreation")).lower() == "true"
        of_kinds = {
            "instance": {**tags, **specified.get("instance", {})},
            "volume": {**(tags if are_on_volumes else {}), **specified.get("volume", {})},
            "network-interface": specified.get("network-interface", {}),
        }
        for kind, its_tags in of_kinds.items():
            arn = f"arn:aws:ec2:{self.region}:{ACCOUNT}:{kind}/*"
            yield Need("ec2:RunInstances", arn, self._context(properties, its_tags))
        image = f"arn:aws:ec2:{self.region}::image/{properties.get('ImageId', '')}"
        yield Need("ec2:RunInstances", image, self._context(properties, {}))

    def _context(self, properties: Properties, tags: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
        context = {f"{PROPERTY}{path}": values for path, values in _flat(properties).items()}
        context["aws:RequestedRegion"] = (self.region,)
        if tags:
            context["aws:TagKeys"] = tuple(tags)
            context |= {f"aws:RequestTag/{key}": (value,) for key, value in tags.items()}
        if subnets := properties.get("VpcConfig", {}).get("SubnetIds"):
            context |= {"lambda:SubnetIds": tuple(map(_target, subnets)), "lambda:VpcIds": ("vpc",)}
        if boundary := properties.get("PermissionsBoundary"):
            context["iam:PermissionsBoundary"] = (str(boundary),)
        return context

    def _arn(self, name: str) -> str:
        resource = self.template.resources[name]
        type_ = resource["Type"]
        property_, most = LIMITS.get(type_, ("", 128))
        given = resource.get("Properties", {}).get(property_)
        known = given if isinstance(given, str) else generated(self.stack_name, name, most, self.region)
        service = _CREATIONS.get(type_, "cloudformation:").partition(":")[0]
        pattern = _ARNS.get(type_, f"{service}:{{region}}:{{account}}:!")
        return "arn:aws:" + pattern.format(region=self.region, account=ACCOUNT).replace("!", known)

    def _filled(self, value: Any) -> Any:
        """Return a value with parameters in place of their references. References to resources stay."""
        if isinstance(value, dict):
            if any(only(value, name) for name in _OF_PARAMETERS):
                try:
                    return Conditions({}, self.template.parameters).value(value)
                except (KeyError, ValueError):  # not of parameters alone
                    pass
            return {name: self._filled(part) for name, part in value.items()}
        return [self._filled(part) for part in value] if isinstance(value, list) else value


def _roles(properties: Any) -> set[str]:
    """Return the logical ids of roles that a resource hands to a service."""
    if isinstance(properties, list):
        return set().union(*map(_roles, properties))
    if not isinstance(properties, dict):
        return set()
    own = {_target(properties[each]) for each in _ROLE_PROPERTIES if isinstance(properties.get(each), dict)}
    return own.union(*map(_roles, properties.values()))


def _target(value: Any) -> str:
    """Return the logical id that a reference names."""
    if isinstance(value, str):
        return value
    ((_, operand),) = value.items()
    return str(operand[0] if isinstance(operand, list) else operand)


def _tags(tags: Any) -> dict[str, str]:
    pairs = tags.items() if isinstance(tags, dict) else [(each["Key"], each["Value"]) for each in tags]
    return {str(key): str(value) for key, value in pairs}


def _flat(value: Any, path: str = "") -> dict[str, tuple[str, ...]]:
    """Return the values of all properties by dotted path. Members of a list have the list's path."""
    if isinstance(value, dict):
        found: dict[str, tuple[str, ...]] = {}
        for name, part in value.items():
            found = _joined(found, _flat(part, f"{path}.{name}" if path else name))
        return found
    if isinstance(value, list):
        found = {}
        for part in value:
            found = _joined(found, _flat(part, path))
        return found
    return {path: (str(value).lower() if isinstance(value, bool) else str(value),)}


def _joined(one: dict[str, tuple[str, ...]], other: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    return {
        path: one.get(path, ()) + other.get(path, ()) for path in (*one, *(each for each in other if each not in one))
    }


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
