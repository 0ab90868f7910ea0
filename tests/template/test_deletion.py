"""Deletion of the stack: the fate of each resource, and the permissions boundaries of the roles."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from support.deployed import deployed

_HAVE_STATE = {
    "AWS::DynamoDB::Table",
    "AWS::EC2::Instance",
    "AWS::EC2::Volume",
    "AWS::Logs::LogGroup",
    "AWS::S3::Bucket",
    "AWS::S3Express::DirectoryBucket",
    "AWS::SQS::Queue",
    "AWS::SSM::Parameter",
    "Custom::Passwords",
    "Custom::RedisCertificate",
    "Custom::RelayCertificate",
}
_POLICIES = ("DeletionPolicy", "UpdateReplacePolicy")
_BOUNDARY = "arn:aws:iam::123456789012:policy/boundary"


def test_all_that_has_state_says_what_becomes_of_it(resources: dict[str, dict[str, Any]]) -> None:
    silent = [
        name
        for name, part in resources.items()
        if part["Type"] in _HAVE_STATE and not {"DeletionPolicy", "UpdateReplacePolicy"} <= part.keys()
    ]

    assert silent == []


def test_nothing_but_the_origin_and_snapshots_of_state_outlives_the_stack(resources: dict[str, dict[str, Any]]) -> None:
    kept = {name for name, part in resources.items() if part.get("DeletionPolicy", "Delete") != "Delete"}

    volumes = {f"StateVolume{number}" for number in range(1, 5)}
    assert kept == {"OriginBucket", "StateBucket", *volumes}
    assert {resources[name][policy] for name in volumes for policy in _POLICIES} == {"Snapshot"}


@pytest.mark.parametrize("given", ["", _BOUNDARY])
def test_every_role_has_the_boundary_that_is_given(
    translate: Callable[[Mapping[str, str]], dict[str, Any]], given: str
) -> None:
    answers = {"PermissionsBoundaryArn": given, "MonthlyBudgetUsd": "10", "ExpressZone": "euc1-az1"}

    resources = deployed(translate(answers), answers)

    roles = {name: part for name, part in resources.items() if part["Type"] == "AWS::IAM::Role"}
    bounds = {name: part["Properties"].get("PermissionsBoundary") for name, part in roles.items()}
    assert len(roles) >= 12
    assert set(map(str, bounds.values())) == ({"{'Ref': 'PermissionsBoundaryArn'}"} if given else {"None"})
