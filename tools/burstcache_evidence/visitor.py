"""The visitor of a stack: a Lambda function in its VPC with the gateway's layer, or the same code on this machine."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from burstcache.core.errors import BurstcacheError
from burstcache_cli.stack import Stack, absent_stack
from burstcache_evidence import visitor_handler
from burstcache_evidence.helpers import create_helper

SUFFIX = "-visitor"
LAYER = Path("build/gateway-layer")
_KEY = "evidence/visitor-layer.zip"
_FUNCTION = "VisitorName"


class VisitorFailedError(BurstcacheError):
    """The visitor failed, or cannot be deployed."""


def deploy_visitor(stack: Stack, tags: Mapping[str, str]) -> None:
    """Deploy the visitor of a stack, unless an interrupted run has.

    Raises:
        VisitorFailedError: The layer was not built.
        HelperFailedError: CloudFormation refused the function.
    """
    name = stack.name + SUFFIX
    if absent_stack(Stack(name, stack.session, {})):
        if not LAYER.is_dir():
            raise VisitorFailedError(f"{LAYER} is missing: `make gateway-layer` builds it")
        with tempfile.TemporaryDirectory() as folder:
            archive = shutil.make_archive(str(Path(folder) / "layer"), "zip", LAYER)
            stack.client("s3").upload_file(archive, stack.output("BucketName"), _KEY)
    create_helper(stack.session, name, template_of(stack), tags)


def visit(stack: Stack, event: Mapping[str, Any]) -> dict[str, Any]:
    """Invoke the visitor with an event and return its answer. Raises VisitorFailedError if it fails."""
    name = Stack(stack.name + SUFFIX, stack.session, {}).output(_FUNCTION)
    answer = stack.client("lambda").invoke(FunctionName=name, Payload=json.dumps(event).encode())
    content: dict[str, Any] = json.loads(answer["Payload"].read())
    if "FunctionError" in answer:
        raise VisitorFailedError(f"{content.get('errorType', 'error')}: {content.get('errorMessage', content)}")
    return content


def template_of(stack: Stack) -> dict[str, Any]:
    """Return the template of a stack's visitor."""
    bucket, arn = stack.output("BucketName"), f"arn:aws:s3:::{stack.output('BucketName')}"
    subnets = stack.configuration(stack.functions["ProxyFunction"])["VpcConfig"]["SubnetIds"]
    managed = "arn:aws:iam::aws:policy/service-role/AWSLambdaVPCAccessExecutionRole"
    allowed = {"Effect": "Allow", "Action": ["s3:GetObject", "s3:ListBucket"], "Resource": [arn, f"{arn}/*"]}
    trusted = {"Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"}, "Action": "sts:AssumeRole"}
    return {
        "Resources": {
            "Logs": {"Type": "AWS::Logs::LogGroup", "Properties": {"RetentionInDays": 1}},
            "Role": {
                "Type": "AWS::IAM::Role",
                "Properties": {
                    "AssumeRolePolicyDocument": _policy(trusted),
                    "ManagedPolicyArns": [managed, stack.output("HolderPolicyArn")],
                    "Policies": [{"PolicyName": "Reads", "PolicyDocument": _policy(allowed)}],
                },
            },
            "Layer": {
                "Type": "AWS::Lambda::LayerVersion",
                "Properties": {
                    "Content": {"S3Bucket": bucket, "S3Key": _KEY},
                    "CompatibleArchitectures": ["arm64"],
                    "CompatibleRuntimes": ["python3.14"],
                },
            },
            "Visitor": {
                "Type": "AWS::Lambda::Function",
                "Properties": {
                    "Code": {"ZipFile": Path(visitor_handler.__file__).read_text("utf-8")},
                    "Handler": "index.handler",
                    "Runtime": "python3.14",
                    "Architectures": ["arm64"],
                    "MemorySize": 1024,
                    "Timeout": 180,  # a database that sleeps boots within
                    "Role": {"Fn::GetAtt": ["Role", "Arn"]},
                    "Layers": [{"Ref": "Layer"}],
                    "LoggingConfig": {"LogGroup": {"Ref": "Logs"}},
                    "VpcConfig": {
                        "SubnetIds": list(subnets),
                        "SecurityGroupIds": [stack.output("HolderSecurityGroupId")],
                        "Ipv6AllowedForDualStack": True,
                    },
                    "Environment": {
                        "Variables": {
                            "AWS_ENDPOINT_URL_S3": "http://127.0.0.1:9000",
                            "AWS_USE_DUALSTACK_ENDPOINT": "true",  # the subnets reach AWS over IPv6 alone
                            "BURSTCACHE_GATEWAY_OPTIONS": f"--bucket {bucket} --memory-mib 64",
                            "BURSTCACHE_STATE": stack.output("StateSettings"),
                        }
                    },
                },
            },
        },
        "Outputs": {_FUNCTION: {"Value": {"Ref": "Visitor"}}},
    }


def _policy(statement: Mapping[str, Any]) -> dict[str, Any]:
    return {"Version": "2012-10-17", "Statement": [statement]}
