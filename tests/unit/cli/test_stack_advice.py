"""`burstcache advise --stack-name`: a deployed stack, its own log in CloudWatch, and what to change."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from burstcache.adapters.clock import SystemClock
from burstcache.adapters.use_table import StoredUse, UseTable
from burstcache.core.node_memory import NodeMemory
from burstcache.core.node_use import NodeUse
from burstcache.core.rows import SeenKey
from burstcache.core.worth import MICRO
from burstcache_cli.cli import main
from support.aws import mocked_aws
from support.stack_in_moto import STACK, TEMPLATE, Aws

_GROUP = "/aws/http/mine"
_PARAMETERS = {
    "RedisOn": "ec2",
    "RedisInstanceType": "t4g.nano",
    "RedisTaskMemoryGb": "1",
    "RedisNodeCount": "1",
    "RedisAlwaysOnNodes": "0",
    "Policy": "breakeven",
    "Relay": "none",
    "FrontDoor": "http-api",
    "ExpressZone": "",
    "HitValueUsdPerMillion": "100",
    "PolicyRatePerMin": "9",
    "PolicySensitivity": "4",
    "PolicyOverrides": "",
    "CacheMemoryMb": "256",
    "ThrottleRatePerS": "1000",
    "ThrottleBurstRequests": "2000",
}
_OBJECT_BYTES = 4_000_000
_OBJECTS = 120  # 480 MB, more than a t4g.nano holds


@pytest.fixture
def aws() -> Iterator[Aws]:
    with mocked_aws():
        yield Aws()


def deploy(aws: Aws, *, has_log: bool = True, **changes: str) -> None:
    parameters = _PARAMETERS | changes
    template: dict[str, Any] = json.loads(json.dumps(TEMPLATE))
    template["Parameters"] |= {name: {"Type": "String"} for name in parameters}
    if has_log:
        template["Resources"]["HttpApiLogs"] = {
            "Type": "AWS::Logs::LogGroup",
            "Properties": {"LogGroupName": _GROUP},
        }
    aws.update(template, **parameters)


def line(at_ms: int, path: str, *, status: str = "200", method: str = "GET", size: int = _OBJECT_BYTES) -> str:
    """Return a line as the template's format has it: API Gateway quotes every value."""
    fields = {"request_id": "r", "at": str(at_ms), "ip": "192.0.2.1", "method": method, "path": path}
    return json.dumps({**fields, "status": status, "bytes": str(size), "latency_ms": "3", "error": "-"})


def write_log(aws: Aws, lines: list[tuple[int, str]]) -> None:
    logs = aws.client("logs")
    logs.create_log_stream(logGroupName=_GROUP, logStreamName="s")
    for start in range(0, len(lines), 1_000):
        events = [{"timestamp": at_ms, "message": text} for at_ms, text in lines[start : start + 1_000]]
        logs.put_log_events(logGroupName=_GROUP, logStreamName="s", logEvents=events)


def hours_of_rounds(aws: Aws, *, rounds: int = 12) -> None:
    """Write a log in which all objects are read in turn, for four hours."""
    began_ms = int((time.time() - 5 * 3600) * 1000)
    gap_ms = 4 * 3600 * 1000 // (rounds * _OBJECTS)
    lines = []
    for number in range(rounds * _OBJECTS):
        at_ms = began_ms + number * gap_ms
        lines.append((at_ms, line(at_ms, f"/objects/a%20folder/{number % _OBJECTS}")))
    late_ms = began_ms + 4 * 3600 * 1000
    others = [
        line(late_ms, "/health"),
        line(late_ms, "/objects/gone", status="404", size=0),
        line(late_ms, "/objects/written", method="PUT", size=0),
        line(late_ms, "/objects/large", status="302", size=0),
    ]
    write_log(aws, [*lines, *((late_ms, other) for other in others)])


def advised(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    """Return the advice on the stack. S3 Express behind the front door takes too long to be a hit."""
    options = ["--json", "--same-objects", "--hit-within-ms", "12" if not arguments else "2"]
    assert main(["advise", *arguments, *STACK, *options]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_a_stack_is_judged_by_its_own_log_and_told_what_to_change(aws: Aws, capsys: pytest.CaptureFixture[str]) -> None:
    deploy(aws)
    hours_of_rounds(aws)

    found = advised(capsys)

    deployed = found["deployed"]
    changes = {change["parameter"]: (change["now"], change["value"]) for change in deployed["changes"]}
    assert (found["n"], found["objects"]) == (12 * _OBJECTS, _OBJECTS)
    assert found["value"]["usd_per_hit"] == pytest.approx(1e-4)  # the stack's
    assert deployed["in_memory_pct"] < 60  # objects in turn do not fit an LRU
    assert changes == {"RedisOn": ("ec2", "fargate-spot")}  # the default size of a task has room for all objects
    assert deployed["changed_in_memory_pct"] > 90
    assert deployed["changed_net_usd_per_month"] > deployed["net_usd_per_month"]


def test_a_stack_that_has_the_best_configuration_is_left_as_it_is(aws: Aws, capsys: pytest.CaptureFixture[str]) -> None:
    deploy(aws)
    hours_of_rounds(aws)
    changes = {change["parameter"]: change["value"] for change in advised(capsys)["deployed"]["changes"]}
    template_of_best = _PARAMETERS | {name: value for name, value in changes.items() if name in _PARAMETERS}
    deploy(aws, **template_of_best)

    deployed = advised(capsys)["deployed"]

    assert deployed["changes"] == []
    assert deployed["text"][-1].startswith("CHANGE NOTHING")
    assert deployed["usd_per_month"] == deployed["changed_usd_per_month"]


@pytest.mark.parametrize(
    "changes",
    [
        {"Policy": "thesis"},
        {"RedisAlwaysOnNodes": "1"},
        {"RedisNodeCount": "0"},
        {"RedisOn": "fargate-spot", "RedisTaskMemoryGb": "0.5"},
    ],
)
def test_a_stack_of_any_kind_has_a_bill_for_the_log_that_is_named(
    changes: dict[str, str], aws: Aws, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    deploy(aws, has_log=False, **changes)
    log = tmp_path / "log.csv"
    rows = [f"{number / 5},{number % 20},100000" for number in range(6_000)]
    log.write_text("\n".join(["t,key,size", *rows]) + "\n")

    found = advised(capsys, str(log))

    assert found["deployed"]["usd_per_month"] > 0
    assert (found["deployed"]["in_memory_pct"] > 80) == (changes.get("RedisNodeCount") != "0")


@pytest.mark.parametrize(
    ("given", "events"), [({}, "direct"), ({"OriginEvents": "direct"}, "direct"), ({"OriginEvents": "queue"}, "queue")]
)
def test_a_stack_keeps_its_way_of_events_and_pays_for_the_polls_of_a_queue(
    given: dict[str, str], events: str, aws: Aws, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    deploy(aws, has_log=False, **given)
    log = tmp_path / "log.csv"
    log.write_text("t,key,size\n" + "".join(f"{number / 5},{number % 20},100000\n" for number in range(6_000)))

    kept, direct = (advised(capsys, str(log), *options) for options in ((), ("--origin-events", "direct")))

    changes = [{each["parameter"] for each in found["deployed"]["changes"]} for found in (kept, direct)]
    assert ["OriginEvents" in names for names in changes] == [False, events == "queue"]
    polls_usd = kept["burstcache"]["usd_per_month"] - direct["burstcache"]["usd_per_month"]
    assert polls_usd == pytest.approx(0.2628 if events == "queue" else 0, abs=1e-4)


def test_full_nodes_are_named_with_what_they_were_measured_to_lose(
    aws: Aws, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    deploy(aws, has_log=False)
    uses = UseTable(aws.table_name, aws.client("dynamodb"), SystemClock())
    memory = NodeMemory(400 << 20, 400 << 20, 10**6, True, 3_600_000_000, 10**6, 50_000 * MICRO)
    uses.write("node-1", NodeUse(), seen=StoredUse(), memory=memory)
    uses.note_seen("node-1", [SeenKey("h", "k", 500 << 20, SystemClock().now_us())])
    log = tmp_path / "log.csv"
    log.write_text("t,key,size\n" + "".join(f"{number},{number % 9},1000\n" for number in range(3_000)))

    assert main(["advise", str(log), *STACK]) == 0

    text = " ".join(capsys.readouterr().out.split())
    assert text.startswith("The stack mine as deployed: t4g.nano; break-even policy. ")
    assert "Measured: node-1: full: 400 MB of 400 MB used, objects of 500 MB requested within a day." in text
    assert "loses at most 50,000 hits by that. Measured: change: RedisInstanceType=t4g.small (now t4g.micro)" in text


def test_a_stack_without_a_log_says_how_it_gets_one(aws: Aws, capsys: pytest.CaptureFixture[str]) -> None:
    deploy(aws, has_log=False)

    assert main(["advise", *STACK]) == 2

    assert "AccessLogs=enabled" in capsys.readouterr().err


def test_a_log_without_requests_gets_no_advice(aws: Aws, capsys: pytest.CaptureFixture[str]) -> None:
    deploy(aws)
    write_log(aws, [(int(time.time() * 1000) - 1_000, line(0, "/health"))])

    assert main(["advise", *STACK]) == 2

    assert "has no request in this time" in capsys.readouterr().err


def test_neither_a_log_nor_a_stack_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["advise"]) == 2

    assert "--stack-name" in capsys.readouterr().err
