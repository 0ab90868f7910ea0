"""What functions call in local runs is what their policies grant: nothing is missing, and nothing is unused.

Actions are compared here. That each is granted on what it is used on, the self-test of a deployed stack tries.
"""

from __future__ import annotations

import contextlib
import json
import urllib.request
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import pytest

from burstcache_local.cloud import LocalCloud, LocalOptions
from burstcache_local.errors import LocalCloudError
from support.policies import THESIS
from support.project import ROOT
from support.recorded_calls import recorded_calls
from support.waiting import until

_LAST = ("budget", "credentials")  # what the others need is paused, or gone
_EVENTS = sorted((ROOT / "events").glob("*/*.json"), key=lambda path: (path.parent.name in _LAST, path))
_POLICIES: tuple[dict[str, str], ...] = (THESIS, {})  # of leased keys, and the default one, which decides by use
_LISTS = {"s3:ListBucket": "never called: without it S3 answers 403 for a key that does not exist"}
_FAILS = {"sqs:SendMessage": "Lambda's own, when it gives an event up"}
# Granted, and not called in these runs; by function, with the reason.
_EXCEPTIONS: dict[str, dict[str, str]] = {
    "ProxyFunction": _LISTS,
    "CacheFunction": _LISTS | {"states:SendTaskHeartbeat": "these lives end before the first"},
    "RedisControlFunction": _LISTS | _FAILS,
    "SchedulerFunction": _FAILS,
    "OriginFunction": _FAILS | {"dynamodb:DeleteItem": "no key is in the digest whose life is over already"},
    "AccountFunction": {
        "ec2:DescribeInstanceTypeOfferings": "asked after Lambda's settings, which moto does not know",
        "servicequotas:GetServiceQuota": "the same",
    },
    "BudgetFunction": _FAILS,
    "JanitorFunction": {"states:StopExecution": "no life outlives its deadline here"},
}
_TRANSACTIONS = {"dynamodb:TransactWriteItems": "dynamodb:UpdateItem"}  # IAM asks for the actions in them


@dataclass(frozen=True)
class _Run:
    """What was granted to each function and what it called, over all runs."""

    granted: dict[str, set[str]]
    called: dict[str, set[str]]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> _Run:
    """A burst and every sample event, under each policy."""
    granted, called = defaultdict[str, set[str]](set), defaultdict[str, set[str]](set)
    for policy in _POLICIES:
        options = LocalOptions(
            origin=ROOT / "tools/burstcache_local/samples",
            parameters={**policy, "MonthlyBudgetUsd": "9"},
            environment={"AWS_ENDPOINT_URL_LAMBDA": ""},  # invocations, too, pass by where calls are recorded
            run_dir=tmp_path_factory.mktemp("logs"),
            boot_s=0.2,
            stop_s=0.2,
        )
        with recorded_calls() as calls, LocalCloud(options) as cloud:
            _burst(cloud)
            for path in _EVENTS:
                _send(cloud, path)
            functions = {cloud.physical_ids[name]: name for name in cloud.sam_variables if name != "Parameters"}
            for name in functions.values():
                granted[name] |= _granted(cloud, name)
        for who, action in calls:
            if who in functions:
                called[functions[who]].add(_TRANSACTIONS.get(action, action))
    return _Run(dict(granted), {name: called[name] for name in granted})


def _burst(cloud: LocalCloud) -> None:
    """Ask for an object until Redis serves it, change it twice, and stop the node."""

    def tier() -> str:
        with urllib.request.urlopen(f"{cloud.front_url}/objects/hello.txt") as answer:
            return str(answer.headers["X-Cache-Tier"])

    until(lambda: tier() == "redis")
    _send(cloud, ROOT / "events/janitor/scheduled.json")
    for body in (b"changed", b"changed again"):
        cloud.client("s3").put_object(Bucket=cloud.bucket_name, Key="hello.txt", Body=body)
    cloud.invoke("RedisControlFunction", {"op": "release", "node": "node-1"})
    until(lambda: tier() != "redis")


def _send(cloud: LocalCloud, path: Path) -> None:
    """Invoke the function of a sample event, if the run has it."""
    event = json.loads(path.read_text())
    if "ResponseURL" in event:
        event["ResponseURL"] = f"{cloud.lambda_endpoint_url}/custom-resources/sample"
    function = path.parent.name.title().replace("_", "") + "Function"
    if function in cloud.physical_ids:
        with contextlib.suppress(LocalCloudError):  # of a life or a run that this cloud does not have
            cloud.invoke(function, event)


def _granted(cloud: LocalCloud, function: str) -> set[str]:
    """Return the IAM actions that a function's role allows with the parameters of the run."""
    role = cloud._stacks[0].template.resources[f"{function}Role"]["Properties"]
    documents = [policy["PolicyDocument"] for policy in role.get("Policies", [])]
    actions = [statement["Action"] for document in documents for statement in document["Statement"]]
    return {action for each in actions for action in ([each] if isinstance(each, str) else each)}


def test_no_function_calls_what_it_is_not_granted(run: _Run) -> None:
    missing = {name: run.called[name] - actions for name, actions in run.granted.items()}

    assert {name: actions for name, actions in missing.items() if actions} == {}


def test_no_function_is_granted_what_it_does_not_call(run: _Run) -> None:
    unused = {name: actions - run.called[name] for name, actions in run.granted.items()}

    assert {name: actions for name, actions in unused.items() if actions} == {
        name: set(reasons) for name, reasons in _EXCEPTIONS.items()
    }
