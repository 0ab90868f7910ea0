"""`burstcache local up|status|down`: the whole system on this machine."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from burstcache_local import state_file
from burstcache_local.state_file import STATE_DIR, RunningCloud

_DOWN_LIMIT_S = 20.0
_SAMPLES = Path(__file__).parent / "samples"
_ENDED = 130  # what a shell says of a program that Ctrl-C ended


def add_parser(subparsers: Any) -> None:
    """Add the command and its options to the parser of `burstcache`."""
    parser = subparsers.add_parser("local", help="run the whole system on this machine, without Docker and AWS")
    commands = parser.add_subparsers(dest="local_command", required=True, metavar="up|status|down")
    up = commands.add_parser("up", help="start everything that template.yaml describes; Ctrl-C ends it")
    up.add_argument(
        "--origin", type=Path, default=_SAMPLES, metavar="DIR", help="files that become the origin's objects"
    )
    up.add_argument("--port", type=int, default=8080, help="port that clients talk to (default: 8080; 0: any free one)")
    up.add_argument("--endpoint-port", type=int, default=8081, metavar="PORT", help="port of the AWS services (8081)")
    up.add_argument(
        "--boot-s", type=float, default=1.0, metavar="S", help="how long a Redis node takes to start [s] (1)"
    )
    up.add_argument("--stop-s", type=float, default=0.5, metavar="S", help="how long it takes to stop [s] (0.5)")
    up.add_argument(
        "--parameter", action="append", default=[], metavar="NAME=VALUE", help="template parameter; repeatable"
    )
    up.add_argument("--template", type=Path, metavar="FILE", help="SAM template (default: the project's template.yaml)")
    up.add_argument("--verbose", action="store_true", help="print the logs of functions, node and relay")
    for command in (
        up,
        commands.add_parser("status", help="tell what runs"),
        commands.add_parser("down", help="end it"),
    ):
        command.add_argument("--state-dir", type=Path, default=STATE_DIR, metavar="DIR", help=f"default: {STATE_DIR}/")


def run(args: argparse.Namespace) -> int:
    """Run the command and return its exit status; what a user can mend is one line and 2."""
    from burstcache_local.errors import LocalCloudError

    commands: dict[str, Callable[[argparse.Namespace], int]] = {"up": _up, "status": _status, "down": _down}
    try:
        return commands[args.local_command](args)
    except LocalCloudError as error:
        print(f"burstcache local {args.local_command}: {error}", file=sys.stderr)
        return 2


def _up(args: argparse.Namespace) -> int:
    from burstcache_local.errors import LocalCloudError

    if running := state_file.read(args.state_dir):
        raise LocalCloudError(
            f"one runs already, at {running.front_url} (pid {running.pid}): `burstcache local down` ends it"
        )
    parameters = _parameters(args.parameter)
    print("Starting: functions, queues, tables and machines from the template …", flush=True)
    begun_s = time.monotonic()
    from burstcache_local.cloud import LocalCloud, LocalOptions
    from burstcache_local.follow import LogFollower

    template = {"template": args.template} if args.template else {}
    run_dir = args.state_dir.resolve() / "logs"
    _clear(run_dir)
    cloud = LocalCloud(
        LocalOptions(
            parameters=parameters,
            origin=args.origin,
            front_port=args.port,
            endpoint_port=args.endpoint_port,
            boot_s=args.boot_s,
            stop_s=args.stop_s,
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
    return 0


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
    os._exit(_ENDED)  # the kernel ends the children: see processes.py


def _parameters(texts: list[str]) -> dict[str, str]:
    from burstcache_local.errors import LocalCloudError

    parameters = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise LocalCloudError(f"--parameter {text!r}: expected NAME=VALUE")
        parameters[name] = value
    return parameters


def _clear(run_dir: Path) -> None:
    """Remove the logs of the run before."""
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


def _status(args: argparse.Namespace) -> int:
    running = state_file.read(args.state_dir)
    if running is None:
        print("No local cloud runs from this folder: `burstcache local up` starts one.")
        return 1
    print(f"A local cloud runs (pid {running.pid}).")
    print(f"  Objects:  {running.front_url}/objects/…")
    print(f"  Origin:   {running.endpoint_url}/{running.bucket_name}")
    print(f"  Logs:     {running.log_dir}")
    return 0


def _down(args: argparse.Namespace) -> int:
    from burstcache_local.errors import LocalCloudError

    running = state_file.read(args.state_dir)
    if running is None:
        print("No local cloud runs from this folder.")
        return 0
    os.kill(running.pid, signal.SIGTERM)
    end_s = time.monotonic() + _DOWN_LIMIT_S
    while running.is_alive:
        if time.monotonic() > end_s:
            raise LocalCloudError(
                f"process {running.pid} does not end: `kill -9 {running.pid}` ends it and all it started"
            )
        time.sleep(0.05)
    print("Ended.")
    return 0


def _own_name() -> str:
    """Return how to call this command again from here: `make run` calls it by its path in .venv."""
    on_path = shutil.which("burstcache")
    return sys.argv[0] if on_path is None and Path(sys.argv[0]).name == "burstcache" else "burstcache"
