"""Time is an argument: what is deployed, decides or interprets asks the clock, or the event loop, that it was given."""

from __future__ import annotations

import ast
import re

import pytest

from support.project import ROOT
from support.sources import sources

# What else runs on a person's machine measures, waits for processes or stands in for AWS: it goes by the time there.
_FOLDERS = (
    "src", "tools/burstcache_cli", "tools/burstcache_sim", "tools/burstcache_terminal",
    "tools/burstcache_local/stepfunctions", "tools/burstcache_local/template",
)  # fmt: skip
_MAY = {
    "src/burstcache/adapters/clock.py": "is the clock of the machine",
    "src/burstcache/adapters/stack_answer.py": "stands in a package without this one, too, and only pauses",
    "src/burstcache/client/files.py": "delays the interpreter's exit",
    "src/burstcache/gateway/access_log.py": "dates its lines",
    "src/burstcache/gateway/http_connection.py": "dates requests for the access log",
    "src/burstcache/gateway/http_messages.py": "dates requests for the access log",
    "src/burstcache/gateway/origin_signer.py": "dates signatures, as botocore does",
    "src/burstcache/gateway/recorder.py": "measures requests",
    "src/burstcache/gateway/responses.py": "dates responses",
    "src/burstcache/gateway/s3_monitor.py": "measures requests to S3",
    "src/burstcache/gateway/server.py": "waits for processes and connections",
    "src/burstcache/gateway/signatures.py": "parses and writes dates",
    "src/burstcache/gateway/spans.py": "dates spans as OpenTelemetry dates those around them",
    "src/burstcache/handlers/_init.py": "knows from the kernel when the process began",
    "src/burstcache/results/steps.py": "pauses in a thread while another process works, as asyncio does in a task",
    "src/burstcache/traces.py": "dates segments as the X-Ray SDK dates those around them",
    "tools/burstcache_cli/gateway_check.py": "compares the gateway's clock with the machine's",
}


# What a module that asks the machine has in its text; few others do, and only these are worth parsing.
_MIGHT = re.compile(r"\bimport\b.*\btime\b|\bfrom time\b|\.\s*(?:now|utcnow|today)\b")


def _asks_the_machine(source: str) -> bool:
    if not _MIGHT.search(source):
        return False
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names) if any(alias.name == "time" for alias in names):
                return True
            case ast.ImportFrom(module="time"):
                return True
            case ast.Attribute(attr="now" | "utcnow" | "today", value=ast.Name(id=name) | ast.Attribute(attr=name)):
                if name in ("date", "datetime"):
                    return True
    return False


def test_no_module_asks_the_machine_for_the_time_but_those_that_must() -> None:
    paths = [path for folder in _FOLDERS for path in sources(".py", under=folder)]

    asking = {str(path.relative_to(ROOT)) for path in paths if _asks_the_machine(path.read_text())}

    assert asking == set(_MAY)


@pytest.mark.parametrize(
    "source",
    ["import time", "def f():\n    import os, time", "from time import sleep", "datetime.now(UTC)",
     "datetime.datetime.utcnow()", "start = date.today"],
)  # fmt: skip
def test_a_look_at_the_machines_clock_is_found(source: str) -> None:
    assert _asks_the_machine(source)


@pytest.mark.parametrize("source", ["from burstcache.adapters.clock import Clock", "clock.now_us()", "loop.time()"])
def test_a_look_at_a_given_clock_is_none(source: str) -> None:
    assert not _asks_the_machine(source)
