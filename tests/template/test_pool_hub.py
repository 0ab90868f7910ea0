"""The hub on Fargate is what pool control starts, and begins with a program that the local run tries out."""

from __future__ import annotations

from typing import Any


def test_pool_control_starts_the_service_that_there_is(resources: dict[str, Any]) -> None:
    variables = resources["PoolControlFunction"]["Properties"]["Environment"]["Variables"]
    _, name, _ = variables["POOL_HUB_SERVICE"]["Fn::If"]
    service = resources["PoolHubService"]["Properties"]

    cluster, _, rest = name["Fn::Sub"][0].partition("/")

    assert cluster == "${RelayCluster}"
    assert service["Cluster"] == {"Ref": "RelayCluster"}
    assert service["ServiceName"]["Fn::Sub"] == [rest, name["Fn::Sub"][1]]


def test_no_hub_runs_before_somebody_reads(resources: dict[str, Any]) -> None:
    assert resources["PoolHubService"]["Properties"]["DesiredCount"] == 0


def test_a_hub_may_invoke_members_and_their_control_and_nothing_else(resources: dict[str, Any]) -> None:
    (statement,) = resources["PoolHubPolicy"]["Properties"]["PolicyDocument"]["Statement"]

    assert statement["Action"] == "lambda:InvokeFunction"
    assert statement["Resource"] == [
        {"Fn::GetAtt": ["PoolMemberFunction", "Arn"]},
        {"Fn::GetAtt": ["PoolControlFunction", "Arn"]},
    ]


def test_members_and_readers_reach_the_port_that_the_hub_listens_on(resources: dict[str, Any]) -> None:
    (container,) = resources["PoolHubTask"]["Properties"]["ContainerDefinitions"]
    (port,) = [each["Value"] for each in container["Environment"] if each.get("Name") == "HUB_PORT"]
    rules = resources["PoolHubSecurityGroup"]["Properties"]["SecurityGroupIngress"]

    assert {(rule["FromPort"], rule["ToPort"]) for rule in rules} == {(int(port), int(port))}
    for name in ("MembersDialAHub", "ReadersDialAHub"):
        assert resources[name]["Properties"]["FromPort"] == int(port)


def test_its_first_program_is_run_by_python(resources: dict[str, Any]) -> None:
    (container,) = resources["PoolHubTask"]["Properties"]["ContainerDefinitions"]

    assert container["EntryPoint"][:-1] == ["python3", "-c"]
