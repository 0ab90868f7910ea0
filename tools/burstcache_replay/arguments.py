"""Command-line arguments of `burstcache replay` and `burstcache research evaluate`."""

from __future__ import annotations

import argparse
from pathlib import Path

from burstcache_cli.arguments import which_stack
from burstcache_sim.commands.log_options import add_log
from burstcache_terminal.options import number, whole

_SECRET = ("authorization", "cookie", "proxy-authorization", "x-amz-security-token")  # headers, in lower case


def replay(parser: argparse.ArgumentParser) -> None:
    """Add the options of `replay`."""
    add_log(parser)
    add = parser.add_argument
    add("--out", type=Path, required=True, metavar="DIR", help="folder for requests.csv and replay.json")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--url", default="", help="base URL of the keys (default: the stack's front door)")
    where.add_argument("--client", action="store_true", help="read through burstcache.client instead of HTTP")
    add(
        "--header",
        type=_headers,
        action="extend",
        default=[],
        metavar="NAME:VALUE|@FILE",
        help="header for each request, or as in curl @FILE with one header per line, for secrets (repeatable)",
    )
    add("--sign", action="store_true", help="sign requests with AWS credentials, for a stack with ApiAuth=iam")
    add(
        "--speed",
        type=number(above=0, noun="a factor", example="60"),
        default=1.0,
        metavar="FACTOR",
        help="speed relative to the trace (default: 1)",
    )
    add("--key", default="", metavar="KEY", help="key to request if the trace does not name one")
    add("--prefix", default="", metavar="TEXT", help="prepended to each key of the trace")
    add(
        "--create-objects",
        type=whole(least=0),
        metavar="BYTES",
        help="create objects missing from the bucket, sized as in the trace or else BYTES; requires --prefix",
    )
    add(
        "--timeout-s",
        type=number(above=0, noun="a number of seconds"),
        default=30.0,
        metavar="SECONDS",
        help="timeout per request (default: 30)",
    )
    add(
        "--threads",
        type=whole(least=1, most=1024),
        default=64,
        metavar="N",
        help="concurrent reads with --client (default: 64)",
    )
    which_stack(parser)
    add("--json", action="store_true", help="print JSON")


def evaluate(parser: argparse.ArgumentParser) -> None:
    """Add the options of `evaluate`."""
    add = parser.add_argument
    add("results", type=Path, metavar="RESULTS", help="the folder that `burstcache replay` wrote")
    for name, seconds, text in (
        ("boot", 30, "simulated boot time of a node, from the API call to its first response"),
        ("stop", 30, "simulated stop time of a node"),
        ("cold-start", 0.6, "simulated time from a request to its cache function's start, in a new environment"),
        ("warm-start", 0.02, "simulated time from a request to its cache function's start, in a reused environment"),
    ):
        value = number(least=0, noun="a number of seconds")
        help_ = f"{text} (default: {seconds})"
        add(f"--{name}-s", type=value, default=float(seconds), metavar="S", help=help_)
    add(
        "--rehearsal",
        type=Path,
        metavar="RESULTS",
        help="an earlier, evaluated replay, whose measured starts and boots, if any, replace the simulated ones",
    )
    which_stack(parser)
    add("--json", action="store_true", help="print JSON")


def _headers(text: str) -> list[tuple[str, str]]:
    if not text.startswith("@"):
        name, value = _header(text)
        if name.lower() in _SECRET:
            problem = "arguments are visible to every user of this machine; write the line to a file for --header @FILE"
            raise argparse.ArgumentTypeError(f"{name}: {problem}")
        return [(name, value)]
    try:
        lines = Path(text[1:]).read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        problem = getattr(error, "strerror", None) or "is not text"
        raise argparse.ArgumentTypeError(f"{text}: {problem}") from None
    try:
        return [_header(line) for line in lines if line.strip()]
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(f"{text}: expected a name, a colon and a value in each line") from None


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not (colon and name.strip() and name.isascii()):
        raise argparse.ArgumentTypeError(f"{text!r}: expected a name, a colon and a value")
    return name.strip(), value.strip()
