"""The secrets of a run are where they belong, and not in logs, environments, arguments, events, histories or traces."""

from __future__ import annotations

import base64
import json
import os
import secrets
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import boto3
import pytest
import requests
from moto.events.models import EventsBackend

from burstcache.client import Client
from burstcache.core.table import HUB_PREFIX, LEASE_PREFIX
from burstcache.state import state
from burstcache_local.cloud import LocalCloud, LocalOptions
from burstcache_local.machines import processes
from support.policies import THESIS
from support.waiting import until

_PARAMETERS = THESIS | {
    "RedisOn": "ec2",  # an instance reads its passwords and its token itself
    "Tracing": "Active",
    "Writes": "iam",
    "StateDatabases": "orders",
    "StateGraceS": "1",
    "PoolMembers": "8",
    "PoolMemoryMb": "512",
    "PolicyOverrides": "redis_utilization_s=3600,redis_check_s=1",
}
_TOKENS = ("waiter", "running", "boot_token", "save_token", "token")  # columns
_OF_A_BOOT = {"node boot_token", "lease waiter"}
_KINDS = {HUB_PREFIX: "hub", LEASE_PREFIX: "lease"}  # of rows with tokens, by the beginning of their sort key
# Where secrets belong, with the reason.
_FILES = {
    "relay.conf": "the relay's own, which only its user reads, in its container",
    "relay-tls.pem": "the same",
    "burstcache-keeper": "of the program that saves a database of state, on its instance, where only root reads it",
}
_ENVIRONMENTS = {"nats-server": "ECS hands a task its secrets so; it is alone in its container"}
_LARGE = os.urandom(9 << 20)
_MOST_FILE_BYTES = 64 << 20


class Secrets:
    """The secrets of a run, by what they are, and how each may be written."""

    def __init__(self) -> None:
        self._known: dict[bytes, str] = {}

    def add(self, name: str, value: str) -> None:
        """Remember a secret; of a private key in PEM one of its lines, as line breaks are written in several ways."""
        _, is_key, lines = value.partition("PRIVATE KEY-----\n")
        text = lines.splitlines()[1] if is_key else value
        for written in (text, base64.b64encode(text.encode()).decode().rstrip("="), quote(text, safe="")):
            self._known[written.encode()] = name

    def named(self, kind: str) -> set[str]:
        """Return the names of those of a kind, without it."""
        return {name.removeprefix(kind) for name in self._known.values() if name.startswith(kind)}

    def within(self, text: bytes) -> set[str]:
        """Return the names of the secrets in a text."""
        return {name for written, name in self._known.items() if written in text}


class Run:
    """A run in which everything with a secret has been at work, and what could be seen of it from outside."""

    def __init__(self, cloud: LocalCloud, folder: Path) -> None:
        self.cloud, self._folder = cloud, folder
        self.secrets = Secrets()
        self.events: list[Any] = []
        self.processes: set[tuple[bytes, bytes]] = set()  # arguments and environments

    def work(self) -> None:
        """Take a key through all tiers, hold a database twice, and read a large object through the pool."""
        for parameter in self._parameters():
            self.secrets.add(f"parameter {parameter['Name']}", parameter["Value"])
        session = boto3.Session("local", "local", region_name=self.cloud.region)
        urls = {"": self.cloud.endpoint_url}
        s3 = self.cloud.client("s3")
        s3.put_object(Bucket=self.cloud.bucket_name, Key="hot", Body=b"text")
        s3.put_object(Bucket=self.cloud.bucket_name, Key="large", Body=_LARGE)
        with Client(stack_name=self.cloud.stack_name, session=session, endpoint_urls=urls, memory_bytes=0) as client:
            with self.cloud.faults.silence_nodes():  # what waits for a node waits until it is seen
                until(lambda: self._looked() and client.get("hot") and self.secrets.named("token of ") >= _OF_A_BOOT)
            until(lambda: self._looked() and client.get("hot").tier == "redis")
            s3.put_object(Bucket=self.cloud.bucket_name, Key="hot", Body=b"changed")
            until(lambda: self._looked() and client.get("large").tier == "pool")
            with state("orders", stack=self.cloud.stack_name, session=session, endpoint_urls=urls) as redis:
                redis.set("k", "v")
                self._looked()
            until(lambda: self._looked() and self._is_asleep())
        self._call()
        self._look_at_processes()

    def _call(self) -> None:
        """Ask the front door with credentials of callers, and for URLs that are themselves a right."""
        objects = f"{self.cloud.front_url}/objects"
        bearer, signature = f"Bearer {secrets.token_urlsafe(32)}", secrets.token_hex(32)
        self.secrets.add("caller bearer", bearer.removeprefix("Bearer "))
        self.secrets.add("caller signature", signature)
        signed = f"AWS4-HMAC-SHA256 Credential=AKIA/x, SignedHeaders=host, Signature={signature}"
        for method, body in (("GET", None), ("PUT", b"written")):
            for value in (bearer, signed):
                requests.request(
                    method, f"{objects}/hot", data=body, headers={"Authorization": value}
                ).raise_for_status()
        redirected = requests.get(f"{objects}/large", allow_redirects=False)
        urls = {
            "of a GET": redirected.headers["Location"],
            "of a PUT": requests.post(f"{objects}/larger").json()["url"],
        }
        for name, url in urls.items():
            (value,) = parse_qs(urlsplit(url).query)["X-Amz-Signature"]
            self.secrets.add(f"caller URL {name}", value)

    def files(self) -> Iterator[Path]:
        """Yield the files of the run: its logs, and all that it left in the folder for temporary ones."""
        return (path for path in self._folder.rglob("*") if path.is_file() and path.stat().st_size < _MOST_FILE_BYTES)

    def histories(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the events of all executions, each with its machine."""
        states = self.cloud.client("stepfunctions")
        for machine in ("KeyLifecycle", "RedisNode", "Pool"):
            for each in states.list_executions(stateMachineArn=self.cloud.physical_ids[machine])["executions"]:
                described = states.describe_execution(executionArn=each["executionArn"])
                yield machine, {"type": "Input", "input": described["input"]}
                for page in states.get_paginator("get_execution_history").paginate(executionArn=each["executionArn"]):
                    yield from ((machine, event) for event in page["events"])

    def note_process(self, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
        """Remember a process, however soon it ends."""
        written = [f"{name}={value}" for name, value in environment.items()]
        self.processes.add(("\0".join(arguments).encode(), "\0".join(written).encode()))

    def _parameters(self) -> list[Mapping[str, Any]]:
        pages = self.cloud.client("ssm").get_paginator("get_parameters_by_path")
        found = pages.paginate(Path="/burstcache", Recursive=True, WithDecryption=True)
        return [each for page in found for each in page["Parameters"] if each["Type"] == "SecureString"]

    def _looked(self) -> bool:
        """Remember the tokens that are in the table now."""
        for page in (
            self.cloud.client("dynamodb").get_paginator("scan").paginate(TableName=self.cloud.outputs["TableName"])
        ):
            for item in page["Items"]:
                for column in _TOKENS:
                    if token := item.get(column, {}).get("S", ""):
                        name = item["sk"]["S"]
                        kind = next((each for begin, each in _KINDS.items() if name.startswith(begin)), "node")
                        self.secrets.add(f"token of {kind} {column}", token)
        self._look_at_processes()
        return True

    def _is_asleep(self) -> bool:
        asked = {"op": "release", "database": "orders", "holder": "one"}
        return bool(self.cloud.invoke("StateFunction", asked)["phase"] == "stopped")

    def _look_at_processes(self) -> None:
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                before, environment, arguments = (
                    (folder / each).read_bytes() for each in ("cmdline", "environ", "cmdline")
                )
            except OSError:  # it has ended, or is another's
                continue
            if arguments and arguments == before:  # else it was just beginning or ending
                self.processes.add((arguments, environment))


@pytest.fixture(scope="module")
def run() -> Iterator[Run]:
    directory = tempfile.TemporaryDirectory(prefix="bc-", ignore_cleanup_errors=True)
    with directory as name, pytest.MonkeyPatch.context() as patch:  # undone even if the cloud does not start
        folder = Path(name)
        patch.setenv("TMPDIR", name)
        patch.setattr(tempfile, "tempdir", name)
        options = LocalOptions(boot_s=0.2, stop_s=0.2, run_dir=folder / "run", parameters=_PARAMETERS)
        with LocalCloud(options) as cloud:
            run = Run(cloud, folder)
            usual = EventsBackend.put_events

            def put_events(backend: EventsBackend, events: list[Any]) -> Any:
                run.events.extend(events)
                return usual(backend, events)

            start = processes.start

            def start_noted(command: Sequence[str], *, env: Mapping[str, str], **more: Any) -> subprocess.Popen[bytes]:
                run.note_process(command, env)
                return start(command, env=env, **more)

            patch.setattr(EventsBackend, "put_events", put_events)
            patch.setattr(processes, "start", start_noted)
            run.work()
            yield run


def test_every_kind_of_secret_was_at_work(run: Run) -> None:
    passwords = {"relay": ("proxy", "cache", "control"), "redis": ("reader", "control"), "state": ("holder", "keeper")}
    names = {f"{service}/1/{user}" for service, users in passwords.items() for user in users}

    assert run.secrets.named("parameter /burstcache/burstcache/") == names | {"relay/1/tls", "redis/1/tls"}
    assert run.secrets.named("caller ") == {"bearer", "signature", "URL of a GET", "URL of a PUT"}
    assert run.secrets.named("token of ") == {
        "hub token",
        "lease waiter",
        "lease running",
        "node boot_token",
        "node save_token",
    }


@pytest.mark.parametrize("written", ["{}", "a {} b"])
def test_a_secret_is_found_however_it_is_written(written: str) -> None:
    known = Secrets()
    known.add("plain", "pa+ss/word==")
    key = "-----BEGIN PRIVATE KEY-----\nMIGHAgEAMBMG\n-----END PRIVATE KEY-----\n"
    known.add("key", key)

    assert known.within(written.format("pa+ss/word==").encode()) == {"plain"}
    assert known.within(written.format(base64.b64encode(b"pa+ss/word==").decode()).encode()) == {"plain"}
    assert known.within(written.format(json.dumps(key)).encode()) == {"key"}
    assert known.within(b"password") == set()


def test_no_file_has_a_secret_but_those_of_one_owner(run: Run) -> None:
    found = {path: names for path in run.files() if (names := run.secrets.within(path.read_bytes()))}

    assert {path.name for path in found} == _FILES.keys()
    assert {path.stat().st_mode & 0o077 for path in found} == {0}


def test_no_function_has_a_secret_in_its_environment(run: Run) -> None:
    functions = [name for name in run.cloud.physical_ids if name.endswith("Function")]
    found = {name: run.secrets.within(json.dumps(run.cloud.function_variables(name)).encode()) for name in functions}

    assert len(found) > 10
    assert {name: names for name, names in found.items() if names} == {}


def test_no_process_has_a_secret_among_its_arguments(run: Run) -> None:
    seen = {arguments for arguments, _ in run.processes}

    assert any(b"nats-server" in each for each in seen)
    assert {each for each in seen if run.secrets.within(each)} == set()


def test_no_process_has_a_secret_in_its_environment_but_those_that_need_it(run: Run) -> None:
    holders = {arguments.decode() for arguments, environment in run.processes if run.secrets.within(environment)}

    assert len(run.processes) > len(holders)
    assert {next((name for name in _ENVIRONMENTS if name in each), each) for each in holders} == _ENVIRONMENTS.keys()


def test_no_output_of_the_stack_has_a_secret(run: Run) -> None:
    assert run.secrets.within(json.dumps(run.cloud.outputs).encode()) == set()


def test_no_event_has_a_secret(run: Run) -> None:
    assert run.events
    assert run.secrets.within(json.dumps(run.events, default=str).encode()) == set()


def test_no_history_has_a_secret_but_the_tokens_that_a_task_was_given(run: Run) -> None:
    seen = [
        (machine, event["type"], run.secrets.within(json.dumps(event, default=str).encode()))
        for machine, event in run.histories()
    ]
    found = {(type_, name.partition(" ")[0]) for _, type_, names in seen for name in names}

    assert {machine for machine, _, _ in seen} >= {"KeyLifecycle", "RedisNode"}
    assert found == {("TaskScheduled", "token")}  # by Step Functions itself; inputs, outputs and errors have none
