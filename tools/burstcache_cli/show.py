"""The commands that show and operate a stack. What they do is imported when they run: help must not wait for boto3."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from burstcache.core.errors import InvalidSettingError

if TYPE_CHECKING:
    from burstcache_cli.operate import Report
    from burstcache_cli.stack import Stack

_MAX_HOLD_S = 7 * 24 * 3600


@dataclass(frozen=True, slots=True)
class Verb:
    """One command: its words, its help, its own arguments, what runs it."""

    words: str
    help: str
    run: Callable[[argparse.Namespace], int]
    arguments: Sequence[tuple[tuple[str, ...], Mapping[str, Any]]] = ()


def add_parser(subparsers: Any) -> None:
    """Add the commands of this module."""
    stack_options = _stack_options()
    groups: dict[str, Any] = {"": subparsers}
    for verb in VERBS:
        group, _, word = verb.words.rpartition(" ")
        if group not in groups:
            parser = subparsers.add_parser(group, help=GROUPS[group], description=_sentence(GROUPS[group]))
            groups[group] = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
        parser = groups[group].add_parser(
            word, help=verb.help, description=_sentence(verb.help), parents=[stack_options]
        )
        for flags, options in verb.arguments:
            parser.add_argument(*flags, **options)
        parser.set_defaults(run_verb=verb.run)


def run(args: argparse.Namespace) -> int:
    """Run the command that was parsed; return its exit code."""
    return int(args.run_verb(args))


def _keys(args: argparse.Namespace) -> int:
    from burstcache.adapters.clock import SystemClock
    from burstcache_cli import keys

    views = keys.key_views(_stack(args), SystemClock().now_us())
    return _print(args, keys.keys_text(views), [asdict(view) for view in views])


def _routes(args: argparse.Namespace) -> int:
    from burstcache.adapters.clock import SystemClock
    from burstcache_cli import keys

    views = keys.route_views(_stack(args), SystemClock().now_us())
    return _print(args, keys.routes_text(views), [asdict(view) for view in views])


def _watch(args: argparse.Namespace) -> int:
    from burstcache_cli import watch

    if (args.key is None) == (args.node is None):
        raise InvalidSettingError("watch: give either a KEY or --node NODE")
    known = watch.KEY_STATES if args.node is None else watch.NODE_STATES
    if args.until and args.until not in known:
        raise InvalidSettingError(f"--until {args.until}: expected one of {', '.join(known)}")
    stack = _stack(args)
    if args.node is None:
        watcher = watch.key_watcher(stack, args.key)
    else:
        watcher = watch.node_watcher(stack, stack.node_name(args.node))
    lines = watch.Lines(args.json)
    try:
        for entered in watch.watch(watcher, until=args.until, timeout_s=0 if args.once else args.timeout_s):
            print(lines.line(entered), flush=True)
    except KeyboardInterrupt:
        return 130 if args.until else 0  # a watch without an end of its own ends well this way
    return 0


def _redis_status(args: argparse.Namespace) -> int:
    from burstcache.adapters.clock import SystemClock
    from burstcache_cli import operate

    views = operate.node_views(_stack(args), SystemClock().now_us())
    return _print(args, operate.nodes_text(views), [asdict(view) for view in views])


def _redis_start(args: argparse.Namespace) -> int:
    from burstcache_cli import operate

    stack = _stack(args)
    return _report(args, operate.start_redis(stack, stack.node_name(args.node), args.for_s))


def _redis_stop(args: argparse.Namespace) -> int:
    from burstcache_cli import operate

    stack = _stack(args)
    return _report(args, operate.stop_redis(stack, stack.node_name(args.node)))


def _redis_ping(args: argparse.Namespace) -> int:
    from burstcache_cli import operate

    stack = _stack(args)
    return _report(args, operate.ping_redis(stack, stack.node_name(args.node)))


def _lambda_start(args: argparse.Namespace) -> int:
    from burstcache_cli import operate

    return _report(args, operate.start_lambda(_stack(args), args.key))


def _lambda_stop(args: argparse.Namespace) -> int:
    from burstcache_cli import operate

    return _report(args, operate.stop_lambda(_stack(args), args.key))


def _stack(args: argparse.Namespace) -> Stack:
    from burstcache_cli.stack import find_stack

    return find_stack(
        stack_name=args.stack_name, region=args.region, profile=args.profile, state_dir=Path(args.state_dir)
    )


def _print(args: argparse.Namespace, text: str, values: Any) -> int:
    print(json.dumps(values, indent=2) if args.json else text)
    return 0


def _report(args: argparse.Namespace, report: Report) -> int:
    if args.json:
        print(json.dumps(report.answer))
    else:
        print(report.text, file=sys.stdout if report.is_well else sys.stderr)
    return 0 if report.is_well else 1


def _key(text: str) -> str:
    if not text:
        raise argparse.ArgumentTypeError("'' is not a key: expected the name of an object in the origin bucket")
    return text


def _hold_s(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= _MAX_HOLD_S):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of seconds from 1 to {_MAX_HOLD_S}")
    return int(text)


def _timeout_s(text: str) -> float:
    try:
        timeout_s = float(text)
    except ValueError:
        timeout_s = math.nan
    if not 0 <= timeout_s < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds of at least 0")
    return timeout_s


def _stack_options() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(add_help=False)
    group = options.add_argument_group("which stack", "Without --stack-name the one that `burstcache local up` runs.")
    group.add_argument("--stack-name", metavar="NAME", default="", help="a stack deployed to AWS")
    group.add_argument("--region", default="", help="its region, if not the one that environment or profile name")
    group.add_argument("--profile", default="", help="profile of the AWS configuration to use for it")
    group.add_argument("--state-dir", metavar="DIR", default=".burstcache", help="of the local run (%(default)s)")
    options.add_argument("--json", action="store_true", help="print JSON")
    return options


def _sentence(help_: str) -> str:
    return f"{help_[0].upper()}{help_[1:]}."


_KEY = (("key",), {"metavar": "KEY", "type": _key, "help": "name of an object in the origin bucket"})
_NODE = (("node",), {"metavar": "NODE", "nargs": "?", "default": "", "help": "name of a node; the first one if absent"})
_FOR_S = (
    ("--for-s",),
    {"metavar": "SECONDS", "type": _hold_s, "default": 900, "help": "how long to keep it running (%(default)s)"},
)

GROUPS = {
    "redis": "start, stop and ask a Redis node by hand",
    "lambda": "start and stop a key's cache function by hand",
}
VERBS = (
    Verb("keys", "one line per key: state, tier, since when, requests remembered in its row, execution", _keys),
    Verb(
        "watch",
        "print the states of a key or a node as it enters them",
        _watch,
        (
            (("key",), {**_KEY[1], "nargs": "?"}),
            (("--node",), {"metavar": "NODE", "help": "watch a Redis node in place of a key"}),
            (("--once",), {"action": "store_true", "help": "print the states of the current life up to now, and end"}),
            (
                ("--until",),
                {"metavar": "STATE", "default": "", "help": "end when this is the state, e.g. RedisRunning"},
            ),
            (
                ("--timeout-s",),
                {
                    "metavar": "SECONDS",
                    "type": _timeout_s,
                    "default": math.inf,
                    "help": "end after so long; with --until not reached by then that is a failure",
                },
            ),
        ),
    ),
    Verb("routes", "one line per key that is not on S3: tier, node, generation, holder, valid or why not", _routes),
    Verb("redis start", "boot a node and keep it running for a while, without a key", _redis_start, (_NODE, _FOR_S)),
    Verb("redis stop", "stop a node; its keys return to S3", _redis_stop, (_NODE,)),
    Verb("redis ping", "ask a node's Redis for a PONG", _redis_ping, (_NODE,)),
    Verb("redis status", "one line per node: phase, generation, keys on it, held until when", _redis_status),
    Verb("lambda start", "start a key's life whatever its requests", _lambda_start, (_KEY,)),
    Verb("lambda stop", "tell the cache function that holds a key to end", _lambda_stop, (_KEY,)),
)
