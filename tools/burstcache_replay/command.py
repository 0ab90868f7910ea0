"""The `burstcache replay TRACE…` command, which sends a trace's requests to a live stack on schedule."""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import signal
import sys
from contextlib import AbstractAsyncContextManager
from typing import Any

from burstcache.core.errors import InvalidSettingError
from burstcache_cli.stack import Stack, stack_of
from burstcache_replay import objects, recording
from burstcache_replay.schedule import Send, replay
from burstcache_replay.summary import summarise, summary_text
from burstcache_replay.targets import Signer, client_of, front_door, library
from burstcache_sim.commands.inputs import log_of, trace_in
from burstcache_sim.traces.trace import Trace
from burstcache_terminal.exit_codes import ExitCode
from burstcache_terminal.text import count_text, duration_text


def run(args: argparse.Namespace) -> ExitCode:
    """Replay a trace, write each request's outcome, and print a summary."""
    log = log_of(args)
    trace = trace_in(log)
    if not len(trace):
        raise InvalidSettingError(f"{args.traces[0]}: contains no requests")
    keys = _keys(args, trace, has_paths=log.has_paths)
    stack = None if args.url else stack_of(args)
    if args.create_objects is not None:
        _create_objects(args, stack, trace, keys)
    origin_us = int(trace.arrivals_us[0])
    trace_s = (trace.arrivals_us - origin_us) / 1e6
    due_s: list[float] = (trace_s / args.speed).tolist()
    print(f"{count_text(len(keys), 'request')} in {duration_text(due_s[-1])}", file=sys.stderr)
    target = args.url or ("client" if args.client else _front_door_of(stack))
    with recording.recording(args.out, (trace_s + origin_us / 1e6).tolist(), keys) as recorder:
        began_us = _run(_target(args, stack, target, keys), due_s, recorder)
    recording.write(
        args.out,
        recording.Replay(
            traces=args.traces,
            target=target,
            stack_name=args.stack_name,
            speed=args.speed,
            began_us=began_us,
            origin_s=origin_us / 1e6,
            requests=len(keys),
            prefix=args.prefix,
        ),
    )
    summary = summarise(recorder.outcomes)
    print(json.dumps(summary.as_dict(), indent=2) if args.json else summary_text(summary))
    if summary.requests < len(keys):
        print(f"ended early: {len(keys) - summary.requests:,} requests were unsent or got no response", file=sys.stderr)
        return ExitCode.INTERRUPTED
    return ExitCode.SUCCESS if summary.tiers else ExitCode.FAILURE


def _keys(args: argparse.Namespace, trace: Trace, *, has_paths: bool) -> list[str]:
    """Return each request's key. Paths lose the leading slash, and ranges become the whole object.

    Raises:
        InvalidSettingError: Neither the trace nor the options name the keys, or both do.
    """
    slash, objects = "/" if has_paths else "", trace.objects or trace.keys
    if trace.key_ids is not None:
        if args.key:
            raise InvalidSettingError(
                f"--key {args.key}: applies to a trace of one key; this one has {len(trace.keys):,}"
            )
        names = [args.prefix + key.removeprefix(slash) for key in objects]
        return [names[number] for number in trace.key_ids.tolist()]
    key = args.key or (objects[0].removeprefix(slash) if objects else "")
    if not key:
        raise InvalidSettingError("--key is missing: the trace does not name its object")
    return [args.prefix + key] * len(trace)


def _create_objects(args: argparse.Namespace, stack: Stack | None, trace: Trace, keys: list[str]) -> None:
    if stack is None or not args.prefix:
        raise InvalidSettingError("--create-objects: requires a stack, whose bucket takes the objects, and a --prefix")
    sizes = dict.fromkeys(keys, 0)
    shown_bytes = trace.sizes_bytes if trace.object_bytes is None else trace.object_bytes
    if shown_bytes is not None:
        for key, size_bytes in zip(keys, shown_bytes.tolist(), strict=True):
            sizes[key] = max(sizes[key], size_bytes)
    sizes = {key: size_bytes or args.create_objects for key, size_bytes in sizes.items()}
    bucket = json.loads(stack.output("ReaderSettings"))["BUCKET_NAME"]
    put = objects.create(stack.client("s3"), bucket, sizes)
    print(f"{count_text(put, 'object')} put into {bucket}", file=sys.stderr)


def _front_door_of(stack: Stack | None) -> str:
    assert stack is not None  # without --url a stack is required
    return f"{stack.output('ApiUrl').rstrip('/')}/objects"


def _target(
    args: argparse.Namespace, stack: Stack | None, target: str, keys: list[str]
) -> AbstractAsyncContextManager[Send]:
    if target == "client":
        assert stack is not None
        client = client_of(args.stack_name, stack.session, args.state_dir)
        return library(client, keys, args.threads)
    signer = Signer(stack.session if stack else _session(args)) if args.sign else None
    return front_door(target, keys, dict(args.header), args.timeout_s, signer)


def _session(args: argparse.Namespace) -> Any:
    import boto3

    return boto3.Session(profile_name=args.profile or None, region_name=args.region or None)


def _run(target: AbstractAsyncContextManager[Send], due_s: list[float], recorder: recording.Recorder) -> int:
    """Replay on uvloop with few garbage collector pauses. Ctrl-C stops gracefully, a second Ctrl-C immediately."""
    import uvloop

    async def main() -> int:
        async with target as send:
            task = asyncio.create_task(replay(due_s, send, recorder))
            asyncio.get_running_loop().add_signal_handler(signal.SIGINT, task.cancel)
            return await task

    gc.freeze()  # exclude the trace and the modules from garbage collection
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main())
