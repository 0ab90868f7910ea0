"""`burstcache research thesis`: a reproduction of the thesis's evaluation as tables and pictures."""

from __future__ import annotations

import argparse
from pathlib import Path

from burstcache_sim.thesis.reproduce import reproduce
from burstcache_terminal.exit_codes import ExitCode


def run(args: argparse.Namespace) -> ExitCode:
    """Simulate the thesis's workloads, print the tables and write the pictures."""
    for line in reproduce(Path(args.out), seeds=args.seeds, log=args.log, runs=args.runs):
        print(line, flush=True)
    return ExitCode.SUCCESS
