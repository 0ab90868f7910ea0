"""The `burstcache advise` command, for a log alone or for a deployed stack.

A stack's own log is that of its HTTP API (`AccessLogs`). Requests of programs with the client library are not in it.
"""

from __future__ import annotations

import argparse
import csv
import json
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from burstcache.adapters.clock import SystemClock
from burstcache.core.errors import InvalidSettingError
from burstcache.core.parameters import US_PER_S
from burstcache.core.worth import sheet_of_region
from burstcache.queries.node_memory import stack_memory
from burstcache_cli.explain import rules_of
from burstcache_cli.memory_text import memory_lines
from burstcache_cli.stack import Stack, find_stack
from burstcache_cli.stack_advice_options import DAYS, TODAY
from burstcache_sim.choose.advise.deployed import DeployedStack
from burstcache_sim.commands import advise
from burstcache_terminal.exit_codes import ExitCode

_OBJECTS = "/objects/"  # the front door's paths
_MILLI = 1_000
# A stack cannot change its readers' memory, so neither it nor its rivals compete with any.
_OF_READERS = "reader-memory"


def run(args: argparse.Namespace) -> ExitCode:
    """Advise on a log, or on a deployed stack by its own log or another one.

    Raises:
        InvalidSettingError: There is no log, no such stack, or no request in its log.
    """
    if not args.stack_name:
        if not args.traces:
            raise InvalidSettingError("TRACE is missing: name a log, or a stack that writes one (--stack-name)")
        args.prices = args.prices or TODAY
        return advise.run(args)
    stack = find_stack(stack_name=args.stack_name, region=args.region, profile=args.profile)
    deployed = DeployedStack(stack.name, stack.parameters, str(stack.session.region_name))
    args.node_kinds = list(dict.fromkeys([*args.node_kinds, *deployed.kinds]))
    if args.prices is None:
        args.prices = sheet_of_region(deployed.region).name
    args.origin_events = args.origin_events or deployed.origin_events
    args.without = [*args.without, _OF_READERS]
    notes = _notes(stack)
    if args.traces:
        return advise.run(args, deployed, notes)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{stack.name}.csv"
        _write_log(stack, args, path)
        args.traces, args.format, args.fields, args.readers = [str(path)], "csv", {"time": "time:ms"}, "internet"
        args.front_door = "http-api"
        return advise.run(args, deployed, notes)


def _notes(stack: Stack) -> list[str]:
    """Return lines about full nodes, whose lost hits are measured."""
    if "PolicySettings" not in stack.outputs:
        return []
    memory = stack_memory(stack.system(), rules_of(stack))
    return [f"Measured: {label}: {text}." for label, text in memory_lines(memory)] if memory else []


def _write_log(stack: Stack, args: argparse.Namespace, path: Path) -> None:
    """Write the requests of the HTTP API as a table."""
    group = next((each.physical_id for each in stack.resources if each.logical_id == "HttpApiLogs"), "")
    if not group:
        raise InvalidSettingError(
            f"--stack-name {stack.name}: it writes no log of its requests. Deploy it with AccessLogs=enabled (HTTP"
            " API), or name a log: S3's own of the bucket, a gateway's, a load balancer's"
        )
    until_us = args.before or SystemClock().now_us()
    since_us = args.since or until_us - int(DAYS * 24 * 3600) * US_PER_S
    requests = 0
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(("time", "key", "size", "method", "status"))
        for line in _log_lines(stack.client("logs"), group, since_us, until_us):
            if (row := _row(line)) is not None:
                table.writerow(row)
                requests += 1
    if not requests:
        raise InvalidSettingError(f"--stack-name {stack.name}: its log {group} has no request in this time")


def _log_lines(logs: Any, group: str, since_us: int, until_us: int) -> Iterator[Mapping[str, str]]:
    """Yield the log's entries between two times. CloudWatch selects by milliseconds."""
    pages = logs.get_paginator("filter_log_events").paginate(
        logGroupName=group, startTime=since_us // _MILLI, endTime=until_us // _MILLI
    )
    for page in pages:
        for event in page["events"]:
            yield json.loads(event["message"])


def _row(line: Mapping[str, str]) -> tuple[str, ...] | None:
    """Return time [ms], key, bytes, method and status of a request for an object, or None for any other."""
    path = line["path"]
    if not path.startswith(_OBJECTS):
        return None
    size = line["bytes"] if line["status"] != "304" else ""
    return line["at"], unquote(path.removeprefix(_OBJECTS)), size, line["method"], line["status"]
