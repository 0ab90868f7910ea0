"""The guard decides by the policies that a role has now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from burstcache_local.iam.guard import Guard
from burstcache_local.iam.policies import Need

_MAY_READ: Mapping[str, Any] = {"Statement": {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"}}
_READ = [Need("s3:GetObject", "arn:aws:s3:::origin/key")]


def test_a_policy_that_is_gone_or_another_one_decides_at_once(refusals: list[str]) -> None:
    policies: dict[str, list[Mapping[str, Any]]] = {"reader": [_MAY_READ]}
    guard = Guard("eu-central-1", documents=policies.__getitem__)

    assert guard.problem("reader", _READ) == ""
    policies["reader"] = []
    assert "reader is not authorized to perform: s3:GetObject" in guard.problem("reader", _READ)
    policies["reader"] = [{**_MAY_READ}]
    assert guard.problem("reader", _READ) == ""
    policies["reader"] = [{"Statement": {**_MAY_READ["Statement"], "Action": "s3:PutObject"}}]
    assert guard.problem("reader", _READ) != ""
    refusals.clear()


def test_a_need_with_another_context_is_another_need(refusals: list[str]) -> None:
    condition = {"StringEquals": {"events:source": "mine"}}
    policy = {"Statement": {"Effect": "Allow", "Action": "*", "Resource": "*", "Condition": condition}}
    guard = Guard("eu-central-1", documents=lambda role: [policy])

    asked = [Need("events:PutEvents", "*", {"events:source": (source,)}) for source in ("mine", "another")]

    assert [guard.problem("reader", [need]) == "" for need in asked] == [True, False]
    refusals.clear()
