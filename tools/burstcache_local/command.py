"""`burstcache local up|status|down`: the whole system on this machine."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from burstcache_local import state_file
from burstcache_local.errors import LocalCloudError
from burstcache_local.state_file import RunningCloud
from burstcache_terminal.exit_codes import ExitCode
from burstcache_terminal.options import UsageError

_DOWN_LIMIT_S = 20.0


def up(args: argparse.Namespace) -> int:
    """Start the system and serve until Ctrl-C.

    Raises:
        UsageError: It cannot start with these arguments.
    """
    try:
        return _up(args)
    except LocalCloudError as error:
        raise UsageError(f"burstcache local up: {error}") from error


def status(args: argparse.Namespace) -> int:
    """Print what runs from this folder; fail if nothing runs."""
    running = state_file.read(args.state_dir)
    if running is None:
        print("No local cloud runs from this folder: `burstcache local up` starts one.")
        return ExitCode.FAILURE
    print(f"A local cloud runs (pid {running.pid}).")
    print(f"  Objects:  {running.front_url}/objects/…")
    print(f"  Origin:   {running.endpoint_url}/{running.bucket_name}")
    print(f"  Logs:     {running.log_dir}")
    return ExitCode.SUCCESS


def down(args: argparse.Namespace) -> int:
    """End what runs from this folder, and wait until it has ended.

    Raises:
        LocalCloudError: It does not end.
    """
    running = state_file.read(args.state_dir)
    if running is None:
        print("No local cloud runs from this folder.")
        return ExitCode.SUCCESS
    os.kill(running.pid, signal.SIGTERM)
    end_s = time.monotonic() + _DOWN_LIMIT_S
    while running.is_alive:
        if time.monotonic() > end_s:
            raise LocalCloudError(
                f"process {running.pid} does not end: `kill -9 {running.pid}` ends it and all that it started"
            )
        time.sleep(0.05)
    print("Ended.")
    return ExitCode.SUCCESS


def _up(args: argparse.Namespace) -> int:
    if running := state_file.read(args.state_dir):
        raise LocalCloudError(
            f"one runs already, at {running.front_url} (pid {running.pid}): `burstcache local down` ends it"
        )
    print("Starting: functions, queues, tables and machines from the template …", flush=True)
    begun_s = time.monotonic()
    from burstcache_local.cloud import LocalCloud, LocalOptions
    from burstcache_local.follow import LogFollower
    from burstcache_local.lambdas.service import LambdaLimits

    template = {"template": args.template} if args.template else {}
    limits = LambdaLimits() if args.environments is None else LambdaLimits(environments=args.environments)
    run_dir = args.state_dir.resolve() / "logs"
    _clear(run_dir)
    cloud = LocalCloud(
        LocalOptions(
            parameters=dict(args.parameter),
            origin=args.origin,
            front_port=args.port,
            endpoint_port=args.endpoint_port,
            boot_s=args.boot_s,
            stop_s=args.stop_s,
            limits=limits,
            run_dir=run_dir,
            **template,
        )
    )
    follower = LogFollower(run_dir)
    with _interruptible():
        try:
            cloud.start()
            state_file.write(_description(cloud), args.state_dir)
            _print_welcome(cloud, args.origin, time.monotonic() - begun_s)
            if args.verbose:
                follower.start()
            signal.pause()
        except KeyboardInterrupt:
            print("\nEnding …", flush=True)
        finally:
            signal.signal(signal.SIGINT, _end_at_once)
            signal.signal(signal.SIGTERM, _end_at_once)
            state_file.remove(args.state_dir)
            cloud.stop()
            if args.verbose:
                follower.stop()
    return ExitCode.SUCCESS


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let SIGTERM and a closed terminal end the program as Ctrl-C does."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end_at_once(number: int, frame: FrameType | None) -> None:
    os._exit(ExitCode.INTERRUPTED)  # the kernel ends the children: see processes.py


def _clear(run_dir: Path) -> None:
    """Remove the logs of the previous run."""
    for path in run_dir.glob("*.log"):
        path.unlink()


def _description(cloud: Any) -> RunningCloud:
    return RunningCloud(
        pid=os.getpid(),
        started=state_file.start_of(os.getpid()),
        front_url=cloud.front_url,
        endpoint_url=cloud.endpoint_url,
        lambda_endpoint_url=cloud.lambda_endpoint_url,
        stack_name=cloud.stack_name,
        bucket_name=cloud.bucket_name,
        region=cloud.region,
        log_dir=str(cloud.run_dir),
        outputs=cloud.outputs,
    )


def _print_welcome(cloud: Any, origin: Path, took_s: float) -> None:
    keys = sorted(path.relative_to(origin).as_posix() for path in origin.rglob("*") if path.is_file())
    key = "hello.txt" if "hello.txt" in keys else next(iter(keys), "new.txt")
    lines = [
        f"Burstcache runs ({took_s:.1f} s). Logs: {cloud.run_dir}",
        f"  Objects:  {cloud.front_url}/objects/…",
        f"  Origin:   {cloud.endpoint_url}/{cloud.bucket_name}   ({len(keys)} objects)",
        "Try, in another terminal:",
        f"  curl -i {cloud.front_url}/objects/{key}          # a few times within seconds: X-Cache-Tier",
        f"  curl -T README.md {cloud.endpoint_url}/{cloud.bucket_name}/new.txt   # a write straight to S3",
        f"  {_own_name()} watch {key}",
        "Ctrl-C ends everything.",
    ]
    print("\n".join(lines), flush=True)


def _own_name() -> str:
    """Return how to call this command from here: `make run` calls it by its path in .venv."""
    on_path = shutil.which("burstcache")
    return sys.argv[0] if on_path is None and Path(sys.argv[0]).name == "burstcache" else "burstcache"
