"""The `burstcache doctor` command, a self-test in which each function of a stack tests the components it uses."""

from __future__ import annotations

import argparse
import json
import sys
import uuid

from burstcache.core.messages.self_test import SELF_TEST, SelfTest, StackTestResult, problems
from burstcache_cli.operate import invoke
from burstcache_cli.stack import stack_of
from burstcache_terminal.exit_codes import ExitCode
from burstcache_terminal.text import count_text, table_text, wrapped_text


def doctor(args: argparse.Namespace) -> ExitCode:
    """Run the self-test. Print each test with its duration, and each problem with its remedy."""
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
