"""The `burstcache` command: its output, exit codes and error messages. AWS is moto's."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto import mock_aws

from burstcache import __version__
from burstcache.adapters.items import to_values
from burstcache.core.keys import key_execution_name, key_hash
from burstcache.queries.watch import Watcher
from burstcache_cli import cli
from burstcache_cli.cli import main
from burstcache_cli.registry import COMMANDS, EXTRAS, GROUPS, Command, children
from support.project import PYTHONPATH, ROOT

REGION = "eu-west-1"
STACK = ("--stack-name", "mine", "--region", REGION)
DECIDES_BY = {
    "AWS_REGION": REGION,
    "REDIS_NODES": "node-1=i-1@10.0.0.5:6379",
    "REDIS_ALWAYS_ON_NODES": "0",
    "MAX_HOT_KEYS": "2",
    "HAS_RELAY": "true",
    "MAX_OBJECT_BYTES": "4194304",
    "EXPRESS_BUCKET": "",
    "POLICY": "breakeven",
    "HIT_VALUE_USD_PER_MILLION": "10",
    "REDIS_INSTANCE_TYPE": "t4g.micro",
    "CACHE_MEMORY_MB": "256",
    "POLICY_RATE": "9",
    "POLICY_SENSITIVITY": "4",
    "POLICY_OVERRIDES": "",
    "MEMORY_MB": "0",
    "POOL_MEMBERS": "0",
}
TEMPLATE = {
    "Resources": {
        "Table": {
            "Type": "AWS::DynamoDB::Table",
            "Properties": {
                "BillingMode": "PAY_PER_REQUEST",
                "KeySchema": [
                    {"AttributeName": "pk", "KeyType": "HASH"},
                    {"AttributeName": "sk", "KeyType": "RANGE"},
                ],
                "AttributeDefinitions": [
                    {"AttributeName": "pk", "AttributeType": "S"},
                    {"AttributeName": "sk", "AttributeType": "S"},
                ],
            },
        }
    },
    "Outputs": {
        "TableName": {"Value": {"Ref": "Table"}},
        "KeyLifecycleArn": {"Value": f"arn:aws:states:{REGION}:123456789012:stateMachine:mine-key-lifecycle"},
        "RedisNodeArn": {"Value": f"arn:aws:states:{REGION}:123456789012:stateMachine:mine-redis-node"},
        "RedisNodes": {"Value": "node-1=i-1@10.0.0.5:6379"},
        "PolicySettings": {"Value": json.dumps(DECIDES_BY)},
        "PoolSettings": {"Value": json.dumps({"AWS_REGION": REGION, "POOL_MEMORY_MB": "1769"})},
    },
}
LIFE = {
    "StartAt": "Lambda",
    "States": {
        "Lambda": {"Type": "Pass", "Next": "RedisBootup"},
        "RedisBootup": {"Type": "Pass", "Next": "RedisRunning"},
        "RedisRunning": {"Type": "Wait", "Seconds": 1, "Next": "RedisShutdown"},
        "RedisShutdown": {"Type": "Pass", "End": True},
    },
}
TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"


class Aws:
    """The deployed stack that the commands see."""

    def __init__(self) -> None:
        cloudformation = self.client("cloudformation")
        cloudformation.create_stack(StackName="mine", TemplateBody=json.dumps(TEMPLATE))
        outputs = cloudformation.describe_stacks(StackName="mine")["Stacks"][0]["Outputs"]
        self.table_name = next(o["OutputValue"] for o in outputs if o["OutputKey"] == "TableName")

    @staticmethod
    def client(service: str) -> Any:
        return boto3.client(service, region_name=REGION)

    def put(self, pk: str, sk: str, **fields: Any) -> None:
        item = to_values({"pk": pk, "sk": sk, **fields})
        self.client("dynamodb").put_item(TableName=self.table_name, Item=item)

    def put_key(self, key: str, **fields: Any) -> None:
        self.put(f"KEY#{key_hash(key)}", "ROUTE", **{"key": key, "phase": "s3", "window": [], **fields})

    def start_life(self, name: str, *, on_redis_s: int = 1) -> None:
        states = self.client("stepfunctions")
        role = "arn:aws:iam::123456789012:role/any"
        definition = json.dumps(LIFE).replace('"Seconds": 1', f'"Seconds": {on_redis_s}')
        machine = states.create_state_machine(name="mine-key-lifecycle", definition=definition, roleArn=role)
        states.start_execution(stateMachineArn=machine["stateMachineArn"], name=name, input="{}")


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[Aws]:
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    with mock_aws(config={"stepfunctions": {"execute_state_machine": True}}):
        yield Aws()


def in_an_hour_us() -> int:
    return time.time_ns() // 1000 + 3_600_000_000


def call_wrongly(argv: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """Return the one line that a wrong call prints."""
    exit_code = main(argv)
    out, err = capsys.readouterr()
    assert (exit_code, out) == (2, "")
    assert err.endswith("\n")
    assert err.count("\n") == 1
    return err


def watched_json(key: str, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """Return the states of a key's life up to now."""
    capsys.readouterr()
    assert main(["watch", key, "--once", "--json", *STACK]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


# What the commands print


def test_keys_prints_one_line_per_key(aws: Aws, capsys: pytest.CaptureFixture[str]) -> None:
    aws.put_key("b.json", window=["5:r1", "4:r0"])
    aws.put_key(
        "a.json", phase="lambda", tier="lambda", holder="h", epoch=7, changed_at_us=1_785_542_400_000_000,
        deadline_at_us=in_an_hour_us(), window=[f"{i}:r" for i in range(6)],
    )  # fmt: skip
    aws.put("NODE#node-1", "NODE", phase="running", generation=1)

    assert main(["keys", *STACK]) == 0

    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        ["KEY", "STATE", "TIER", "SINCE", "REQUESTS", "EXECUTION"],
        [
            "a.json",
            "Lambda",
            "lambda",
            "2026-08-01T00:00:00Z",
            "6+",
            key_execution_name("a.json", key_hash("a.json"), 7),
        ],
        ["b.json", "S3", "s3", "-", "2", "-"],
    ]


def test_keys_prints_json_for_machines(aws: Aws, capsys: pytest.CaptureFixture[str]) -> None:
    aws.put_key("b.json", window=["5:r1"])

    assert main(["keys", "--json", *STACK]) == 0

    assert json.loads(capsys.readouterr().out) == [
        {
            "key": "b.json", "state": "S3", "is_expired": False, "tier": "s3", "node": "", "since_us": 0, "requests": 1,
            "is_window_full": False, "execution_name": "", "failures": 0, "not_before_us": 0,
        }
    ]  # fmt: skip


def test_keys_dates_the_state_of_a_hot_key_by_its_execution(aws: Aws, capsys: pytest.CaptureFixture[str]) -> None:
    aws.put_key("a.json", phase="lambda", epoch=7, changed_at_us=5, deadline_at_us=in_an_hour_us())
    aws.start_life(key_execution_name("a.json", key_hash("a.json"), 7), on_redis_s=600)
    assert main(["watch", "a.json", "--until", "RedisRunning", "--timeout-s", "60", *STACK]) == 0
    entered_us = watched_json("a.json", capsys)[0]["at_us"]

    assert main(["keys", "--json", *STACK]) == 0

    assert json.loads(capsys.readouterr().out)[0]["since_us"] == entered_us


def test_routes_prints_hot_keys_only_and_whether_their_route_is_followed(
    aws: Aws, capsys: pytest.CaptureFixture[str]
) -> None:
    live = {"epoch": 7, "deadline_at_us": in_an_hour_us()}
    aws.put_key("cold.json")
    aws.put_key("starting.json", phase="lambda", **live)
    aws.put_key("warm.json", phase="lambda", tier="lambda", holder="request-1", **live)
    aws.put_key("hot.json", phase="redis_running", tier="redis", node="node-1", generation=3, **live)
    aws.put("NODE#node-1", "NODE", phase="running", generation=4)

    assert main(["routes", *STACK]) == 0

    assert capsys.readouterr().out.splitlines() == [
        "KEY        TIER    NODE    GENERATION  HOLDER     VALID",
        "hot.json   redis   node-1  3           -          no: node-1 runs generation 4",
        "warm.json  lambda  -       -           request-1  yes",
    ]


def test_explain_reads_the_policy_and_the_rows_of_a_stack(aws: Aws, capsys: pytest.CaptureFixture[str]) -> None:
    aws.put_key("cars.json", window=["5:a", "6:b"], size_bytes=70)

    assert main(["explain", "cars.json", *STACK]) == 0
    text = capsys.readouterr().out
    assert main(["explain", "cars.json", "--json", *STACK]) == 0
    found = json.loads(capsys.readouterr().out)

    assert "served by   S3" in text
    assert "size        70 bytes" in text
    assert (found["tier"], found["policy"]) == ("s3", "breakeven")
    assert [move["rule"] for move in found["moves"]] == ["node_boots", "key_starts"]


def test_pool_that_was_not_used_says_so(aws: Aws, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pool", *STACK]) == 0

    assert capsys.readouterr().out == "the pool has not been used yet\n"


def test_redis_status_prints_every_node(aws: Aws, capsys: pytest.CaptureFixture[str]) -> None:
    aws.put("NODE#node-1", "LEASE#abc", key="a.json", epoch=1)

    assert main(["redis", "status", *STACK]) == 0

    assert [line.split() for line in capsys.readouterr().out.splitlines()][1] == [
        "node-1",
        "stopped",
        "-",
        "-",
        "1",
        "-",
    ]


def test_watch_prints_each_state_as_it_is_entered_until_the_awaited_one(
    aws: Aws, capsys: pytest.CaptureFixture[str]
) -> None:
    aws.put_key("a.json", phase="lambda", epoch=7, deadline_at_us=in_an_hour_us())
    aws.start_life(key_execution_name("a.json", key_hash("a.json"), 7))

    assert main(["watch", "a.json", "--until", "S3", "--timeout-s", "60", *STACK]) == 0

    lines = [re.sub(r"after [\d.]+ s", "after N s", line) for line in capsys.readouterr().out.splitlines()]
    assert all(re.match(TIME, line) for line in lines)
    assert [line[26:] for line in lines] == [
        "Lambda",
        "RedisBootup         after N s in Lambda",
        "RedisRunning        after N s in RedisBootup",
        "RedisShutdown       after N s in RedisRunning",
        "S3                  after N s in RedisShutdown",
    ]


def test_watch_once_prints_the_current_state_of_a_key_that_nobody_has_requested(
    aws: Aws, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["watch", "new.json", "--once", *STACK]) == 0

    assert capsys.readouterr().out == "-                         S3\n"


def test_watch_prints_json_lines_for_machines(aws: Aws, capsys: pytest.CaptureFixture[str]) -> None:
    aws.put_key("a.json", changed_at_us=5, epoch=1)

    assert main(["watch", "a.json", "--once", "--json", *STACK]) == 0

    assert json.loads(capsys.readouterr().out)["state"] == "S3"


def test_watch_follows_a_node(aws: Aws, capsys: pytest.CaptureFixture[str]) -> None:
    aws.put("NODE#node-1", "NODE", phase="running", generation=4, part=1, deadline_at_us=in_an_hour_us(), ready_at_us=9)

    assert main(["watch", "--node", "node-1", "--once", *STACK]) == 0

    assert "RedisNodeRunning" in capsys.readouterr().out


# When the work fails


def test_state_that_is_not_reached_in_time_is_a_failure(aws: Aws, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["watch", "a.json", "--until", "Lambda", "--timeout-s", "0", *STACK]) == 1

    assert capsys.readouterr().err == "burstcache: Lambda was not entered within 0 s; the state is S3\n"


def test_missing_local_run_is_a_failure_with_a_remedy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["keys", "--state-dir", str(tmp_path)]) == 1

    assert "no local run in" in (printed := capsys.readouterr().err)
    assert "burstcache local up" in printed


def test_stack_that_is_out_of_reach_is_one_line_and_no_trace(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")

    assert main(["keys", *STACK]) == 1

    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert 'EndpointConnectionError: Could not connect to the endpoint URL: "http://127.0.0.1:1/"' in err


def test_defect_of_ours_is_one_line_too(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def broken(name: str) -> None:
        raise ZeroDivisionError("twelve\nby nothing")

    monkeypatch.setattr(cli, "import_module", broken)

    assert main(["keys"]) == 1
    assert capsys.readouterr().err == "burstcache: ZeroDivisionError: twelve by nothing (--debug shows the trace)\n"


def test_library_that_is_missing_is_named_with_the_extra_that_brings_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing(name: str) -> None:
        raise ModuleNotFoundError("No module named 'numpy'", name="numpy")

    monkeypatch.setattr(cli, "import_module", missing)

    assert main(["sim", "run", "log.csv"]) == 1
    assert capsys.readouterr().err == "burstcache: numpy is missing: install this package with its extra `sim`\n"


def test_extras_are_those_of_the_distribution() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    assert set(EXTRAS) <= set(children(""))
    assert set(EXTRAS.values()) <= set(project["optional-dependencies"])


@pytest.mark.parametrize(("argv", "environment"), [(["keys", "--debug"], ""), (["keys"], "1")])
def test_trace_of_an_error_is_shown_to_those_who_ask(
    argv: list[str], environment: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(name: str) -> None:
        raise ZeroDivisionError("twelve")

    monkeypatch.setattr(cli, "import_module", broken)
    monkeypatch.setenv("BURSTCACHE_DEBUG", environment)

    assert main(argv) == 1
    printed = capsys.readouterr().err
    assert "Traceback" in printed
    assert "in broken" in printed


# When the call is wrong


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        ([], "a command is missing: expected one of local, doctor, keys, explain"),
        (["kyes"], "'kyes' is no command: expected one of local, doctor, keys, explain"),
        (["--fast"], "unrecognized arguments: --fast"),
        (["keys", "--fast"], "unrecognized arguments: --fast"),
        (["redis"], "burstcache redis: a command is missing: expected one of start, stop, ping, status"),
        (["redis", "boot"], "'boot' is no command: expected one of start, stop, ping, status"),
        (["redis", "start", "--for-s", "soon"], "--for-s 'soon': expected a whole number of seconds from 1 to 604800"),
        (
            ["redis", "start", "--for-s", "604801"],
            "--for-s '604801': expected a whole number of seconds from 1 to 604800",
        ),
        (["redis", "start", "--for-s", "0"], "--for-s '0': expected a whole number"),
        (["lambda", "start"], "the following arguments are required: KEY"),
        (["lambda", "start", ""], "KEY '': expected the name of an object"),
        (["watch"], "one of the arguments KEY --node is required"),
        (["watch", "a", "--node", "node-1"], "--node not allowed with argument KEY"),
        (["watch", "a", "--until", "Moon"], "--until 'Moon': expected one of S3, Lambda, RestrictedLambda"),
        (["watch", "--node", "n", "--until", "S3"], "--until 'S3': expected one of Stopped, BootNode"),
        (["watch", "a", "--timeout-s", "-1"], "--timeout-s '-1': expected a number of seconds of at least 0"),
        (["watch", "a", "--timeout-s", "nan"], "--timeout-s 'nan': expected a number of seconds of at least 0"),
        (["keys", "--region", REGION], "--region eu-west-1: is for a deployed stack only"),
    ],
)
def test_wrong_call_is_one_line_that_names_the_value_and_what_is_accepted(
    argv: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert line in call_wrongly(argv, capsys)


@pytest.mark.usefixtures("aws")
def test_unknown_stack_and_unknown_node_are_wrong_calls(capsys: pytest.CaptureFixture[str]) -> None:
    assert "--stack-name yours: there is no such stack" in call_wrongly(
        ["keys", "--stack-name", "yours", "--region", REGION], capsys
    )
    assert "node 'node-9': stack mine has node-1" in call_wrongly(["redis", "ping", "node-9", *STACK], capsys)
    assert "node 'node-9': stack mine has node-1" in call_wrongly(["watch", "--node", "node-9", *STACK], capsys)


# Interrupts


def interrupt(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.usefixtures("aws")
@pytest.mark.parametrize(("options", "exit_code"), [((), 0), (("--until", "Lambda"), 130)])
def test_ctrl_c_ends_a_watch_quietly(
    options: tuple[str, ...], exit_code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Watcher, "look", interrupt)

    assert main(["watch", "a.json", *options, *STACK]) == exit_code
    assert capsys.readouterr() == ("", "")


def test_ctrl_c_ends_any_command_quietly(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(cli, "import_module", interrupt)

    assert main(["keys"]) == 130
    assert capsys.readouterr() == ("", "")


# The command itself


def run_python(code: str) -> str:
    """Return what a fresh process prints that runs this code."""
    environ = os.environ | {"PYTHONPATH": PYTHONPATH}
    return subprocess.run([sys.executable, "-c", code], env=environ, check=True, capture_output=True, text=True).stdout


def test_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["--version"])

    assert capsys.readouterr().out == f"burstcache {__version__}\n"


@pytest.mark.parametrize("group", GROUPS)
def test_help_of_a_group_lists_its_commands_with_their_help(group: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main([*group.split(), "--help"])

    printed = capsys.readouterr().out
    assert children(group)
    assert all(
        re.search(rf"^    {word} +{re.escape(help_)}$", printed, re.M) for word, help_ in children(group).items()
    )


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.words)
def test_every_command_has_options_and_help_of_its_own(command: Command, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main([*command.words.split(), "--help"])

    printed = capsys.readouterr().out
    assert printed.startswith(f"usage: burstcache {command.words} ")
    assert f"\n{command.help[0].upper()}{command.help[1:]}.\n" in printed


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.words)
def test_work_of_every_command_exists(command: Command) -> None:
    module, _, name = command.work.partition(":")

    assert callable(getattr(import_module(module), name))


@pytest.mark.parametrize("help_", [*GROUPS.values(), *(command.help for command in COMMANDS)])
def test_help_is_a_phrase_that_a_full_stop_turns_into_a_sentence(help_: str) -> None:
    assert help_[0].islower()
    assert not help_.endswith(".")


def test_every_group_has_commands_and_every_command_is_in_a_group() -> None:
    heads = {command.words.rpartition(" ")[0] for command in COMMANDS}

    assert heads == set(GROUPS)


@pytest.mark.slow
def test_help_and_wrong_calls_of_every_command_import_nothing_heavy() -> None:
    calls = [
        [*words.split(), *rest]
        for words in (*GROUPS, *(command.words for command in COMMANDS))
        for rest in (["--help"], ["--nonsense"])
    ]
    code = f"""
import sys
from burstcache_cli.cli import main
for argv in {calls!r}:
    try:
        assert main(argv) == 2, argv
    except SystemExit as end:
        assert end.code == 0, argv
heavy = {{'asyncio', 'boto3', 'botocore', 'matplotlib', 'moto', 'nats', 'numba', 'numpy', 'redis', 'tqdm'}}
print(sorted(heavy & set(sys.modules)))
"""

    assert run_python(code).splitlines()[-1] == "[]"


@pytest.mark.slow
def test_reader_that_has_gone_is_taken_quietly() -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    code = "import sys; from burstcache_cli.cli import main; sys.exit(main(['--help']))"

    ended = subprocess.run(
        [sys.executable, "-c", code],
        stdout=write_end,
        stderr=subprocess.PIPE,
        env={"PYTHONPATH": PYTHONPATH},  # and not PYTHONUNBUFFERED
        check=False,
    )
    os.close(write_end)

    assert (ended.returncode, ended.stderr) == (1, b"")
