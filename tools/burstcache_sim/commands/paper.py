"""`burstcache research paper`: a reproduction of the evaluation in InfiniCache's paper as tables and pictures."""

from __future__ import annotations

import argparse
from pathlib import Path

from burstcache_sim.infinicache.reproduce import reproduce
from burstcache_terminal.exit_codes import ExitCode


def run(args: argparse.Namespace) -> ExitCode:
    """Apply the formulas, simulate the settings, print the tables and write the pictures."""
    for line in reproduce(Path(args.out)):
        print(line, flush=True)
    return ExitCode.SUCCESS
