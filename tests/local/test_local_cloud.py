"""The project's own template, all of it, on this machine."""

from __future__ import annotations

import http.client
import json
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from burstcache_local.cloud import LocalCloud, LocalOptions
from burstcache_local.errors import LocalCloudError
from support.policies import THESIS
from support.waiting import LIMIT_S, until


def ask(cloud: LocalCloud, method: str, path: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection(urlsplit(cloud.front_url).netloc, timeout=LIMIT_S)
    try:
        connection.request(method, path, headers=headers)
        response = connection.getresponse()
        return response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()
    finally:
        connection.close()


def put(cloud: LocalCloud, key: str, body: bytes) -> None:
    cloud.client("s3").put_object(Bucket=cloud.bucket_name, Key=key, Body=body, ContentType="text/plain")


def states_of_tasks(cloud: LocalCloud) -> list[str]:
    """Return the states of the tasks that are to run as nodes."""
    ecs, cluster = cloud.client("ecs"), cloud.function_variables("RedisControlFunction")["TASK_CLUSTER"]
    tasks = ecs.list_tasks(cluster=cluster)["taskArns"]
    return [task["lastStatus"] for task in ecs.describe_tasks(cluster=cluster, tasks=tasks)["tasks"]]


def test_ninety_clients_at_once_all_get_their_answer(cloud: LocalCloud) -> None:
    put(cloud, "crowd", b"text")

    with ThreadPoolExecutor(90) as clients:
        answers = list(clients.map(lambda _: ask(cloud, "GET", "/objects/crowd"), range(90)))

    assert {(status, body) for status, _, body in answers} == {(200, b"text")}


def test_an_object_of_the_origin_is_answered(cloud: LocalCloud) -> None:
    put(cloud, "a b/ü.txt", b"text")

    status, headers, body = ask(cloud, "GET", "/objects/a%20b/%C3%BC.txt")

    assert (status, body, headers["content-type"]) == (200, b"text", "text/plain")


def test_head_has_the_length_of_what_get_would_send(cloud: LocalCloud) -> None:
    put(cloud, "head", b"12345")

    status, headers, body = ask(cloud, "HEAD", "/objects/head")

    assert (status, headers["content-length"], body) == (200, "5", b"")


@pytest.fixture(scope="module")
def burst(cloud: LocalCloud) -> list[str]:
    """The tiers that served one key, asked until Redis did."""
    put(cloud, "burst", b"text")
    tiers: list[str] = []

    def asked_of_redis() -> bool:
        status, headers, body = ask(cloud, "GET", "/objects/burst")
        assert (status, body) == (200, b"text")
        tiers.append(headers["x-cache-tier"])
        return tiers[-1] == "redis"

    until(asked_of_redis)
    return tiers


def test_a_burst_goes_from_s3_to_the_cache_function_to_redis(cloud: LocalCloud, burst: list[str]) -> None:
    assert list(dict.fromkeys(burst)) == ["s3", "lambda", "redis"]
    assert states_of_tasks(cloud) == ["RUNNING"]


def test_a_life_can_be_read_from_its_executions_history(cloud: LocalCloud, burst: list[str]) -> None:
    sfn = cloud.client("stepfunctions")
    lives = sfn.list_executions(stateMachineArn=cloud.outputs["KeyLifecycleArn"])["executions"]
    (life,) = [life["executionArn"] for life in lives if life["name"].startswith("burst-")]

    events = sfn.get_execution_history(executionArn=life)["events"]

    entered = [event["stateEnteredEventDetails"]["name"] for event in events if "stateEnteredEventDetails" in event]
    assert entered[:2] == ["IsNodeRunning", "Lambda"]
    assert sorted(event["timestamp"] for event in events) == [event["timestamp"] for event in events]


def test_the_relay_greets_with_tls_required(cloud: LocalCloud) -> None:
    url = urlsplit(cloud.client("lambda").meta.endpoint_url)
    variables = cloud.function_variables("ProxyFunction")
    relay = urlsplit(variables["RELAY_URL"])

    assert url.hostname == "127.0.0.1"
    with socket.create_connection((relay.hostname, relay.port), LIMIT_S) as connection:
        greeting = connection.recv(4096)
    assert json.loads(greeting.removeprefix(b"INFO "))["tls_required"]
    assert variables["RELAY_CA_PEM"].startswith("-----BEGIN CERTIFICATE-----")


def test_the_table_forgets_what_moto_forgot_to_set(cloud: LocalCloud) -> None:
    ttl = cloud.client("dynamodb").describe_time_to_live(TableName=cloud.outputs["TableName"])

    assert ttl["TimeToLiveDescription"] == {"TimeToLiveStatus": "ENABLED", "AttributeName": "expires_at"}


def test_a_write_straight_to_s3_reaches_the_origin_function(cloud: LocalCloud) -> None:
    log = cloud.run_dir / f"{cloud.physical_ids['OriginFunction']}.log"

    put(cloud, "written straight to S3", b"text")

    until(lambda: log.exists() and "written straight to S3" in log.read_text())


def test_a_function_error_is_raised_with_its_name(cloud: LocalCloud) -> None:
    with pytest.raises(LocalCloudError, match=r"RedisControlFunction failed: .*errorType"):
        cloud.invoke("RedisControlFunction", {"op": "nonsense"})


def test_lambdas_own_errors_are_those_of_aws(cloud: LocalCloud) -> None:
    api = cloud.client("lambda")

    with pytest.raises(api.exceptions.ResourceNotFoundException):
        api.invoke(FunctionName="nobody")
    with pytest.raises(api.exceptions.RequestTooLargeException):
        api.invoke(FunctionName=cloud.physical_ids["ProxyFunction"], InvocationType="Event", Payload=b" " * 1_100_000)


def test_a_request_above_10_mb_is_refused_by_the_front_door(cloud: LocalCloud) -> None:
    connection = http.client.HTTPConnection(urlsplit(cloud.front_url).netloc, timeout=LIMIT_S)
    connection.request("PUT", "/objects/large", body=b"x" * (10 * 1024 * 1024 + 1))

    response = connection.getresponse()

    assert (response.status, json.loads(response.read())) == (413, {"message": "Request Too Long"})
    connection.close()


def test_two_clouds_in_a_process_share_nothing(cloud: LocalCloud) -> None:
    cloud.client("s3").put_object(Bucket=cloud.bucket_name, Key="whose", Body=b"the first's")

    with LocalCloud(LocalOptions(boot_s=0.2, stop_s=0.2, parameters=THESIS)) as other:
        other.client("s3").put_object(Bucket=other.bucket_name, Key="whose", Body=b"the other's")
        for _ in range(2):
            assert ask(other, "GET", "/objects/whose")[2] == b"the other's"
        until(lambda: bool(executions_of(other)))

        assert ask(cloud, "GET", "/objects/whose")[2] == b"the first's"
        assert not executions_of(cloud) & executions_of(other)
        assert not subnets_of(cloud) & subnets_of(other)

    assert ask(cloud, "GET", "/objects/whose")[2] == b"the first's"


def test_a_request_that_is_under_way_at_the_end_is_logged_like_any_other(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    options = LocalOptions(run_dir=tmp_path, parameters={"Relay": "none", "RedisNodeCount": "0"})
    with ThreadPoolExecutor() as clients:
        with LocalCloud(options) as cloud:
            answer = clients.submit(ask, cloud, "GET", "/objects/cold")
            until(lambda: cloud.invocations_under_way)
        with suppress(OSError, http.client.HTTPException):
            answer.result(LIMIT_S)

    assert [record.getMessage() for record in caplog.records if record.name == "aiohttp.server"] == []
    assert "/objects/cold" in (tmp_path / "requests.jsonl").read_text()


def executions_of(cloud: LocalCloud) -> set[str]:
    machine = cloud.physical_ids["KeyLifecycle"]
    found = cloud.client("stepfunctions").list_executions(stateMachineArn=machine)["executions"]
    return {execution["executionArn"] for execution in found}


def subnets_of(cloud: LocalCloud) -> set[str]:
    return {subnet["SubnetId"] for subnet in cloud.client("ec2").describe_subnets()["Subnets"]}
