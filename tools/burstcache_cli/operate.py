"""The commands that operate a stack by hand: they invoke its functions and print the answer as one line."""

from __future__ import annotations

import argparse
import json
import sys
import uuid
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from itertools import islice
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from burstcache.adapters.clock import SystemClock
from burstcache.adapters.pauses import Pauses
from burstcache.core.errors import FunctionFailedError
from burstcache.core.messages.answers import CacheStopped, NodeStopped, Pong
from burstcache.core.messages.events import KEY_START_REQUESTED, KeyStartRequested
from burstcache.core.messages.operations import FollowWrite, Hold, Ping, Release, StopCache
from burstcache_cli.stack import Stack, exists, stack_of
from burstcache_terminal.exit_codes import ExitCode
from burstcache_terminal.text import count_text, shown_text, time_text

_PURGED_AT_ONCE = 3  # more would take what concurrency a new account has from the functions that readers wait for
_PURGED_IN_A_ROW = 1_000  # keys that are listed at a time: a bucket may have any number
_MOST_NAMED = 3


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an operation did."""

    text: str  # one line for people
    answer: Mapping[str, Any]  # the function's
    is_success: bool = True


# The scheduler's answers to a start by hand: the line, and whether the key is hot now.
_START_OUTCOMES = {
    "started": ("{key} starts: follow it with `burstcache watch`", True),
    "booted": ("the node of {key} boots: see `burstcache redis status`", True),
    "already_hot": ("{key} is hot already: see `burstcache routes`", True),
    "lost": ("{key} has just been started by its requests", True),
    "full": ("{key} stays with S3: MaxHotKeys keys are hot already", False),
    "paused": ("{key} stays with S3: the stack is paused; `burstcache resume` ends that", False),
    "cools_down": ("{key} stays with S3: its node may not boot yet: `burstcache explain` says until when", False),
    "no_tier": ("{key} stays with S3: the stack has neither a node nor a relay", False),
    "too_large": ("{key} stays with S3: the object is larger than a cache function may hold", False),
}


def redis_start(args: argparse.Namespace) -> ExitCode:
    """Boot a node and hold it."""
    stack = stack_of(args)
    return _print(start_redis(stack, stack.node_name(args.node), args.for_s), as_json=args.json)


def redis_stop(args: argparse.Namespace) -> ExitCode:
    """Stop a node."""
    stack = stack_of(args)
    return _print(stop_redis(stack, stack.node_name(args.node)), as_json=args.json)


def redis_ping(args: argparse.Namespace) -> ExitCode:
    """Ask a node's Redis for a PONG."""
    stack = stack_of(args)
    return _print(ping_redis(stack, stack.node_name(args.node)), as_json=args.json)


def lambda_start(args: argparse.Namespace) -> ExitCode:
    """Start a key's life."""
    return _print(start_lambda(stack_of(args), args.key), as_json=args.json)


def lambda_stop(args: argparse.Namespace) -> ExitCode:
    """End a key's cache function."""
    return _print(stop_lambda(stack_of(args), args.key), as_json=args.json)


def purge(args: argparse.Namespace) -> ExitCode:
    """Let copies of objects go."""
    stack = stack_of(args)
    if args.key is not None:
        return _print(purge_key(stack, args.key), as_json=args.json)
    outcome = purge_keys(stack, _keys_under(stack, args.prefix))
    if not outcome.answer["keys"]:
        text = f"nothing to invalidate: no object of {stack.output('BucketName')} begins with {args.prefix!r}"
        outcome = replace(outcome, text=text)
    return _print(outcome, as_json=args.json)


def pause(args: argparse.Namespace) -> ExitCode:
    """Pause the stack."""
    return _print(begin_pause(stack_of(args), args.reason), as_json=args.json)


def resume(args: argparse.Namespace) -> ExitCode:
    """End the stack's pause."""
    return _print(end_pause(stack_of(args)), as_json=args.json)


def begin_pause(stack: Stack, reason: str) -> Outcome:
    """Let nothing start until the pause is ended."""
    answer = asdict(_pauses(stack).begin(reason))
    return Outcome("paused: nodes stop within five minutes, cache functions within fifteen", answer)


def end_pause(stack: Stack) -> Outcome:
    """Let keys and nodes start again."""
    was_paused = _pauses(stack).end()
    return Outcome("resumed" if was_paused else "the stack is not paused", {"was_paused": was_paused})


def start_redis(stack: Stack, node: str, for_s: int) -> Outcome:
    """Keep a node running for `for_s` seconds from now, without a key."""
    answer: Any = _redis_control(stack, Hold(op="hold", node=node, for_s=for_s))
    if "refused" in answer:
        return Outcome(answer["refused"], answer, is_success=False)
    return Outcome(f"{node} is {answer['phase']}, held until {time_text(answer['held_until_us'])}", answer)


def stop_redis(stack: Stack, node: str) -> Outcome:
    """Stop a node; its keys return to S3."""
    answer: NodeStopped = _redis_control(stack, Release(op="release", node=node))
    return Outcome(f"{node} is {answer['phase']}", answer)


def ping_redis(stack: Stack, node: str) -> Outcome:
    """Ask a node's Redis for a PONG, from inside the stack's network."""
    answer: Pong = _redis_control(stack, Ping(op="ping", node=node))
    reply = "PONG" if answer["pong"] else f"no PONG ({answer.get('reason', '')})"
    text = f"{node}: {reply}; the node is {answer['phase']}, its instance {answer['instance']}"
    return Outcome(text, answer, is_success=answer["pong"])


def start_lambda(stack: Stack, key: str) -> Outcome:
    """Start a key's life, or boot its node if the policy keeps one for all keys, however few its requests."""
    if exists(stack, key) is False:  # if this person may not know, the scheduler decides alone
        bucket = stack.output("BucketName")
        answer = {"outcome": "no_object"}
        return Outcome(f"{key} does not exist: bucket {bucket} has no object of this name", answer, is_success=False)
    event = {
        "version": "0",
        "id": str(uuid.uuid4()),
        "source": "burstcache.cli",
        "detail-type": KEY_START_REQUESTED,
        "resources": [],
        "detail": KeyStartRequested(key=key),
    }
    answer = invoke(stack, "SchedulerFunctionName", event)
    text, is_hot = _START_OUTCOMES.get(answer["outcome"], (f"{{key}}: {answer['outcome']}", False))
    return Outcome(text.format(key=key), answer, is_hot)


def stop_lambda(stack: Stack, key: str) -> Outcome:
    """Let the cache function that holds a key finish its requests and end."""
    answer: CacheStopped = _redis_control(stack, StopCache(op="stop_cache", key=key))
    text = f"the cache function of {key} ends" if answer["stopped"] else f"no cache function holds {key}"
    return Outcome(text, answer)


def purge_key(stack: Stack, key: str) -> Outcome:
    """Invalidate every copy of one object, and say whether one was known, and whether S3 has the object."""
    outcome = purge_keys(stack, [key])
    if not outcome.is_success or outcome.answer["copies"]:
        return outcome
    absent = f"; bucket {stack.output('BucketName')} has no object of this name" if exists(stack, key) is False else ""
    text = f"no node and no cache function had a copy of {key}; readers with a memory were told to confirm{absent}"
    return replace(outcome, text=text)


def purge_keys(stack: Stack, keys: Iterable[str]) -> Outcome:
    """Invalidate every copy of some objects, several at a time; all are tried."""
    function = json.loads(stack.output("ReaderSettings"))["ORIGIN_FUNCTION_NAME"]
    client = stack.clients.like("caller").make("lambda")  # which asks again after throttling

    def invalidate(key: str) -> tuple[int, str]:
        """Return the number of copies, and what went wrong."""
        try:
            return _invoke(client, function, FollowWrite(op="follow_write", key=key)).get("copies", 0), ""
        except (FunctionFailedError, ClientError, BotoCoreError) as error:
            return 0, f"{key}: {error}"

    left, count, copies, failed = iter(keys), 0, 0, list[str]()
    with ThreadPoolExecutor(_PURGED_AT_ONCE) as threads:
        while row := list(islice(left, _PURGED_IN_A_ROW)):
            count += len(row)
            done = list(threads.map(invalidate, row))
            copies += sum(number for number, _ in done)
            failed += (problem for _, problem in done if problem)
    had = count_text(copies, "copy") if copies == 1 else f"{copies:,} copies"
    text = f"{count_text(count - len(failed), 'key')} invalidated; nodes and cache functions had {had}"
    if failed:
        text = f"{text}; {count_text(len(failed), 'key')} failed"
    answer = {"keys": count, "copies": copies, "failed": failed}
    return Outcome("; ".join([text, *failed[:_MOST_NAMED]]), answer, is_success=not failed)


def _keys_under(stack: Stack, prefix: str) -> Iterator[str]:
    pages = (
        stack.client("s3").get_paginator("list_objects_v2").paginate(Bucket=stack.output("BucketName"), Prefix=prefix)
    )
    return (each["Key"] for page in pages for each in page.get("Contents", ()))


def _pauses(stack: Stack) -> Pauses:
    return Pauses(stack.output("TableName"), stack.clients.dynamodb, SystemClock())


def _redis_control(stack: Stack, operation: Hold | Release | Ping | StopCache) -> Any:
    return invoke(stack, "RedisControlFunctionName", operation)


def invoke(stack: Stack, output: str, payload: Mapping[str, Any]) -> Any:
    """Return a function's answer, or raise FunctionFailedError with its error's name and text."""
    return _invoke(stack.client("lambda"), stack.output(output), payload)


def _invoke(client: Any, name: str, payload: Mapping[str, Any]) -> Any:
    response = client.invoke(FunctionName=name, Payload=json.dumps(payload).encode())
    answer = json.loads(response["Payload"].read())
    if "FunctionError" in response:
        raise FunctionFailedError(f"{name}: {answer.get('errorType', 'error')}: {answer.get('errorMessage', answer)}")
    return answer


def _print(outcome: Outcome, *, as_json: bool) -> ExitCode:
    if as_json:
        print(json.dumps(outcome.answer))
    else:
        print(shown_text(outcome.text), file=sys.stdout if outcome.is_success else sys.stderr)
    return ExitCode.SUCCESS if outcome.is_success else ExitCode.FAILURE
