"""The `burstcache local up|status|env|down` command, which runs the whole system on this machine."""

from __future__ import annotations

import argparse
import gc
import json
import os
import shlex
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING
from urllib.parse import quote

from burstcache_local import ports, state_file
from burstcache_local.dashboard import Dashboard
from burstcache_local.errors import LocalCloudError
from burstcache_local.origin import origin_files
from burstcache_local.state_file import RunningCloud
from burstcache_terminal.exit_codes import ExitCode
from burstcache_terminal.options import UsageError

if TYPE_CHECKING:
    from burstcache_local.cloud import LocalCloud

_DOWN_LIMIT_S = 120.0  # usually seconds, longer on a busy machine
_NOTHING_RUNS = "No local cloud runs from this folder: `burstcache local up` starts one."


def up(args: argparse.Namespace) -> ExitCode:
    """Start the system and serve until Ctrl-C.

    Raises:
        UsageError: The system cannot start with these arguments.
    """
    try:
        return _up(args)
    except LocalCloudError as error:
        raise UsageError(f"burstcache local up: {error}") from error


def status(args: argparse.Namespace) -> ExitCode:
    """Print the process id and addresses of the cloud that runs from this folder, or fail if there is none."""
    running = state_file.read(args.state_dir)
    if running is None:
        print(_NOTHING_RUNS, file=sys.stderr)
        return ExitCode.FAILURE
    print(f"A local cloud runs (pid {running.pid}).")
    print(f"  Objects:  {running.front_url}/objects/KEY")
    print(f"  Origin:   {running.endpoint_url}/{running.bucket_name}")
    print(f"  Logs:     {running.log_dir}")
    return ExitCode.SUCCESS


def env(args: argparse.Namespace) -> ExitCode:
    """Print the environment variables for the running cloud's clients or for its functions.

    The command fails if no cloud is running from this folder.
    """
    running = state_file.read(args.state_dir)
    if running is None:
        print(_NOTHING_RUNS, file=sys.stderr)
        return ExitCode.FAILURE
    if args.sam:
        print(json.dumps(running.sam_variables, indent=2))
        return ExitCode.SUCCESS
    for name, value in running.variables.items():
        print(f"export {name}={shlex.quote(value)}")
    return ExitCode.SUCCESS


def down(args: argparse.Namespace) -> ExitCode:
    """Stop the cloud that runs from this folder, and wait for its process to exit.

    Raises:
        LocalCloudError: The process did not exit in time.
    """
    running = state_file.read(args.state_dir)
    if running is None:
        print("No local cloud runs from this folder.")
        return ExitCode.SUCCESS
    os.kill(running.pid, signal.SIGTERM)
    deadline_s = time.monotonic() + _DOWN_LIMIT_S
    while running.is_alive:
        if time.monotonic() > deadline_s:
            raise LocalCloudError(
                f"process {running.pid} does not end: `kill -9 {running.pid}` ends it and all that it started"
            )
        time.sleep(0.05)
    print("Ended.")
    return ExitCode.SUCCESS


def _up(args: argparse.Namespace) -> ExitCode:
    if sys.platform != "linux":
        raise LocalCloudError(f"it runs on Linux only, and this is {sys.platform}; the library runs on any platform")
    if running := state_file.read(args.state_dir):
        raise LocalCloudError(
            f"one runs already, at {running.front_url} (pid {running.pid}): `burstcache local down` ends it"
        )
    # Check the arguments before the slow imports.
    files = origin_files(args.origin)
    ports.check_free(args.port, args.endpoint_port, args.dashboard_port or 0)
    print("Starting: functions, queues, tables and machines from the template ...", flush=True)
    begun_s = time.monotonic()
    run_dir = args.state_dir.resolve() / "logs"
    with _signals(_abandoning_start(run_dir)):
        with _garbage_collector_off():
            from burstcache_local.follow import LogFollower
            from burstcache_local.moto.quicker import freeze_garbage_collector

            _clear(run_dir)
            cloud = _cloud(args, run_dir)
            cloud.start()
            freeze_garbage_collector()
        follower = LogFollower(run_dir)
        dashboard = Dashboard(args.dashboard_port, args.state_dir, log=run_dir / "dashboard.txt")
        try:
            with _signals(_interrupt):
                state_file.write(describe(cloud), args.state_dir)
                address = dashboard.start()
                _print_welcome(cloud, [file.key for file in files], time.monotonic() - begun_s, address)
                if args.verbose:
                    follower.start()
                signal.pause()
        except KeyboardInterrupt:
            print("\nEnding ...", flush=True)
        finally:
            with _signals(_end_at_once):
                state_file.remove(args.state_dir)
                dashboard.stop()
                cloud.stop()
                if args.verbose:
                    follower.stop()
    return ExitCode.SUCCESS


def _cloud(args: argparse.Namespace, run_dir: Path) -> LocalCloud:
    from burstcache_local.cloud import LocalCloud, LocalOptions
    from burstcache_local.iam.guardrail import guardrail_in
    from burstcache_local.lambdas.limits import LambdaLimits

    template = {"template": args.template} if args.template else {}
    limits = LambdaLimits() if args.environments is None else LambdaLimits(environments=args.environments)
    return LocalCloud(
        LocalOptions(
            parameters=dict(args.parameter),
            origin=args.origin,
            front_port=args.port,
            endpoint_port=args.endpoint_port,
            boot_s=args.boot_s,
            stop_s=args.stop_s,
            limits=limits,
            reclaims=args.reclaims,
            run_dir=run_dir,
            tags=dict(args.tag),
            guardrail=guardrail_in(args.guardrail) if args.guardrail else None,
            **template,
        )
    )


@contextmanager
def _garbage_collector_off() -> Iterator[None]:
    """Disable the garbage collector. Startup produces no garbage, but would spend a third of its time collecting."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@contextmanager
def _signals(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Install a handler for Ctrl-C, SIGTERM and a closed terminal for the duration of a `with`."""
    before = {number: signal.signal(number, handler) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, previous in before.items():
            signal.signal(number, previous)


def _abandoning_start(run_dir: Path) -> Callable[[int, FrameType | None], None]:
    """Return a signal handler that aborts the startup and removes the files it has created."""
    made = [path for path in (run_dir, run_dir.parent) if not path.exists()]

    def abandon(number: int, frame: FrameType | None) -> None:
        for path in made:
            shutil.rmtree(path, ignore_errors=True)
        _end_at_once(number, frame)

    return abandon


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _end_at_once(number: int, frame: FrameType | None) -> None:
    os._exit(ExitCode.INTERRUPTED)  # the kernel kills the children: see processes.py


def _clear(run_dir: Path) -> None:
    """Remove the logs of the previous run."""
    for path in (*run_dir.glob("*.log"), *run_dir.glob("*.jsonl")):
        path.unlink()


def describe(cloud: LocalCloud) -> RunningCloud:
    """Return the state file record for a cloud in this process."""
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
        variables=cloud.variables,
        sam_variables=cloud.sam_variables,
    )


def _print_welcome(cloud: LocalCloud, keys: Sequence[str], took_s: float, dashboard: str) -> None:
    key = "hello.txt" if "hello.txt" in keys else next(iter(keys), "new.txt")
    # An HTTP API truncates a path at an encoded question mark.
    path = f"/objects?key={quote(key, safe='')}" if "?" in key else f"/objects/{quote(key)}"
    url = shlex.quote(cloud.front_url + path)
    lines = [
        f"Burstcache runs ({took_s:.1f} s). Logs: {cloud.run_dir}",
        f"  Objects:  {cloud.front_url}/objects/KEY",
        f"  Origin:   {cloud.endpoint_url}/{cloud.bucket_name}   ({len(keys)} objects)",
        *([f"  Dashboard: {dashboard}"] if dashboard else []),
        "Try, in another terminal:",
        f"  curl -i {url}",
        f"  for i in $(seq 60); do curl -so /dev/null -D - {url} | grep -i x-cache-tier; sleep 0.5; done",
        f"  date | curl -T - {cloud.endpoint_url}/{cloud.bucket_name}/new.txt   # a write straight to S3",
        f"  {_own_name()} watch {shlex.quote(key)}",
        "Ctrl-C ends everything.",
    ]
    print("\n".join(lines), flush=True)


def _own_name() -> str:
    """Return the name of this command for use in hints. `make run` calls the command by its path in .venv."""
    on_path = shutil.which("burstcache")
    return sys.argv[0] if on_path is None and Path(sys.argv[0]).name == "burstcache" else "burstcache"
