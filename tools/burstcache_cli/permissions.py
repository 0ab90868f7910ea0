"""The `burstcache permissions` command, which prints the IAM policy that an account's owner is asked for."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from burstcache_cli.deploy_actions import ACTIONS
from burstcache_cli.role_policies import ANY, StackPolicies, listed
from burstcache_local.errors import TemplateError
from burstcache_terminal.exit_codes import ExitCode
from burstcache_terminal.options import UsageError

MOST_CHARACTERS = 6144  # of a managed policy, without white space (IAM User Guide, "IAM and AWS STS quotas")
_MOST_INLINE = 10_240  # of all inline policies of a role
VERSION = "2012-10-17"
_SAM = "aws-sam-cli-managed-default"  # the stack with SAM CLI's bucket
_SERVICE_ROLES = ("ecs.amazonaws.com", "elasticloadbalancing.amazonaws.com", "ops.apigateway.amazonaws.com")
# Actions that read settings, and that the policy names by a wildcard to be shorter.
_READ_ONLY = (
    *(re.compile(f"[a-z0-9]+:{start}") for start in ("Describe", "List")),
    re.compile("s3:GetBucket"),
)
# Services whose actions are the first statement, so that it and the others fit a managed policy each.
_FIRST = (
    *("apigateway", "budgets", "cloudwatch", "ec2", "ecs", "elasticloadbalancing", "route53", "s3", "s3express"),
    "servicediscovery",
)
_SAM_BUCKET = (
    *("s3:CreateBucket", "s3:GetBucketLocation", "s3:GetBucketPolicy", "s3:GetObject", "s3:ListBucket"),
    *("s3:PutBucketPolicy", "s3:PutBucketPublicAccessBlock", "s3:PutBucketTagging", "s3:PutBucketVersioning"),
    *("s3:PutEncryptionConfiguration", "s3:PutObject"),
)
_STACKS = (
    *("CreateChangeSet", "CreateStack", "DeleteChangeSet", "DeleteStack", "DescribeChangeSet", "DescribeStackEvents"),
    *("DescribeStackResource", "DescribeStackResources", "DescribeStacks", "ExecuteChangeSet", "GetTemplate"),
    *("GetTemplateSummary", "ListChangeSets", "ListStackResources", "TagResource", "UpdateStack"),
)
# Calls of `burstcache delete`, which pauses the stack and stops its executions first.
_DELETE = ("dynamodb:PutItem", "states:ListExecutions", "states:StopExecution")

Document = dict[str, Any]


def permissions(args: argparse.Namespace) -> ExitCode:
    """Print the policy of the deploying role or the permissions boundary, and its size to stderr.

    Raises:
        UsageError: The template cannot be read, or it rejects the parameters.
    """
    try:
        stack = StackPolicies(args.template, dict(args.parameter), args.stack_name, args.region)
    except TemplateError as error:
        raise UsageError(f"burstcache permissions: {args.template}: {error}") from None
    policy = boundary_policy(stack) if args.boundary else deploy_policy(stack)
    print(json.dumps(policy, indent=1))
    print(size_text(policy), file=sys.stderr)
    return ExitCode.SUCCESS


def size_text(policy: Document) -> str:
    """Return a sentence about a policy's size and IAM's quota."""
    size = size_of(policy)
    if size <= MOST_CHARACTERS:
        return f"{size:,} of a managed policy's {MOST_CHARACTERS:,} characters, white space not counted"
    return (
        f"{size:,} characters, white space not counted: more than a managed policy's {MOST_CHARACTERS:,}; add it to the"
        f" role as an inline policy, which may have {_MOST_INLINE:,}, or as two policies: the first"
        " statement, and the others"
    )


def size_of(policy: Document) -> int:
    """Return a policy's size as IAM counts it, without white space."""
    return len(json.dumps(policy, separators=(",", ":")))


def boundary_policy(stack: StackPolicies) -> Document:
    """Return a permissions boundary that allows what the stack's roles allow together.

    Conditions on rows are left out, because the roles' own policies have them. SSM encrypts passwords, for which the
    caller needs KMS: the roles have this permission from the AWS managed key, and a boundary must not take it.
    """
    places = defaultdict[tuple[str, str], set[str]](set)  # action and condition → resources
    for statement in stack.statements():
        for action in statement.actions:
            is_of_rows = action.startswith("dynamodb:")
            condition = "{}" if is_of_rows else json.dumps(statement.condition, sort_keys=True)
            places[action, condition] |= set(statement.resources)
    via_ssm = json.dumps({"StringEquals": {"kms:ViaService": f"ssm.{stack.region}.amazonaws.com"}})
    if stack.region == ANY:
        via_ssm = via_ssm.replace("StringEquals", "StringLike")
    keys = {stack.arn("kms:{r}:*:key/*")}
    for of_ssm, of_kms in (("ssm:GetParameter", "kms:Decrypt"), ("ssm:PutParameter", "kms:Encrypt")):
        if any(action.startswith(of_ssm) for action, _ in places):
            places[of_kms, via_ssm] = keys
    return _document(places)


def deploy_policy(stack: StackPolicies) -> Document:
    """Return the policy of the role that deploys, updates and deletes the stack with SAM CLI.

    Resources of most types are not scoped: their names exist only after their creation, and some actions name none. IAM
    is scoped to the stack's roles and policies, so that the deploying role can pass no other role to a service.
    """
    types = {resource["Type"] for resource in stack.resources.values()}
    actions = {action for type_ in types for action in ACTIONS.get(type_, ())} | set(_DELETE)
    of_iam = {action for action in actions if action.startswith("iam:")}
    first = {action for action in actions if action.partition(":")[0] in _FIRST}
    stacks = [stack.arn(f"cloudformation:{{r}}:*:stack/{name}/*") for name in (stack.stack_name, _SAM)]
    transform = stack.arn("cloudformation:{r}:aws:transform/Serverless-2016-10-31")
    bucket = stack.arn(f"s3:::{_SAM}-*")
    identities = [stack.arn(f"iam::*:{kind}/{stack.name}") for kind in ("instance-profile", "policy", "role")]
    statements = [
        _statement(_compact(first), [ANY]),
        _statement(_compact(actions - of_iam - first), [ANY]),
        _statement(of_iam, identities),
        _statement(["iam:PassRole"], identities[-1:], {"StringEquals": {"iam:PassedToService": _services(stack)}}),
        _statement(
            ["iam:CreateServiceLinkedRole"],
            [stack.arn("iam::*:role/aws-service-role/*")],
            {"StringEquals": {"iam:AWSServiceName": list(_SERVICE_ROLES)}},
        ),
        _statement([f"cloudformation:{action}" for action in _STACKS], [*stacks, transform]),
        _statement(["cloudformation:GetTemplateSummary"], [ANY]),
        _statement(_SAM_BUCKET, [bucket, f"{bucket}/*"]),
        _statement(["lambda:InvokeFunction"], [stack.arn(f"lambda:{{r}}:*:function:{stack.name}")]),
        _statement(["lambda:GetLayerVersion"], [stack.arn("lambda:{r}:*:layer:*")]),
        _statement(["ssm:GetParameters"], [stack.arn("ssm:{r}:*:parameter/aws/service/*")]),
    ]
    return {"Version": VERSION, "Statement": statements}


def _services(stack: StackPolicies) -> list[str]:
    """Return the services that the stack's roles trust, to which the deploying role passes them."""
    trusts = [
        resource["Properties"]["AssumeRolePolicyDocument"]
        for resource in stack.resources.values()
        if resource["Type"] == "AWS::IAM::Role"
    ]
    principals = (each["Principal"]["Service"] for trust in trusts for each in listed(trust["Statement"]))
    return sorted({stack.pattern(service) for services in principals for service in listed(services)})


def _compact(actions: Iterable[str]) -> set[str]:
    """Return the actions with one wildcard for each service's Describe and List actions."""
    return {_wildcard(action) for action in actions}


def _wildcard(action: str) -> str:
    return next((f"{match[0]}*" for each in _READ_ONLY if (match := each.match(action))), action)


def _document(places: Mapping[tuple[str, str], set[str]]) -> Document:
    """Return a policy with one statement for each set of resources and condition."""
    together = defaultdict[tuple[str, tuple[str, ...]], set[str]](set)
    for (action, condition), resources in places.items():
        wider = places.get((action, "{}"), set()) if condition != "{}" else set()
        kept = [each for each in _widest(resources) if not any(fnmatchcase(each, other) for other in wider)]
        if kept:
            together[condition, tuple(kept)].add(action)
    statements = [_statement(actions, where, json.loads(when)) for (when, where), actions in sorted(together.items())]
    return {"Version": VERSION, "Statement": statements}


def _widest(resources: set[str]) -> Iterator[str]:
    """Yield the patterns that no other pattern covers."""
    for each in sorted(resources):
        if not any(fnmatchcase(each, other) for other in resources - {each}):
            yield each


def _statement(
    actions: Iterable[str], resources: Iterable[str], condition: Mapping[str, Any] | None = None
) -> Document:
    where = list(resources)
    statement: Document = {
        "Effect": "Allow",
        "Action": sorted(actions),
        "Resource": where if len(where) > 1 else where[0],
    }
    return {**statement, "Condition": condition} if condition else statement
