"""Commands that operate a stack by hand. Each command invokes the stack's functions and prints one line."""

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
from burstcache.adapters.pause_switch import PauseSwitch
from burstcache.core.errors import FunctionFailedError
from burstcache.core.messages.answers import CacheStopped, NodeStopped, Pong
from burstcache.core.messages.events import KEY_START_REQUESTED, KeyStartRequested
from burstcache.core.messages.operations import FollowWrite, Hold, Ping, Release, StopCache
from burstcache_cli.stack import Stack, exists, stack_of
from burstcache_terminal.exit_codes import ExitCode
from burstcache_terminal.text import count_text, shown_text, time_text

_PURGE_CONCURRENCY = 3  # low, because new accounts have a small concurrency limit and readers need a share
_PURGE_BATCH = 1_000  # keys per batch, to limit memory
_MOST_NAMED = 3  # maximum number of failed keys in a message


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of an operation."""

    text: str  # one line for the terminal
    answer: Mapping[str, Any]  # the invoked function's result
    is_success: bool = True


# Scheduler's outcome of a manual start → message, and whether the outcome is a success.
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
    """Boot a node and keep it running."""
    stack = stack_of(args)
    return _print(start_redis(stack, stack.node_name(args.node), args.for_s), as_json=args.json)


def redis_stop(args: argparse.Namespace) -> ExitCode:
    """Stop a node."""
    stack = stack_of(args)
    return _print(stop_redis(stack, stack.node_name(args.node)), as_json=args.json)


def redis_ping(args: argparse.Namespace) -> ExitCode:
    """Ping a node's Redis."""
    stack = stack_of(args)
    return _print(ping_redis(stack, stack.node_name(args.node)), as_json=args.json)


def lambda_start(args: argparse.Namespace) -> ExitCode:
    """Start a key's life."""
    return _print(start_lambda(stack_of(args), args.key), as_json=args.json)


def lambda_stop(args: argparse.Namespace) -> ExitCode:
    """End a key's cache function."""
    return _print(stop_lambda(stack_of(args), args.key), as_json=args.json)


def purge(args: argparse.Namespace) -> ExitCode:
    """Invalidate all copies of one object, or of all objects under a prefix."""
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
    """Pause the stack, so that no cache function or node starts until `end_pause`."""
    answer = asdict(_pause_switch(stack).begin(reason))
    return Outcome("paused: nodes stop within five minutes, cache functions within fifteen", answer)


def end_pause(stack: Stack) -> Outcome:
    """End the pause, so that cache functions and nodes may start again."""
    was_paused = _pause_switch(stack).end()
    return Outcome("resumed" if was_paused else "the stack is not paused", {"was_paused": was_paused})


def start_redis(stack: Stack, node: str, for_s: int) -> Outcome:
    """Boot a node, and keep it running for `for_s` from now, even without keys."""
    answer: Any = _redis_control(stack, Hold(op="hold", node=node, for_s=for_s))
    if "refused" in answer:
        return Outcome(answer["refused"], answer, is_success=False)
    return Outcome(f"{node} is {answer['phase']}, held until {time_text(answer['held_until_us'])}", answer)


def stop_redis(stack: Stack, node: str) -> Outcome:
    """Stop a node. S3 serves the node's keys again."""
    answer: NodeStopped = _redis_control(stack, Release(op="release", node=node))
    return Outcome(f"{node} is {answer['phase']}", answer)


def ping_redis(stack: Stack, node: str) -> Outcome:
    """Ping a node's Redis from inside the stack's network."""
    answer: Pong = _redis_control(stack, Ping(op="ping", node=node))
    reply = "PONG" if answer["pong"] else f"no PONG ({answer.get('reason', '')})"
    machine = f"its {answer['machine']} {answer['instance']}"
    place = f" on {answer['task_kind']} at {answer['host']}" if answer["host"] and answer["task_kind"] else ""
    text = f"{node}: {reply}; the node is {answer['phase']}, {machine}{place}"
    return Outcome(text, answer, is_success=answer["pong"])


def start_lambda(stack: Stack, key: str) -> Outcome:
    """Start a key's life at any request rate, or boot the key's node if the policy shares nodes among all keys."""
    if exists(stack, key) is False:  # not if the result is None for lack of permission
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
    """Drain and end a key's cache function."""
    answer: CacheStopped = _redis_control(stack, StopCache(op="stop_cache", key=key))
    text = f"the cache function of {key} ends" if answer["stopped"] else f"no cache function holds {key}"
    return Outcome(text, answer)


def purge_key(stack: Stack, key: str) -> Outcome:
    """Invalidate every copy of an object. If there was no copy, report whether the object exists in S3."""
    outcome = purge_keys(stack, [key])
    if not outcome.is_success or outcome.answer["copies"]:
        return outcome
    absent = f"; bucket {stack.output('BucketName')} has no object of this name" if exists(stack, key) is False else ""
    text = f"no node and no cache function had a copy of {key}; readers with a memory will revalidate{absent}"
    return replace(outcome, text=text)


def purge_keys(stack: Stack, keys: Iterable[str]) -> Outcome:
    """Invalidate every copy of several objects concurrently. Continue after failures."""
    function = json.loads(stack.output("ReaderSettings"))["ORIGIN_FUNCTION_NAME"]
    client = stack.clients.like("caller").make("lambda")  # this profile retries after throttling

    def invalidate(key: str) -> tuple[int, str]:
        """Return the number of invalidated copies, and an error message that is empty on success."""
        try:
            return _invoke(client, function, FollowWrite(op="follow_write", key=key)).get("copies", 0), ""
        except (FunctionFailedError, ClientError, BotoCoreError) as error:
            return 0, f"{key}: {error}"

    remaining, count, copies, failed = iter(keys), 0, 0, list[str]()
    with ThreadPoolExecutor(_PURGE_CONCURRENCY) as threads:
        while batch := list(islice(remaining, _PURGE_BATCH)):
            count += len(batch)
            results = list(threads.map(invalidate, batch))
            copies += sum(number for number, _ in results)
            failed += (problem for _, problem in results if problem)
    copies_text = count_text(copies, "copy") if copies == 1 else f"{copies:,} copies"
    text = f"{count_text(count - len(failed), 'key')} invalidated; nodes and cache functions had {copies_text}"
    if failed:
        text = f"{text}; {count_text(len(failed), 'key')} failed"
    answer = {"keys": count, "copies": copies, "failed": failed}
    return Outcome("; ".join([text, *failed[:_MOST_NAMED]]), answer, is_success=not failed)


def _keys_under(stack: Stack, prefix: str) -> Iterator[str]:
    pages = (
        stack.client("s3").get_paginator("list_objects_v2").paginate(Bucket=stack.output("BucketName"), Prefix=prefix)
    )
    return (each["Key"] for page in pages for each in page.get("Contents", ()))


def _pause_switch(stack: Stack) -> PauseSwitch:
    return PauseSwitch(stack.output("TableName"), stack.clients.dynamodb, SystemClock())


def _redis_control(stack: Stack, operation: Hold | Release | Ping | StopCache) -> Any:
    return invoke(stack, "RedisControlFunctionName", operation)


def invoke(stack: Stack, output: str, payload: Mapping[str, Any]) -> Any:
    """Invoke a function, and return its result. Raise FunctionFailedError with the error's name and message."""
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
