"""The `burstcache doctor` command: a stack's functions test the parts they use, or this machine tests a gateway."""

from __future__ import annotations

import argparse
import json
import sys
import uuid
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from burstcache.core.messages.self_test import SELF_TEST, SelfTest, StackTestResult, problems
from burstcache_cli.operate import invoke
from burstcache_cli.stack import stack_of
from burstcache_terminal.exit_codes import ExitCode
from burstcache_terminal.text import count_text, table_text, wrapped_text

if TYPE_CHECKING:
    from burstcache_cli.gateway_check import GatewayCheck


def doctor(args: argparse.Namespace) -> ExitCode:
    """Run the self-test. Print each test with its duration, and each problem with its remedy."""
    if getattr(args, "gateway", ""):  # the local run's self-test has no such option
        return _gateway(args)
    event = SelfTest(op=SELF_TEST, run=uuid.uuid4().hex)
    tested: StackTestResult = invoke(stack_of(args), "SelfTestFunctionName", event)
    failures = problems(tested)
    if args.json:
        print(json.dumps(tested))
    else:
        print(tested_text(tested))
        for problem in failures:
            print(f"\n{wrapped_text(problem)}", file=sys.stderr)
    return ExitCode.FAILURE if failures else ExitCode.SUCCESS


def tested_text(tested: StackTestResult) -> str:
    """Return a table with one row per function and component, and the number of working components."""
    rows = [
        (
            tried["function"],
            tried["part"],
            tried["endpoint"],
            str(tried["duration_ms"]),
            "FAILED" if tried["problem"] else "ok",
        )
        for tried in tested["tried"]
    ]
    working = sum(not tried["problem"] for tried in tested["tried"])
    counts = f"{working} of {count_text(len(rows), 'part')} {'work' if working != 1 else 'works'}"
    return f"{table_text(('FUNCTION', 'PART', 'ENDPOINT', 'MS', ''), rows, right=(3,))}\n{counts}"


def _gateway(args: argparse.Namespace) -> ExitCode:
    """Check a gateway from here."""
    from burstcache_cli.gateway_check import check_gateway, gateway_client  # lazy import: not for a stack

    s3 = gateway_client(args.gateway, region=args.region, profile=args.profile)
    checks = check_gateway(args.gateway, s3, args.bucket, args.key)
    if args.json:
        print(json.dumps({"tried": [asdict(check) for check in checks]}))
    else:
        print(checks_text(checks))
        for check in checks:
            if check.problem:
                print(f"\n{wrapped_text(f'{args.gateway}: {check.part}: {check.problem}')}", file=sys.stderr)
    return ExitCode.FAILURE if any(check.problem for check in checks) else ExitCode.SUCCESS


def checks_text(checks: Sequence[GatewayCheck]) -> str:
    """Return a table with one row per check of a gateway."""
    rows = [(check.part, str(check.duration_ms), "FAILED" if check.problem else "ok", check.found) for check in checks]
    return table_text(("PART", "MS", "", "FOUND"), rows, right=(1,))
