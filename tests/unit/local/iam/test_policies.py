"""Policies as IAM evaluates them: the statement that grants a call, by action, resource and condition."""

from __future__ import annotations

from typing import Any

import pytest

from burstcache_local.iam.policies import Need, denying, granting

_TABLE = "arn:aws:dynamodb:us-east-2:123456789012:table/t"
_KEYS = "dynamodb:LeadingKeys"


def allows(need: Need, condition: dict[str, Any] | None = None, **statement: Any) -> bool:
    shared = {"Effect": "Allow", "Action": "dynamodb:GetItem", "Resource": _TABLE}
    given = {**shared, **statement, **({"Condition": condition} if condition else {})}
    return granting([{"Statement": [given]}], need) is not None


@pytest.mark.parametrize(
    ("pattern", "is_granted"),
    [(_TABLE, True), ("*", True), (f"{_TABLE[:-1]}?", True), (f"{_TABLE}s", False), ("arn:aws:s3:::*", False)],
)
def test_a_resource_is_matched_as_a_whole(pattern: str, is_granted: bool) -> None:
    assert allows(Need("dynamodb:GetItem", _TABLE), Resource=pattern) == is_granted


def test_an_action_is_matched_whatever_its_case_and_no_other_is() -> None:
    assert allows(Need("dynamodb:getitem", _TABLE))
    assert not allows(Need("dynamodb:PutItem", _TABLE))


def test_what_has_no_type_of_resource_is_granted_on_everything_only() -> None:
    assert not allows(Need("dynamodb:GetItem"))
    assert allows(Need("dynamodb:GetItem"), Resource="*")


@pytest.mark.parametrize(
    ("condition", "values", "is_granted"),
    [
        ({"StringEquals": {_KEYS: "a"}}, ("a",), True),
        ({"StringEquals": {_KEYS: "a"}}, ("b",), False),
        ({"StringEquals": {_KEYS: "a"}}, (), False),
        ({"StringEqualsIfExists": {_KEYS: "a"}}, (), True),
        ({"StringEqualsIfExists": {_KEYS: "a"}}, ("b",), False),
        ({"ForAllValues:StringEquals": {_KEYS: ["a", "b"]}}, ("a", "b"), True),
        ({"ForAllValues:StringEquals": {_KEYS: ["a", "b"]}}, ("a", "c"), False),
        ({"ForAllValues:StringEquals": {_KEYS: ["a"]}}, (), True),
        ({"ForAllValues:StringLike": {_KEYS: ["NODE#*"]}}, ("NODE#node-1",), True),
        ({"ForAllValues:StringLike": {_KEYS: ["NODE#*"]}}, ("KEY#1",), False),
        ({"StringNotEquals": {_KEYS: "a"}}, ("a",), False),
        ({"StringNotEquals": {_KEYS: "a"}}, ("b",), True),
        ({"StringNotEquals": {_KEYS: "a"}}, (), True),
        ({"StringNotLike": {_KEYS: ["a*", "b*"]}}, ("b1",), False),
        ({"StringNotLike": {_KEYS: ["a*", "b*"]}}, ("c1",), True),
        ({"ForAnyValue:StringEquals": {_KEYS: "a"}}, ("b", "a"), True),
        ({"ForAnyValue:StringEquals": {_KEYS: "a"}}, (), False),
        ({"ForAnyValue:StringNotLike": {_KEYS: "a*"}}, ("a1", "b1"), True),
        ({"ForAnyValue:StringNotLike": {_KEYS: "a*"}}, ("a1", "a2"), False),
        ({"ForAnyValue:StringNotLike": {_KEYS: "a*"}}, (), False),
        ({"Null": {_KEYS: "true"}}, (), True),
        ({"Null": {_KEYS: "true"}}, ("a",), False),
        ({"Null": {_KEYS: False}}, ("a",), True),
        ({"StringEquals": {_KEYS: "a"}, "ArnLike": {"aws:SourceArn": "arn:*"}}, ("a",), False),
    ],
)
def test_a_condition_holds_as_in_iam(condition: dict[str, Any], values: tuple[str, ...], is_granted: bool) -> None:
    context = {_KEYS: values} if values else {}

    assert allows(Need("dynamodb:GetItem", _TABLE, context), condition) == is_granted


def test_an_unknown_operator_is_an_error_and_no_grant() -> None:
    with pytest.raises(ValueError, match="NumericEquals: expected one of"):
        allows(Need("dynamodb:GetItem", _TABLE), {"NumericEquals": {_KEYS: "1"}})


@pytest.mark.parametrize("statement", [{"Effect": "Deny"}, {"NotAction": "a:B", "Action": None}])
def test_a_statement_that_does_not_simply_allow_is_an_error(statement: dict[str, Any]) -> None:
    given = {"Effect": "Allow", "Action": "a:B", "Resource": "*"} | statement
    given = {name: value for name, value in given.items() if value is not None}

    with pytest.raises(ValueError, match="only statements that allow an Action"):
        granting([{"Statement": given}], Need("a:B"))


_TEAM = "aws:PrincipalTag/team"
_PATH = "arn:aws:execute-api:us-east-2:123456789012:api/$default/GET/objects"


@pytest.mark.parametrize(
    ("team", "path", "is_granted"),
    [
        (("red",), "teams/red/x", True),
        (("red",), "teams/blue/x", False),
        (("red",), "teams/red", False),
        (("*",), "teams/red/x", False),
        (("?ed",), "teams/red/x", False),
        (("*",), "teams/*/x", True),
        ((), "teams/red/x", False),
        ((), "teams//x", False),
    ],
)
def test_a_variable_is_the_text_of_its_value(team: tuple[str, ...], path: str, is_granted: bool) -> None:
    need = Need("execute-api:Invoke", f"{_PATH}/{path}", {_TEAM: team})
    resource = f"{_PATH}/teams/${{{_TEAM}}}/*"

    assert allows(need, Action="execute-api:Invoke", Resource=resource) == is_granted


@pytest.mark.parametrize(
    ("statement", "denied"),
    [
        ({"Action": "ec2:RunInstances", "Resource": "*"}, True),
        ({"Action": "ec2:*", "Resource": "arn:aws:ec2:*:*:instance/*"}, True),
        ({"Action": "ec2:RunInstances", "Resource": "arn:aws:ec2:*:*:volume/*"}, False),
        ({"NotAction": ["iam:*", "s3:*"], "Resource": "*"}, True),
        ({"NotAction": ["iam:*", "ec2:Run*"], "Resource": "*"}, False),
        ({"Action": "*", "NotResource": "arn:aws:ec2:*:*:instance/*"}, False),
        ({"Action": "*", "NotResource": "arn:aws:s3:::*"}, True),
        ({"Action": "*", "Resource": "*", "Condition": {"Null": {"aws:RequestTag/team": "true"}}}, True),
        ({"Action": "*", "Resource": "*", "Condition": {"Null": {"aws:RequestTag/team": "false"}}}, False),
    ],
)
def test_a_statement_denies_what_it_names_under_its_conditions(statement: dict[str, Any], denied: bool) -> None:
    policy = {"Statement": [{"Sid": "One", "Effect": "Deny", **statement}]}
    need = Need("ec2:RunInstances", "arn:aws:ec2:us-east-2:123456789012:instance/*")

    assert (denying([policy], need) == "One") == denied
    assert denying([{"Statement": {"Effect": "Allow", **statement}}], need) is None
