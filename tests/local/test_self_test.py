"""The self-test finds what is broken and says what to do: with the parts of a local run, through it and around it."""

from __future__ import annotations

import argparse
import json
import socket
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import boto3
import pytest

from burstcache.adapters.clients import Clients, Profile
from burstcache.adapters.clock import SystemClock
from burstcache.adapters.redis_connection import SERVER_NAME
from burstcache.control import part_checks
from burstcache.control.health_checks import run
from burstcache.control.self_test import Function, checks_of
from burstcache.core.messages.self_test import CheckResult
from burstcache_cli import doctor
from burstcache_cli.stack import Stack
from burstcache_local.cloud import LocalCloud
from custom_resources.certificate import issue_certificate
from support.servers import Silence
from support.waiting import LIMIT_S, free_port, until

_LOGICAL = {"proxy": "ProxyFunction", "redis_control": "RedisControlFunction", "janitor": "JanitorFunction"}


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have functions ask each other once. Each answer keeps its time, which connections need on a busy machine."""
    monkeypatch.setattr(part_checks, "_MEET_WITHIN_S", 0.0)


@pytest.fixture
def stack(cloud: LocalCloud) -> Stack:
    session = boto3.Session("local", "local", region_name=cloud.region)
    return Stack(cloud.stack_name, session, {"": cloud.endpoint_url, "lambda": cloud.lambda_endpoint_url})


class Functions:
    """The functions of the local run with something wrong in their environment, tested in this process."""

    def __init__(self, cloud: LocalCloud, stack: Stack) -> None:
        self.cloud, self.stack = cloud, stack

    def failures(
        self, function: Function, endpoint_urls: Mapping[str, str] | None = None, **changes: str
    ) -> dict[str, CheckResult]:
        """Return the failed checks by part."""
        environ = self.cloud.function_variables(_LOGICAL[function]) | {"AWS_REGION": self.cloud.region, **changes}
        profile: Profile = "read" if function == "proxy" else "control"
        clients = Clients(profile, session=self.stack.session, endpoint_urls=endpoint_urls or self.stack.endpoint_urls)
        trials = checks_of(function, environ, clients, SystemClock(), "run")
        tested = run(trials, SystemClock(), within_s=LIMIT_S)
        return {tried["part"]: tried for tried in tested["tried"] if tried["problem"]}

    def relay(self, **changes: str) -> CheckResult:
        """Return the one thing that fails of the proxy, which is the relay."""
        ((part, tried),) = self.failures("proxy", None, **changes).items()
        assert part == "relay"
        return tried


@pytest.fixture
def functions(cloud: LocalCloud, stack: Stack) -> Functions:
    address = urlsplit(cloud.function_variables("ProxyFunction")["RELAY_URL"])
    until(lambda: listens(str(address.hostname), int(address.port or 0)))
    return Functions(cloud, stack)


def listens(host: str, port: int) -> bool:
    with socket.socket() as connection:
        return connection.connect_ex((host, port)) == 0


@pytest.fixture
def another_password(cloud: LocalCloud) -> Iterator[str]:
    name = "/another/password"
    cloud.client("ssm").put_parameter(Name=name, Value="another", Type="SecureString")
    yield name
    cloud.client("ssm").delete_parameter(Name=name)


def test_everything_works_in_a_local_run(
    cloud: LocalCloud, stack: Stack, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(doctor, "stack_of", lambda _: stack)

    code = doctor.doctor(argparse.Namespace(json=True))

    tried = json.loads(capsys.readouterr().out)["tried"]
    assert [each for each in tried if each["problem"]] == []
    assert code == 0
    logical_ids = {physical: logical for logical, physical in cloud.physical_ids.items()}
    words = ("Cache", "Proxy", "RedisControl", "Scheduler", "Janitor", "Origin")
    tested = list(dict.fromkeys(logical_ids[each["function"]] for each in tried))
    assert tested == [f"{word}Function" for word in words]
    relays = [logical_ids[each["function"]] for each in tried if each["part"] == "relay"]
    assert relays == ["CacheFunction", "ProxyFunction", "RedisControlFunction"]


def test_a_self_test_leaves_nothing_behind(cloud: LocalCloud, stack: Stack) -> None:
    def state() -> list[Any]:
        table = cloud.client("dynamodb").scan(TableName=cloud.outputs["TableName"])["Items"]
        objects = cloud.client("s3").list_objects_v2(Bucket=cloud.bucket_name).get("Contents", [])
        machines = (cloud.outputs[name] for name in ("KeyLifecycleArn", "RedisNodeArn"))
        lives = [cloud.client("stepfunctions").list_executions(stateMachineArn=arn)["executions"] for arn in machines]
        cluster = cloud.function_variables("RedisControlFunction")["TASK_CLUSTER"]
        return [table, objects, lives, cloud.client("ecs").list_tasks(cluster=cluster)["taskArns"]]

    before = state()
    cloud.invoke("SelfTestFunction", {"op": "self_test", "run": "nothing"})

    assert state() == before


def test_a_relay_with_another_certificate_is_named_with_its_address(functions: Functions) -> None:
    other, _ = issue_certificate("127.0.0.1", now=datetime.now(UTC))

    tried = functions.relay(RELAY_CA_PEM=other.ca_pem)

    relay = functions.cloud.function_variables("ProxyFunction")["RELAY_URL"].removeprefix("tls://")
    assert tried["endpoint"] == relay
    assert "shows a certificate that is not of the authority that is expected; " in tried["problem"]
    assert "its certificate and the functions belong together: raise CredentialsIssue and deploy" in tried["problem"]


def test_a_closed_port_of_the_relay_is_named(functions: Functions) -> None:
    port = free_port()

    tried = functions.relay(RELAY_URL=f"tls://127.0.0.1:{port}")

    assert tried["endpoint"] == f"127.0.0.1:{port}"
    assert "ConnectionRefusedError" in tried["problem"]
    assert "the function's security group must let out this port" in tried["problem"]
    assert "the relay's task must run" in tried["problem"]


def test_a_relay_that_is_silent_is_named(functions: Functions) -> None:
    with Silence() as silence:
        tried = functions.relay(RELAY_URL=f"tls://{silence.address}")

    assert "TimeoutError" in tried["problem"]
    assert "the relay's task must run" in tried["problem"]


def test_a_password_that_the_relay_refuses_is_named(functions: Functions, another_password: str) -> None:
    tried = functions.relay(RELAY_PASSWORD_PARAMETER=another_password)

    assert "user proxy" in tried["problem"]
    assert "password" in tried["problem"]
    assert "its passwords and those of the functions belong together: raise CredentialsIssue" in tried["problem"]


@pytest.mark.usefixtures("hasty")
def test_a_user_that_may_not_ask_is_found(functions: Functions) -> None:
    """The relay answers such a request with silence."""
    environ = functions.cloud.function_variables("CacheFunction")

    tried = functions.relay(RELAY_USER="cache", RELAY_PASSWORD_PARAMETER=environ["RELAY_PASSWORD_PARAMETER"])

    assert "no answer to get." in tried["problem"]


@pytest.mark.usefixtures("hasty")
def test_a_relay_on_which_no_cache_function_listens_is_found(functions: Functions) -> None:
    assert "no cache function" in functions.relay()["problem"]


@pytest.mark.usefixtures("hasty")
def test_a_missing_parameter_is_named(functions: Functions) -> None:
    failures = functions.failures("proxy", REDIS_PASSWORD_PARAMETER="/no/such", RELAY_URL="")

    assert failures.keys() == {"parameter /no/such"}
    assert "the parameter is missing: raise CredentialsIssue and deploy" in failures["parameter /no/such"]["problem"]


def test_a_service_that_is_out_of_reach_is_named_with_host_and_port(functions: Functions) -> None:
    port = free_port()

    failures = functions.failures("proxy", {"": f"http://127.0.0.1:{port}"}, RELAY_URL="")

    assert {part.split()[0] for part in failures} == {"table", "bucket", "bus", "parameter"}
    for tried in failures.values():
        assert tried["endpoint"] == f"127.0.0.1:{port}"
    assert "EndpointConnectionError" in failures["table"]["problem"]
    assert "must let out this port, and the route table" in failures["table"]["problem"]


def test_a_missing_bucket_differs_from_a_missing_object(functions: Functions) -> None:
    failures = functions.failures("proxy", BUCKET_NAME="no-such-bucket", RELAY_URL="")

    assert failures.keys() == {"bucket no-such-bucket"}
    assert "S3 answers 404 NoSuchBucket" in failures["bucket no-such-bucket"]["problem"]


def test_names_of_what_is_gone_are_found(functions: Functions) -> None:
    failures = functions.failures(
        "redis_control",
        RELAY_URL="",
        REDIS_ON="ec2",
        TABLE_NAME="no-such-table",
        REDIS_NODES="node-1=i-0123456789abcdef0@10.0.0.1:6379",
        REDIS_NODE_ARN=f"arn:aws:states:{functions.cloud.region}:123456789012:stateMachine:none",
    )

    assert failures.keys() == {"table", "instances", "machine redis_node"}
    assert "ResourceNotFoundException" in failures["table"]["problem"]
    assert "instance i-0123456789abcdef0 of node-1 is terminated" in failures["instances"]["problem"]
    assert "StateMachineDoesNotExist" in failures["machine redis_node"]["problem"]


def test_a_node_that_runs_is_asked_and_a_wrong_password_and_a_wrong_certificate_are_found(
    cloud: LocalCloud, functions: Functions, another_password: str
) -> None:
    cloud.invoke("RedisControlFunction", {"op": "hold", "node": "node-1", "for_s": 4 * LIMIT_S})

    def answering() -> dict[str, Any] | None:
        found: dict[str, Any] = cloud.invoke("RedisControlFunction", {"op": "ping", "node": "node-1"})
        return found if found["pong"] else None

    def failing(problem: str, **changes: str) -> CheckResult:
        """Wait for a problem of the node. A check may read the digest too early, and time out on a busy machine."""

        def found() -> CheckResult | None:
            tried = functions.failures("proxy", None, RELAY_URL="", **changes).get("nodes that run")
            return tried if tried is not None and problem in tried["problem"] else None

        return until(found)

    host = until(answering)["host"]
    refused = failing("node-1 refuses the password of user reader: ", REDIS_PASSWORD_PARAMETER=another_password)
    other, _ = issue_certificate(SERVER_NAME, now=datetime.now(UTC))
    untrusted = failing(
        "shows a certificate that is not of the authority that is expected; ", REDIS_CA_PEM=other.ca_pem
    )

    assert refused["endpoint"] == untrusted["endpoint"] == f"{host}:6379"
    assert "its password and that of the functions belong together: raise CredentialsIssue" in refused["problem"]
    assert "its certificate and the functions belong together: raise CredentialsIssue" in untrusted["problem"]
    until(lambda: functions.failures("proxy", RELAY_URL="") == {})


def test_a_function_that_the_janitor_cannot_invoke_is_found(functions: Functions) -> None:
    failures = functions.failures("janitor", REDIS_CONTROL_FUNCTION_NAME="nobody")

    assert failures.keys() == {"function nobody"}
    assert "ResourceNotFoundException" in failures["function nobody"]["problem"]
