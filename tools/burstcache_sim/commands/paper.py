"""`burstcache sim paper`: the thesis's evaluation, reproduced as tables and pictures."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from burstcache.core.errors import InvalidSettingError

_SEEDS = 10_000


def add_parser(subparsers: Any) -> None:
    """Add the command and its options."""
    parser = subparsers.add_parser("paper", help="reproduce the thesis's evaluation: tables and pictures")
    parser.add_argument("--out", default="build/paper", metavar="DIR", help="folder (default: build/paper)")
    parser.add_argument("--seeds", type=int, default=_SEEDS, help=f"random traces per workload (default: {_SEEDS})")
    parser.add_argument(
        "--log", metavar="LOG", help="access log that stands in for the thesis's own in figures 5.3 to 5.6"
    )


def run(args: argparse.Namespace) -> int:
    """Simulate, print, write."""
    if args.seeds < 1:
        raise InvalidSettingError(f"--seeds {args.seeds}: expected at least 1")
    from burstcache_sim.thesis.reproduce import reproduce

    for line in reproduce(Path(args.out), seeds=args.seeds, log=args.log):
        print(line, flush=True)
    return 0
