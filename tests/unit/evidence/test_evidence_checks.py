"""Each item of "Not tried on AWS" has one check, which judges the findings of a run on AWS and nothing else."""

from __future__ import annotations

import re
from typing import Any

import pytest

from burstcache_evidence.checks.registry import CHECKS
from burstcache_evidence.findings import Findings, Verdict
from support.project import ROOT

_ITEM = re.compile(r"^(\d+)\. `([a-z0-9-]+)`: ", re.MULTILINE)
_TRIED = {"function": "ProxyFunction", "part": "table", "ms": 3, "ok": True}
_DEPLOYED = {
    "parameters": {
        "Relay": "nlb",
        "RedisOn": "ec2",
        "Tracing": "Active",
        "StateDatabases": "orders",
        "ExpressZone": "use1-az4",
    }
}
_WROTE = {
    "text": {"status": 200, "is_right": True},
    "latin": {"status": 400, "is_right": False},
    "large": {"status": 413},
    "delete": {"status": 204},
}
_FOUND: dict[str, Any] = {
    "deploy": _DEPLOYED,
    "self-test": {"tried": [_TRIED, {**_TRIED, "part": "relay"}], "problems": []},
    "read": {"head_length": "4096", "length": 4096, "head_status": 200},
    "write": _WROTE,
    "boot": {"machine": "instance", "task_kind": "", "boot_s": 31.5, "stop_s": 20},
    "burst": {"key": "a+b", "first_s": {"s3": 0, "lambda": 9, "redis": 40}, "announced_s": 1.5, "tiers_missing": ""},
    "state": {"awake_s": 40, "asleep_s": 60, "snapshots": 1},
    "metrics": {"errors": 4, "invocations": 4, "traced": ["x-CacheFunction-1"], "tagged": {"task of relay": False}},
    "delete": {},
}


def findings(*, where: str = "AWS", region: str = "us-east-1", **changes: Any) -> Findings:
    """Return the findings of a run with one stack. A change replaces what a step found, a text is its error."""
    steps = {}
    for name, found in {**_FOUND, **{name.replace("_", "-"): each for name, each in changes.items()}}.items():
        entry = {"problem": found} if isinstance(found, str) else {"found": found}
        steps[f"one/{name}"] = {"began_s": 0, "took_s": 12.0, **entry}
    return Findings({"where": where, "region": region, "kinds": ["one"], "steps": steps})


def verdict(name: str, seen: Findings) -> Verdict:
    (check,) = (each for each in CHECKS if each.name == name)
    return check.judge(seen)


def test_every_item_of_the_page_has_exactly_one_check_and_names_it() -> None:
    page = (ROOT / "docs/operate/operations.md").read_text()
    items = page.partition("\n## Not tried on AWS\n")[2]

    named = [(int(number), name) for number, name in _ITEM.findall(items)]

    assert named == [(check.item, check.name) for check in CHECKS]
    assert len(re.findall(r"^\d+\. ", items, re.MULTILINE)) == len(CHECKS)


def test_local_clouds_reach_no_item() -> None:
    outcomes = {check.judge(findings(where="local clouds")).outcome for check in CHECKS}

    assert outcomes == {"not reached"}


def test_a_run_without_findings_reaches_no_item() -> None:
    nothing = Findings({"where": "AWS", "region": "us-east-1", "kinds": ["one"], "steps": {}})

    assert {check.judge(nothing).outcome for check in CHECKS} == {"not reached"}


@pytest.mark.parametrize(
    "name",
    [
        "ipv6-from-the-vpc",
        "packages-of-amazon-linux",
        "instance-that-switches-itself-off",
        "image-by-parameter",
        "relay-without-ipv4",
        "task-answers-without-resource",
        "length-of-head",
        "powertools-layer",
        "keys-with-plus",
        "directory-bucket",
        "metric-of-no-error",
        "trace-of-a-read",
        "tags-for-the-budget",
        "databases-of-state",
        "writes-at-the-front-door",
    ],
)
def test_an_item_whose_finding_is_as_assumed_is_seen(name: str) -> None:
    assert verdict(name, findings()).outcome == "seen"


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("ipv6-from-the-vpc", {"self_test": {"tried": [{**_TRIED, "ok": False}]}}),
        ("packages-of-amazon-linux", {"boot": "NotReachedError: PONG of node-1: not within 600 s"}),
        ("relay-without-ipv4", {"self_test": {"tried": [{**_TRIED, "part": "relay", "ok": False}]}}),
        ("length-of-head", {"read": {"head_length": "0", "length": 4096, "head_status": 200}}),
        ("deleting-and-tasks", {"delete": "NotDeletedError: one is not deleted"}),
        ("keys-with-plus", {"burst": "NotReachedError: a write to S3 at the readers: not within 600 s"}),
        ("metric-of-no-error", {"metrics": {"errors": 0, "invocations": 4}}),
        ("trace-of-a-read", {"metrics": {"traced": ["x-ProxyFunction-1"]}}),
        ("tags-for-the-budget", {"metrics": {"tagged": {"volume of a node": True}}}),
        ("databases-of-state", {"state": "NotReachedError: database orders: not within 600 s"}),
        ("writes-at-the-front-door", {"write": {**_WROTE, "latin": {"status": 200, "is_right": False}}}),
        ("writes-at-the-front-door", {"write": {**_WROTE, "large": {"status": 200}}}),
    ],
)
def test_an_item_whose_finding_contradicts_it_is_refuted(name: str, changes: dict[str, Any]) -> None:
    assert verdict(name, findings(**changes)).outcome == "refuted"


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("relay-without-ipv4", {"region": "eu-west-1"}),
        ("relay-without-ipv4", {"burst": {"first_s": {"s3": 0, "redis": 20}}}),
        ("task-answers-without-resource", {"burst": {"first_s": {"s3": 0, "redis": 20}}}),
        ("keys-with-plus", {"burst": {**_FOUND["burst"], "tiers_missing": "tiers lambda, redis of a hot key"}}),
        ("databases-of-state", {"state": {"awake_s": 40, "asleep_s": 60, "snapshots": 0}}),
        ("region-without-types", {}),
    ],
)
def test_an_item_that_no_finding_decides_is_not_reached(name: str, changes: dict[str, Any]) -> None:
    assert verdict(name, findings(**changes)).outcome == "not reached"


def test_a_region_without_the_types_is_seen_by_its_deployment() -> None:
    assert verdict("region-without-types", findings(region="eu-west-2")).outcome == "seen"
