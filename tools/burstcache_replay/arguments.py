"""The options of `burstcache replay` and `burstcache evaluate`."""

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
    add("--out", type=Path, required=True, metavar="DIR", help="where requests.csv and replay.json are written")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--url", default="", help="what keys are appended to (default: the stack's front door)")
    where.add_argument("--client", action="store_true", help="read by burstcache.client in this process, not by HTTP")
    add(
        "--header",
        type=_headers,
        action="extend",
        default=[],
        metavar="NAME:VALUE|@FILE",
        help="send it with each request; @FILE: a line for each, as of curl, for what is secret (repeatable)",
    )
    add("--sign", action="store_true", help="sign requests with AWS's credentials, for a stack with ApiAuth=iam")
    add(
        "--speed",
        type=number(above=0, what="a factor", example="60"),
        default=1.0,
        metavar="FACTOR",
        help="how many times as fast as the trace (default: 1)",
    )
    add("--key", default="", metavar="KEY", help="the object that a trace of one key asks for")
    add("--prefix", default="", metavar="TEXT", help="stands before each key of the trace")
    add(
        "--create-objects",
        type=whole(least=0),
        metavar="BYTES",
        help="put objects that the stack's bucket lacks, of their size in the trace, else of this one; needs --prefix",
    )
    add(
        "--timeout-s",
        type=number(above=0, what="a number of seconds"),
        default=30.0,
        metavar="SECONDS",
        help="how long an answer may take (default: 30)",
    )
    add(
        "--threads",
        type=whole(least=1, most=1024),
        default=64,
        metavar="N",
        help="reads under way at a time with --client (default: 64)",
    )
    which_stack(parser)
    add("--json", action="store_true", help="print JSON")


def evaluate(parser: argparse.ArgumentParser) -> None:
    """Add the options of `evaluate`."""
    add = parser.add_argument
    add("results", type=Path, metavar="RESULTS", help="the folder that `burstcache replay` wrote")
    for name, seconds, what in (
        ("boot", 30, "a node takes from the call to its first answer"),
        ("stop", 30, "a node takes to stop"),
        ("cold-start", 0.6, "a cache function takes from the request that starts it, in a new environment"),
        ("warm-start", 0.02, "the same, in an environment that it has had before"),
    ):
        value = number(least=0, what="a number of seconds")
        help_ = f"what {what} in the simulation (default: {seconds})"
        add(f"--{name}-s", type=value, default=float(seconds), metavar="S", help=help_)
    add(
        "--rehearsal",
        type=Path,
        metavar="RESULTS",
        help="an earlier replay, evaluated: starts and boots take as long as in it, as far as it had any",
    )
    which_stack(parser)
    add("--json", action="store_true", help="print JSON")


def _headers(text: str) -> list[tuple[str, str]]:
    if not text.startswith("@"):
        name, value = _header(text)
        if name.lower() in _SECRET:
            problem = (
                "everybody on this machine reads it among the arguments; write the line to a file, for --header @FILE"
            )
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
