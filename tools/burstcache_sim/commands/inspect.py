"""`burstcache sim inspect LOG…`: a log's format, requests and keys."""

from __future__ import annotations

import argparse
import json

from burstcache_sim.commands.inputs import log_of
from burstcache_sim.traces.inspect import describe, describe_text
from burstcache_terminal.exit_codes import ExitCode


def run(args: argparse.Namespace) -> ExitCode:
    """Describe a log."""
    description = describe(log_of(args), top=args.top, first_rank=args.rank or 1)
    print(json.dumps(description, indent=2) if args.json else describe_text(description))
    return ExitCode.SUCCESS
