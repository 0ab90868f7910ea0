"""The options of `burstcache dashboard`."""

from __future__ import annotations

import argparse

from burstcache_cli.arguments import which_stack
from burstcache_terminal.options import whole


def dashboard(parser: argparse.ArgumentParser) -> None:
    """Add the port, and which stack is meant."""
    port = whole(least=0, most=65_535)
    parser.add_argument("--port", type=port, default=0, help="of 127.0.0.1 to serve on (default: any free one)")
    which_stack(parser)
