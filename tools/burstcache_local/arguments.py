"""Command-line arguments of `burstcache local`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from burstcache_local.state_file import STATE_DIR
from burstcache_terminal.options import number, pairs, template_parameters, whole

if TYPE_CHECKING:
    from burstcache_local.lambdas.reclaims import ReclaimPattern

_SAMPLES = Path(__file__).parent / "samples"
_PORT = whole(least=0, most=65_535)
_SECONDS = number(least=0, noun="a number of seconds")


def up(parser: argparse.ArgumentParser) -> None:
    """Add the options of `local up`."""
    add = parser.add_argument
    add("--origin", type=Path, default=_SAMPLES, metavar="DIR", help="files that become the origin's objects")
    add("--port", type=_PORT, default=8080, help="port for clients (default: 8080; 0: any free one)")
    add("--endpoint-port", type=_PORT, default=8081, metavar="PORT", help="port of the AWS services (default: 8081)")
    add("--dashboard-port", type=_PORT, metavar="PORT", help="port of the dashboard (default: no dashboard)")
    add("--boot-s", type=_SECONDS, default=5.0, metavar="S", help="duration of a Redis node's start (default: 5)")
    add("--stop-s", type=_SECONDS, default=0.5, metavar="S", help="duration of an instance's stop (default: 0.5)")
    template_parameters(parser)
    add(
        "--guardrail",
        type=Path,
        metavar="FILE",
        help="service control policy of the account, as JSON: deny what it denies (default: none)",
    )
    pairs(parser, "--tag", "KEY=VALUE", "tag of the stack, for policies that require tags")
    add("--template", type=Path, metavar="FILE", help="SAM template (default: the project's template.yaml)")
    add(
        "--environments",
        type=whole(least=1),
        metavar="N",
        help="limit of execution environments per function, about 40 MB each; further invocations queue (default:"
        " 8 per core, fewer if memory is short). At rest the local run takes about 0.5 GB",
    )
    add(
        "--reclaims",
        type=_reclaims,
        metavar="PATTERN",
        help="reclaim environments of the pool's members each minute, such as poisson:2.28 or zipf:3.23, which"
        " InfiniCache measured of 400 functions (default: none)",
    )
    add("--verbose", action="store_true", help="print the logs of functions, node and relay")
    status(parser)


def status(parser: argparse.ArgumentParser) -> None:
    """Add the options of `local status`."""
    parser.add_argument(
        "--state-dir",
        type=Path,
        default=STATE_DIR,
        metavar="DIR",
        help=f"folder of the local run (default: {STATE_DIR})",
    )


def env(parser: argparse.ArgumentParser) -> None:
    """Add the options of `local env`."""
    parser.add_argument(
        "--sam", action="store_true", help="print the functions' variables, for `sam local invoke --env-vars`"
    )
    status(parser)


def down(parser: argparse.ArgumentParser) -> None:
    """Add the options of `local down`."""
    status(parser)


def _reclaims(text: str) -> ReclaimPattern:
    from burstcache_local.lambdas.reclaims import ReclaimPattern  # imported late: `--help` needs no service

    try:
        return ReclaimPattern.from_text(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
