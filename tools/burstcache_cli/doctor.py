"""The command that tests a stack: each of its functions tries what it works with."""

from __future__ import annotations

import argparse
import json
import sys
import uuid

from burstcache.core.messages.self_test import SELF_TEST, SelfTest, StackTested, problems
from burstcache_cli.operate import invoke
from burstcache_cli.stack import stack_of
from burstcache_terminal.exit_codes import ExitCode
from burstcache_terminal.text import count_text, table_text, wrapped_text


def doctor(args: argparse.Namespace) -> ExitCode:
    """Print what was tried, and how long it took; what does not work follows with what to do."""
    event = SelfTest(op=SELF_TEST, run=uuid.uuid4().hex)
    tested: StackTested = invoke(stack_of(args), "SelfTestFunctionName", event)
    found = problems(tested)
    if args.json:
        print(json.dumps(tested))
    else:
        print(tested_text(tested))
        for problem in found:
            print(f"\n{wrapped_text(problem)}", file=sys.stderr)
    return ExitCode.FAILURE if found else ExitCode.SUCCESS


def tested_text(tested: StackTested) -> str:
    """Return one line per part that a function has tried, under a header, and how many work."""
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
