"""The commands that show a stack: what a query found, as text or as JSON."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from typing import Any

from burstcache.adapters.clock import SystemClock
from burstcache.core.errors import InvalidSettingError
from burstcache_cli import keys as key_views
from burstcache_cli import operate
from burstcache_cli import watch as watching
from burstcache_cli.stack import Stack, find_stack
from burstcache_terminal.exit_codes import ExitCode


def keys(args: argparse.Namespace) -> int:
    """List the keys."""
    views = key_views.key_views(_stack(args), SystemClock().now_us())
    return _print(args, key_views.keys_text(views), [asdict(view) for view in views])


def routes(args: argparse.Namespace) -> int:
    """List the routes."""
    views = key_views.route_views(_stack(args), SystemClock().now_us())
    return _print(args, key_views.routes_text(views), [asdict(view) for view in views])


def watch(args: argparse.Namespace) -> int:
    """Print the states of a key or a node as it enters them."""
    states = watching.KEY_STATES if args.node is None else watching.NODE_STATES
    if args.until and args.until not in states:
        raise InvalidSettingError(f"--until {args.until!r}: expected one of {', '.join(states)}")
    stack = _stack(args)
    if args.node is None:
        watcher = watching.key_watcher(stack, args.key)
    else:
        watcher = watching.node_watcher(stack, stack.node_name(args.node))
    lines = watching.Lines(args.json)
    try:
        for entered in watching.watch(watcher, until=args.until, timeout_s=0 if args.once else args.timeout_s):
            print(lines.line(entered), flush=True)
    except KeyboardInterrupt:  # the usual end of a watch that has no other
        return ExitCode.INTERRUPTED if args.until else ExitCode.SUCCESS
    return ExitCode.SUCCESS


def redis_status(args: argparse.Namespace) -> int:
    """List the Redis nodes."""
    views = operate.node_views(_stack(args), SystemClock().now_us())
    return _print(args, operate.nodes_text(views), [asdict(view) for view in views])


def redis_start(args: argparse.Namespace) -> int:
    """Boot a node and hold it."""
    stack = _stack(args)
    return _report(args, operate.start_redis(stack, stack.node_name(args.node), args.for_s))


def redis_stop(args: argparse.Namespace) -> int:
    """Stop a node."""
    stack = _stack(args)
    return _report(args, operate.stop_redis(stack, stack.node_name(args.node)))


def redis_ping(args: argparse.Namespace) -> int:
    """Ask a node's Redis for a PONG."""
    stack = _stack(args)
    return _report(args, operate.ping_redis(stack, stack.node_name(args.node)))


def lambda_start(args: argparse.Namespace) -> int:
    """Start a key's life."""
    return _report(args, operate.start_lambda(_stack(args), args.key))


def lambda_stop(args: argparse.Namespace) -> int:
    """End a key's cache function."""
    return _report(args, operate.stop_lambda(_stack(args), args.key))


def _stack(args: argparse.Namespace) -> Stack:
    return find_stack(stack_name=args.stack_name, region=args.region, profile=args.profile, state_dir=args.state_dir)


def _print(args: argparse.Namespace, text: str, values: Any) -> int:
    print(json.dumps(values, indent=2) if args.json else text)
    return ExitCode.SUCCESS


def _report(args: argparse.Namespace, report: operate.Report) -> int:
    if args.json:
        print(json.dumps(report.answer))
    else:
        print(report.text, file=sys.stdout if report.is_well else sys.stderr)
    return ExitCode.SUCCESS if report.is_well else ExitCode.FAILURE
