"""Places of nodes that run as tasks, as the functions' environments name them."""

from __future__ import annotations

import pytest

from burstcache.access import TaskPlace, parse_nodes
from burstcache.core.errors import InvalidSettingError
from burstcache.settings.places import state_task_cluster_in, state_tasks_in, task_cluster_in, tasks_in

_ENVIRONMENT = {
    "REDIS_ON": "fargate-spot",
    "TASK_CLUSTER": "nodes",
    "TASK_DEFINITION": "node",
    "TASK_SUBNETS": "subnet-1,subnet-2",
    "TASK_SECURITY_GROUPS": "sg-1",
    "TASK_PUBLIC_IP": "ENABLED",
}


def test_a_place_has_all_that_a_task_is_run_with() -> None:
    place = TaskPlace("fargate-spot", "nodes", "node", ("subnet-1", "subnet-2"), ("sg-1",), "ENABLED")

    assert tasks_in(_ENVIRONMENT) == place
    assert task_cluster_in(_ENVIRONMENT) == TaskPlace("fargate-spot", "nodes")


def test_databases_have_a_task_and_groups_of_their_own_in_the_place_of_nodes() -> None:
    of_state = {"STATE_NODE": "fargate:2GB", "STATE_TASK_DEFINITION": "state", "STATE_TASK_SECURITY_GROUPS": "sg-2"}
    place = TaskPlace("fargate", "nodes", "state", ("subnet-1", "subnet-2"), ("sg-2",), "ENABLED", has_state=True)

    assert state_tasks_in(_ENVIRONMENT | of_state) == place
    assert state_task_cluster_in(_ENVIRONMENT | of_state) == TaskPlace("fargate", "nodes", has_state=True)
    for name in of_state:
        with pytest.raises(InvalidSettingError, match=name):
            state_tasks_in(_ENVIRONMENT | of_state | {name: ""})


def test_nodes_on_ec2_have_no_place() -> None:
    empty = dict.fromkeys(_ENVIRONMENT, "") | {"REDIS_ON": "ec2"}

    assert tasks_in(empty) is task_cluster_in(empty) is None


@pytest.mark.parametrize("missing", [name for name in _ENVIRONMENT if name != "REDIS_ON"])
def test_a_variable_that_is_empty_is_named(missing: str) -> None:
    with pytest.raises(InvalidSettingError, match=f"{missing} is empty"):
        tasks_in(_ENVIRONMENT | {missing: ""})


def test_another_kind_is_an_error() -> None:
    with pytest.raises(InvalidSettingError, match="REDIS_ON: 'spot' is none of ec2, fargate, fargate-spot"):
        tasks_in(_ENVIRONMENT | {"REDIS_ON": "spot"})


def test_a_node_without_an_instance_is_a_task() -> None:
    task, instance = parse_nodes("node-1=@:6379,node-2=i-0abc@10.0.0.5:6379")

    assert (task.is_task, instance.is_task) == (True, False)
    assert (task.host, task.port) == ("", 6379)
