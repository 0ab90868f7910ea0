"""Command-line arguments of `burstcache research aws-evidence`."""

from __future__ import annotations

import argparse
from pathlib import Path

from burstcache_terminal.options import choice, number

KINDS = ("default", "nlb", "direct", "company")
FOLDER = Path("build/aws-evidence")


def aws_evidence(parser: argparse.ArgumentParser) -> None:
    """Add the options of `research aws-evidence`."""
    add, seconds = parser.add_argument, number(above=0, noun="a number of seconds")
    add("--stacks", type=choice(KINDS), nargs="+", default=list(KINDS), metavar="KIND", help=f"of {', '.join(KINDS)}")
    add("--folder", type=Path, default=FOLDER, metavar="DIR", help=f"state, JSON and page (default: {FOLDER})")
    add("--region", default="", help="AWS region (default: from the environment or the profile)")
    add("--profile", default="", help="AWS profile")
    add("--express-zone", default="", metavar="ZONE", help="zone id for S3 Express (default: Express is not reached)")
    add("--limit-s", type=seconds, default=600.0, metavar="S", help="limit of each wait (default: 600)")
    add("--local", action="store_true", help="run it on this machine, in local clouds, and cost nothing")
    add(
        "--budget", action="store_true", help="leave a budget of 0.01 USD until --bill reads its message and deletes it"
    )
    add("--yes", action="store_true", help="do not ask")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--delete", action="store_true", help="only delete what a run left, and prove that it is gone")
    what.add_argument("--bill", action="store_true", help="a day later: add bill and message of the budget")
