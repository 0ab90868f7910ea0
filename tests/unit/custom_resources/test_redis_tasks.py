"""The custom resource that ends Redis tasks answers CloudFormation, and waits until the tasks are over."""

from __future__ import annotations

from typing import Any

import pytest

from custom_resources import redis_tasks

_PROPERTIES = {"Cluster": "cluster-1", "Family": "family-1"}


class _Ecs:
    """ECS with tasks of two families."""

    def __init__(self, refuses: bool = False) -> None:
        self.tasks = {"family-1": ["a", "b"], "family-2": ["c"]}
        self.refuses, self.calls = refuses, list[tuple[str, Any]]()

    def get_paginator(self, name: str) -> Any:
        assert name == "list_tasks"
        return self

    def paginate(self, *, cluster: str, family: str) -> list[dict[str, list[str]]]:
        return [{"taskArns": [task]} for task in self.tasks[family]]

    def stop_task(self, *, cluster: str, task: str, reason: str) -> None:
        if self.refuses:
            raise PermissionError("refused")
        self.calls.append(("stop", task))

    def get_waiter(self, name: str) -> Any:
        assert name == "tasks_stopped"
        return self

    def wait(self, *, cluster: str, tasks: list[str], WaiterConfig: dict[str, int]) -> None:
        self.calls.append(("wait", tasks))


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Outcomes and physical ids in the answers to CloudFormation."""
    found: list[tuple[str, str]] = []
    for outcome in ("succeed", "fail"):
        monkeypatch.setattr(
            redis_tasks, outcome, lambda event, id_, *rest, outcome=outcome: found.append((outcome, id_))
        )
    return found


def _handle(kind: str, ecs: _Ecs, monkeypatch: pytest.MonkeyPatch, cluster: str = "cluster-1") -> None:
    monkeypatch.setattr(redis_tasks.boto3, "client", lambda service, config: ecs)
    former = {} if kind == "Create" else {"PhysicalResourceId": "cluster-1"}
    redis_tasks.handler({"RequestType": kind, "ResourceProperties": _PROPERTIES | {"Cluster": cluster}, **former}, None)


@pytest.mark.parametrize("kind", ["Update", "Delete"])
def test_tasks_of_the_family_are_stopped_and_awaited(
    kind: str, answers: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    ecs = _Ecs()

    _handle(kind, ecs, monkeypatch)

    assert ecs.calls == [("stop", "a"), ("stop", "b"), ("wait", ["a", "b"])]
    assert answers == [("succeed", "cluster-1")]


def test_new_resource_ends_nothing(answers: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch) -> None:
    ecs = _Ecs()

    _handle("Create", ecs, monkeypatch)

    assert (ecs.calls, answers) == ([], [("succeed", "cluster-1")])


def test_another_cluster_makes_another_resource(
    answers: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    _handle("Update", _Ecs(), monkeypatch, cluster="cluster-2")

    assert answers == [("succeed", "cluster-2")]


def test_failure_is_answered(answers: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch) -> None:
    _handle("Delete", _Ecs(refuses=True), monkeypatch)

    assert answers == [("fail", "cluster-1")]
