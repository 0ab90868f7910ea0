"""Options of `burstcache advise`: the simulator's, and the stack to compare with."""

from __future__ import annotations

import argparse

from burstcache_sim.commands.arguments import advise

DAYS = 7.0  # of a stack's own log
TODAY = "today-us-east-1"  # the price sheet for a log alone


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `advise`."""
    advise(parser)
    parser.set_defaults(prices=None)  # of the stack's region, else `TODAY`
    group = parser.add_argument_group("which stack", "Default: none, the log alone decides.")
    name = "a deployed stack to compare with; without a TRACE, the log of its HTTP API is read"
    group.add_argument("--stack-name", metavar="NAME", default="", help=name)
    group.add_argument("--region", default="", help="its region (default: from the environment or the profile)")
    group.add_argument("--profile", default="", help="AWS profile to use for it")
