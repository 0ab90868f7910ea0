"""Policies are narrow, and what code calls and policies grant is the same."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from functools import cache
from typing import Any

import pytest

from burstcache.core import table

Resources = dict[str, dict[str, Any]]
Code = Callable[[str], list[ast.Module]]

# Of the one module that presigns writes. The class whose methods make these calls is that of readers, too.
_WRITES = {"s3:PutObject", "s3:DeleteObject"}
# boto3 method (or paginator, or waiter) → IAM action, for every call that the functions' code makes to AWS.
_ACTIONS = {
    "describe_stacks": "cloudformation:DescribeStacks",
    "batch_get_item": "dynamodb:BatchGetItem",
    "batch_write_item": "dynamodb:BatchWriteItem",
    "delete_item": "dynamodb:DeleteItem",
    "get_item": "dynamodb:GetItem",
    "put_item": "dynamodb:PutItem",
    "query": "dynamodb:Query",
    "transact_write_items": "dynamodb:UpdateItem",  # all it is used for
    "update_item": "dynamodb:UpdateItem",
    "describe_tasks": "ecs:DescribeTasks",
    "list_tasks": "ecs:ListTasks",
    "run_task": "ecs:RunTask",
    "stop_task": "ecs:StopTask",
    "tasks_stopped": "ecs:DescribeTasks",
    "update_service": "ecs:UpdateService",
    "describe_instance_type_offerings": "ec2:DescribeInstanceTypeOfferings",
    "describe_instances": "ec2:DescribeInstances",
    "describe_subnets": "ec2:DescribeSubnets",
    "start_instances": "ec2:StartInstances",
    "stop_instances": "ec2:StopInstances",
    "put_events": "events:PutEvents",
    "create_service_linked_role": "iam:CreateServiceLinkedRole",
    "get_role": "iam:GetRole",
    "get_account_settings": "lambda:GetAccountSettings",
    "invoke": "lambda:InvokeFunction",
    "get_object": "s3:GetObject",
    "head_object": "s3:GetObject",
    "delete_objects": "s3express:CreateSession",  # all of a directory bucket, as are the next two
    "list_objects_v2": "s3express:CreateSession",
    "put_object": "s3express:CreateSession",
    "put_bucket_lifecycle_configuration": "s3express:PutLifecycleConfiguration",
    "get_service_quota": "servicequotas:GetServiceQuota",
    "delete_parameters": "ssm:DeleteParameters",
    "get_parameter": "ssm:GetParameter",
    "put_parameter": "ssm:PutParameter",
    "describe_execution": "states:DescribeExecution",
    "list_executions": "states:ListExecutions",
    "send_task_failure": "states:SendTaskFailure",
    "send_task_heartbeat": "states:SendTaskHeartbeat",
    "send_task_success": "states:SendTaskSuccess",
    "start_execution": "states:StartExecution",
    "stop_execution": "states:StopExecution",
}
_NOT_A_CALL = {
    "ecs:TagResource",  # RunTask copies the tags of the definition
    "iam:PassRole",  # RunTask passes the role of the definition
    "kms:CreateGrant",  # EC2 calls it for the caller of StartInstances
    "kms:Decrypt",  # S3 calls it for the caller of GetObject
    "kms:GenerateDataKey",  # and this for that of PutObject
    "sqs:DeleteMessage",  # Lambda takes messages for the function
    "sqs:GetQueueAttributes",
    "sqs:ReceiveMessage",
    "s3:ListBucket",  # changes the answer to a GET of a missing key
}
_ONLY_WILDCARD = {
    "ec2:DescribeInstanceTypeOfferings",
    "ec2:DescribeInstances",
    "ec2:DescribeSubnets",
    "ecs:ListTasks",
    "lambda:GetAccountSettings",
    "servicequotas:GetServiceQuota",
    "states:SendTaskFailure",
    "states:SendTaskHeartbeat",
    "states:SendTaskSuccess",
}


def statements(resource: Any) -> Iterator[dict[str, Any]]:
    if isinstance(resource, list):
        for part in resource:
            yield from statements(part)
    elif isinstance(resource, dict):
        for statement in resource.get("Statement", []):
            yield from filter(None, (given(part) for part in statement.get("Fn::If", [statement])))
        for part in resource.values():
            yield from statements(part)


def given(part: Any) -> dict[str, Any] | None:
    """Return a statement, or None for the rest of an `Fn::If` around one."""
    return part if isinstance(part, dict) and "Action" in part else None


def actions(statement: dict[str, Any]) -> set[str]:
    return {statement["Action"]} if isinstance(statement["Action"], str) else set(statement["Action"])


def granted(properties: dict[str, Any]) -> set[str]:
    return {action for statement in statements(properties.get("Policies", [])) for action in actions(statement)}


def called(trees: list[ast.Module]) -> set[str]:
    """IAM actions of the calls in these modules; a method's name may also be given as a text."""
    found = {_ACTIONS[word] for tree in trees for word in words(tree) & _ACTIONS.keys()}
    return found | _WRITES if any("presign_put" in words(tree) for tree in trees) else found


@cache
def words(tree: ast.Module) -> set[str]:
    """Return the names of attributes and the texts in a module."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(node.value)
    return found


def test_a_wildcard_resource_says_why(text: str) -> None:
    bare = [line for line in text.splitlines() if re.search(r"Resource: \W*\*\W*$", line)]
    explained = re.findall(r'Resource: "\*"  # \w+', text)

    assert bare == []
    assert explained


def test_no_action_is_a_wildcard(resources: Resources) -> None:
    for statement in statements(list(resources.values())):
        assert not any("*" in action for action in actions(statement)), statement


def test_functions_get_everything_on_what_has_no_name_only(functions: Resources) -> None:
    wildcards = {
        action
        for properties in functions.values()
        for statement in statements(properties["Policies"])
        if statement["Resource"] == "*"
        for action in actions(statement)
    }

    assert wildcards == _ONLY_WILDCARD


def test_every_statement_says_what_it_is_for(functions: Resources) -> None:
    for name, properties in functions.items():
        for statement in statements(properties["Policies"]):
            assert re.fullmatch("([A-Z][A-Za-z0-9]+)+", statement.get("Sid", "")), (name, statement)


@pytest.mark.slow
def test_no_function_may_do_what_its_code_never_does(functions: Resources, code: Code) -> None:
    for name, properties in functions.items():
        unused = granted(properties) - called(code(properties["Handler"])) - _NOT_A_CALL

        assert not unused, (name, unused)


def test_every_call_of_the_code_is_granted_to_some_function(functions: Resources, code: Code) -> None:
    allowed = set().union(*(granted(properties) for properties in functions.values()))
    made = set().union(*(called(code(properties["Handler"])) for properties in functions.values()))

    assert made <= allowed


def test_passwords_are_read_by_their_users_only(functions: Resources) -> None:
    readers: dict[str, set[str]] = {}
    for name, properties in functions.items():
        for statement in statements(properties["Policies"]):
            if "ssm:GetParameter" in actions(statement):
                asked = statement["Resource"]
                for parameter in asked if isinstance(asked, list) else [asked]:
                    _, parameter, _ = parameter.get("Fn::If", ("", parameter, ""))
                    path = parameter["Fn::Sub"].partition("${AWS::StackName}/")[2]
                    readers.setdefault(path, set()).add(name)

    assert readers == {
        "relay/${CredentialsIssue}/proxy": {"ProxyFunction"},
        "relay/${CredentialsIssue}/cache": {"CacheFunction"},
        "relay/${CredentialsIssue}/control": {"RedisControlFunction"},
        "redis/${CredentialsIssue}/reader": {"ProxyFunction"},
        "redis/${CredentialsIssue}/control": {"RedisControlFunction"},
        "*": {"CredentialsFunction"},
    }


@pytest.mark.parametrize("name", ["ProxyFunction", "CacheFunction", "RedisControlFunction"])
def test_a_function_reads_the_relays_password_of_its_user(
    functions: Resources, resources: Resources, name: str
) -> None:
    variables = functions[name]["Environment"]["Variables"]

    parameter = variables["RELAY_PASSWORD_PARAMETER"]

    assert parameter in resources["RelayPasswords"]["Properties"]["Names"]
    assert parameter["Fn::Sub"].endswith(f"/{variables['RELAY_USER']}")


@pytest.mark.parametrize("name", ["ProxyFunction", "RedisControlFunction"])
def test_a_function_reads_the_password_of_its_user_of_redis(
    functions: Resources, resources: Resources, name: str
) -> None:
    variables = functions[name]["Environment"]["Variables"]

    parameter = variables["REDIS_PASSWORD_PARAMETER"]

    assert parameter in resources["RedisPasswords"]["Properties"]["Names"]
    assert parameter["Fn::Sub"].endswith(f"/{variables['REDIS_USER']}")


def test_a_node_may_read_its_secrets_and_no_other(resources: Resources) -> None:
    cache, certificate, state = (
        [name["Fn::Sub"] for name in resources[each]["Properties"]["Names"]]
        for each in ("RedisPasswords", "RedisCertificate", "StatePassword")
    )

    def folders(policy: str, action: str = "ssm:GetParameter") -> set[str]:
        statements = resources[policy]["Properties"]["PolicyDocument"]["Statement"]
        (allowed,) = [each for each in statements if each.get("Action") == action]
        return {each["Fn::Sub"].partition(":parameter")[2] for each in allowed["Resource"]}

    assert folders("RedisInstancePolicy") == {name.rpartition("/")[0] + "/*" for name in [*cache, *certificate]}
    assert folders("StateInstancePolicy") == {*certificate, *(name.rpartition("/")[0] + "/*" for name in state)}
    assert folders("StateStartPolicy", "ssm:GetParameters") == {*certificate, *state}


def test_a_node_reads_its_own_kind_of_rows_and_of_them_what_it_asks_for(resources: Resources) -> None:
    def rows(policy: str) -> list[str]:
        """Return the patterns of the rows that a policy gives a right to."""
        of_table = [each for each in statements(resources[policy]["Properties"]) if "dynamodb:GetItem" in actions(each)]
        (condition,) = (each["Condition"] for each in of_table)
        assert condition["ForAllValues:StringEquals"]["dynamodb:Attributes"]
        named = [each["dynamodb:LeadingKeys"] for each in condition.values() if "dynamodb:LeadingKeys" in each]
        return [row for each in named for row in each]

    nodes = [
        table.node_item(tag["Value"])["pk"]
        for name, resource in resources.items()
        if re.fullmatch(r"RedisInstance\d", name)
        for tag in resource["Properties"]["Tags"]
        if tag["Key"] == "burstcache-node"
    ]

    (pattern,) = rows("RedisInstancePolicy")
    assert len(nodes) == 8
    assert [node for node in nodes if not fnmatchcase(node, pattern)] == []
    assert not fnmatchcase(table.node_item("state-1")["pk"], pattern)
    assert rows("StateInstancePolicy") == rows("StateTaskPolicy") == [table.node_item("state-*")["pk"]]


def test_the_keeper_of_a_database_may_do_what_its_instance_does_for_its_snapshots(resources: Resources) -> None:
    def allowed(policy: str) -> dict[str, dict[str, Any]]:
        return {each["Sid"]: each for each in statements(resources[policy]["Properties"])}

    instance, task = allowed("StateInstancePolicy"), allowed("StateTaskPolicy")

    of_instances = {"ReadPasswordsProgramAndCertificate", "LetPeopleInBySessionManager"}
    of_volumes = {"FindItsVolume", "TakeItsVolume", "LetEc2OpenItsVolume"}
    assert task.keys() == instance.keys() - of_instances - of_volumes
    columns = [
        set(each.pop("ReadTheRowsOfDatabases")["Condition"]["ForAllValues:StringEquals"]["dynamodb:Attributes"])
        for each in (task, instance)
    ]
    assert columns[0] == columns[1] | {"host"}  # ECS gives a task its address
    assert task == {sid: instance[sid] for sid in task}


def test_the_relay_gets_the_passwords_and_the_certificate_that_are_made(resources: Resources) -> None:
    (container,) = resources["RelayTask"]["Properties"]["ContainerDefinitions"]
    made = [*resources["RelayPasswords"]["Properties"]["Names"], *resources["RelayCertificate"]["Properties"]["Names"]]

    given = [secret["ValueFrom"]["Fn::Sub"].partition(":parameter")[2] for secret in container["Secrets"]]

    assert given == [name["Fn::Sub"] for name in made]


def test_readers_see_the_digest_and_no_other_row(functions: Resources, resources: Resources) -> None:
    for properties in (functions["ProxyFunction"]["Policies"], resources["ReaderPolicy"]["Properties"]):
        of_table = [each for each in statements(properties) if any("dynamodb" in action for action in actions(each))]

        assert [actions(each) for each in of_table] == [{"dynamodb:Query"}]
        assert of_table[0]["Condition"] == {
            "ForAllValues:StringEquals": {"dynamodb:LeadingKeys": [table.DIGEST_PARTITION]}
        }


def test_every_permission_to_invoke_names_who_asks(resources: Resources, walk: Callable[[Any], Iterator[Any]]) -> None:
    permissions = [part["Properties"] for part in resources.values() if part["Type"] == "AWS::Lambda::Permission"]

    assert permissions
    for permission in permissions:
        assert "SourceArn" in permission


@pytest.mark.parametrize(("tracing", "expected"), [("Disabled", set()), ("Active", {"AWSXrayWriteOnlyAccess"})])
def test_functions_may_send_traces_only_where_they_are_wanted(
    translate: Callable[[dict[str, str]], dict[str, Any]], tracing: str, expected: set[str]
) -> None:
    translated = translate({"Tracing": tracing})["Resources"]
    names = ("ProxyFunction", "SchedulerFunction", "CacheFunction", "RedisControlFunction")

    for name in names:
        granted = {str(arn).rpartition("/")[2] for arn in translated[f"{name}Role"]["Properties"]["ManagedPolicyArns"]}
        assert {policy for policy in granted if "xray" in policy.lower()} == expected


def test_machines_may_send_traces_only_where_they_are_wanted(resources: Resources) -> None:
    machines = [each for each in resources.values() if each["Type"] == "AWS::Serverless::StateMachine"]
    policies = [policy for machine in machines for policy in machine["Properties"]["Policies"]]
    senders = [policy for policy in policies if "xray:PutTraceSegments" in str(policy)]

    assert len(senders) == len(machines)
    for sender in senders:
        condition, _, otherwise = sender["Fn::If"]
        assert (condition, otherwise) == ("IsTraced", {"Ref": "AWS::NoValue"})
