"""Kumar's case studies as they are deployed, next to a stack that has the database: functions, workflows, Redis."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from burstcache_local.cloud import LocalCloud, LocalOptions
from burstcache_local.stack import Stack
from support.project import ROOT
from support.waiting import until

pytestmark = pytest.mark.slow

TEMPLATE = ROOT / "examples" / "case_studies" / "template.yaml"
DATABASE = "kumar"


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloud]:
    """A stack whose database falls asleep soon after its last holder."""
    parameters = {"Relay": "none", "StateDatabases": DATABASE, "StateGraceS": "1", "PolicyOverrides": "redis_check_s=1"}
    folder: Path = tmp_path_factory.mktemp("logs")
    with LocalCloud(LocalOptions(boot_s=0.2, stop_s=0.2, run_dir=folder, parameters=parameters)) as running:
        yield running


@pytest.fixture(scope="module")
def application(cloud: LocalCloud) -> Stack:
    return cloud.deploy(TEMPLATE, "case-studies")


def run(cloud: LocalCloud, machine_arn: str, **given: Any) -> Any:
    """Run an execution and return its output."""
    states = cloud.client("stepfunctions")
    arn = states.start_execution(stateMachineArn=machine_arn, input=json.dumps(given))["executionArn"]
    ended = until(lambda: (found := states.describe_execution(executionArn=arn))["status"] != "RUNNING" and found)
    assert ended["status"] == "SUCCEEDED", f"{ended.get('error')}: {ended.get('cause')}"
    return json.loads(ended["output"])


def phase(cloud: LocalCloud) -> str:
    """Return the phase of the database."""
    return str(cloud.invoke("StateFunction", {"op": "release", "database": DATABASE, "holder": "nobody"})["phase"])


def test_a_workflow_wakes_the_database_up_times_a_function_on_it_and_lets_it_sleep(
    cloud: LocalCloud, application: Stack
) -> None:
    times = run(cloud, application.outputs["TimeStringsArn"], database=DATABASE)

    assert {way: set(each) for way, each in times.items()} == {
        way: {"write_ms", "read_ms", "delete_ms"} for way in ("one_by_one", "pipelined")
    }
    assert sum(times["pipelined"].values()) < sum(times["one_by_one"].values())
    until(lambda: phase(cloud) == "stopped")


@pytest.mark.weekly
def test_what_one_function_writes_another_one_reads_after_the_database_has_slept(
    cloud: LocalCloud, application: Stack
) -> None:
    student = {"studentID": "1", "name": "Ada"}
    until(lambda: phase(cloud) == "stopped")
    before = boots(cloud)

    read = run(cloud, application.outputs["KeepAStudentArn"], database=DATABASE, student=student)

    assert read == student
    assert boots(cloud) == before + 2


def boots(cloud: LocalCloud) -> int:
    """Return the number of node boots in the stack: each run of a node boots it once."""
    states = cloud.client("stepfunctions")
    return len(states.list_executions(stateMachineArn=cloud.outputs["RedisNodeArn"])["executions"])


def test_a_workflow_without_its_database_says_which_there_are(cloud: LocalCloud, application: Stack) -> None:
    with pytest.raises(AssertionError, match="NodeAbsentError: .*no database 'kuma'; StateDatabases has: kumar"):
        run(cloud, application.outputs["TimeStringsArn"], database="kuma")


def test_an_application_learns_what_it_needs_from_the_stack(cloud: LocalCloud, application: Stack) -> None:
    given = application.template.parameters

    assert {name: given[name] for name in ("StateSettings", "StateFunctionArn", "HolderPolicyArn")} == {
        name: cloud.outputs[name] for name in ("StateSettings", "StateFunctionArn", "HolderPolicyArn")
    }
