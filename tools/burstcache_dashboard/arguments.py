"""Command-line arguments of `burstcache dashboard`."""

from __future__ import annotations

import argparse

from burstcache_cli.arguments import which_stack
from burstcache_terminal.options import whole


def dashboard(parser: argparse.ArgumentParser) -> None:
    """Add the option for the port, and the options that select a stack."""
    port = whole(least=0, most=65_535)
    parser.add_argument("--port", type=port, default=0, help="port of 127.0.0.1 to serve on (default: any free one)")
    which_stack(parser)
