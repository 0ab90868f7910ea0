"""Each item of "Not tried on AWS" has one check, which judges the findings of a run on AWS and nothing else."""

from __future__ import annotations

import re
from collections.abc import Mapping
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
        "PoolHub": "fargate",
        "Network": "ipv4",
    }
}
_WROTE = {
    "text": {"status": 200, "is_right": True},
    "latin": {"status": 400, "is_right": False},
    "large": {"status": 413},
    "conditional": {"status": 200},
    "stale": {"status": 412},
    "delete": {"status": 204},
}
_BATCHES = {"median": 7, "most": 10}
_FOUND: dict[str, Any] = {
    "deploy": _DEPLOYED,
    "self-test": {"tried": [_TRIED, {**_TRIED, "part": "relay"}], "problems": []},
    "read": {"head_length": "4096", "length": 4096, "head_status": 200},
    "write": _WROTE,
    "first-boot": {"instance": "running", "tiers": ["s3", "lambda", "redis"], "redis_s": 90, "failed": 0},
    "gateway": {"here": [True], "lambda": [True, True, True], "lambda_ms": [900, 4, 9]},
    "boot": {
        "machine": "instance",
        "task_kind": "",
        "boot_s": 31.5,
        "stop_s": 20,
        "tags": {"task of a service": True, "volume of a node": False},
    },
    "burst": {"key": "a+b", "first_s": {"s3": 0, "lambda": 9, "redis": 40}, "announced_s": 1.5, "tiers_missing": ""},
    "state": {"awake_s": 40, "is_right": True, "asleep_s": 60, "snapshots": 1},
    "pool": {"hub_s": 40, "tiers": ["s3"]},
    "bulk": {
        "objects": 400,
        "upload_s": 2.0,
        "followed_s": 3.0,
        "batch": _BATCHES,
        "waited_ms": {"median": 800},
    },
    "metrics": {"errors": 4, "invocations": 4, "traced": ["x-CacheFunction-1"], "idle_polls_per_min": 15.0},
    "update": {"replaced": ["RelayTargetGroup"], "problems": []},
    "transitions": {"starts": 5, "entered": 30, "retries": 1},
    "delete": {},
}


def findings(
    *,
    where: str = "AWS",
    region: str = "us-east-1",
    kind: str = "one",
    run: Mapping[str, Any] | None = None,
    **changes: Any,
) -> Findings:
    """Return the findings of a run with one stack. A change replaces what a step found, a text is its error.

    `run` has the findings of steps that belong to no stack.
    """
    steps = {name: {"began_s": 0, "took_s": 1.0, "found": found} for name, found in (run or {}).items()}
    for name, found in {**_FOUND, **{name.replace("_", "-"): each for name, each in changes.items()}}.items():
        entry = {"problem": found} if isinstance(found, str) else {"found": found}
        steps[f"{kind}/{name}"] = {"began_s": 0, "took_s": 12.0, **entry}
    return Findings({"where": where, "region": region, "kinds": [kind], "steps": steps})


def verdict(name: str, seen: Findings) -> Verdict:
    (check,) = (each for each in CHECKS if each.name == name)
    return check.judge(seen)


def test_every_item_of_the_page_has_exactly_one_check_and_names_it() -> None:
    page = (ROOT / "docs/operate/operations.md").read_text()
    items = page.partition("\n## Not tried on AWS\n")[2]

    named = [(int(number), name) for number, name in _ITEM.findall(items)]

    assert named == [(check.item, check.name) for check in CHECKS]
    assert len(re.findall(r"^\d+\. ", items, re.MULTILINE)) == len(CHECKS)


def test_in_local_clouds_each_item_says_what_only_aws_has() -> None:
    verdicts = [check.judge(findings(where="local clouds")) for check in CHECKS]

    assert {each.outcome for each in verdicts} == {"only AWS"}
    assert all(each.because.startswith("only AWS has ") for each in verdicts)


def test_local_clouds_refute_what_their_steps_refute() -> None:
    seen = findings(where="local clouds", gateway={"here": [False]})

    assert verdict("places-of-the-gateway", seen).outcome == "refuted"


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
        "hub-on-fargate",
        "promotion-in-the-first-boot",
        "replacements",
        "places-of-the-gateway",
        "account-of-a-company",
        "queue-of-events",
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
        ("tags-for-the-budget", {"boot": {**_FOUND["boot"], "tags": {"volume of a node": True}}}),
        ("databases-of-state", {"state": {**_FOUND["state"], "snapshots": 0}}),
        ("hub-on-fargate", {"pool": "NotReachedError: report of the pool's hub: not within 600 s"}),
        ("promotion-in-the-first-boot", {"first_boot": {**_FOUND["first-boot"], "failed": 2}}),
        ("replacements", {"update": "NotDeployedError: the target group is in use"}),
        ("replacements", {"update": {"replaced": ["RelayTargetGroup"], "problems": ["the relay: no answer"]}}),
        ("replacements", {"kind": "direct", "update": {"replaced": ["AlbListener"]}}),
        ("places-of-the-gateway", {"gateway": {**_FOUND["gateway"], "lambda": [True, True, False]}}),
        ("account-of-a-company", {"kind": "company", "deploy": "NotDeployedError: SelfTest"}),
        ("queue-of-events", {"bulk": {**_FOUND["bulk"], "batch": {"median": 1, "most": 2}}}),
        ("writes-at-the-front-door", {"write": {**_WROTE, "conditional": {"status": 403}}}),
        ("writes-at-the-front-door", {"write": {**_WROTE, "stale": {"status": 200}}}),
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
        ("region-without-types", {}),
        ("starts-as-transitions", {}),
        ("message-of-a-budget", {}),
        ("replacements", {"update": {}}),
        ("places-of-the-gateway", {"gateway": {"here": [True]}}),
        ("account-of-a-company", {"burst": {"first_s": {"s3": 0}}}),
        ("queue-of-events", {"bulk": {**_FOUND["bulk"], "upload_s": 20.0, "batch": {"median": 1, "most": 2}}}),
    ],
)
def test_an_item_that_no_finding_decides_is_not_reached(name: str, changes: dict[str, Any]) -> None:
    assert verdict(name, findings(**changes)).outcome == "not reached"


def test_a_region_without_the_types_is_seen_by_its_deployment() -> None:
    assert verdict("region-without-types", findings(region="eu-west-2")).outcome == "seen"


@pytest.mark.parametrize(("billed", "outcome"), [(36.0, "seen"), (31.0, "refuted"), (40.0, "not reached")])
def test_the_bill_decides_whether_a_start_is_a_transition(billed: float, outcome: str) -> None:
    rows = [{"usage_type": "EUW1-StateTransition", "usage": billed, "usd": 0.0}]

    assert verdict("starts-as-transitions", findings(run={"bill": {"rows": rows}})).outcome == outcome


@pytest.mark.parametrize(
    ("subjects", "outcome"),
    [
        (["AWS Budgets: x has exceeded your alert threshold"], "seen"),
        (["AWS Budgets: x is spent"], "refuted"),
        ([], "not reached"),
    ],
)
def test_the_message_of_the_budget_has_to_name_its_threshold(subjects: list[str], outcome: str) -> None:
    messages = [{"subject": subject, "text": "Dear customer"} for subject in subjects]
    run = {"budget": {"budget": "x"}, "budget-messages": {"messages": messages}}

    assert verdict("message-of-a-budget", findings(run=run)).outcome == outcome


def test_an_instance_whose_first_boot_ended_with_the_deployment_is_seen() -> None:
    assert verdict("promotion-in-the-first-boot", findings(first_boot={"instance": "stopped"})).outcome == "seen"
