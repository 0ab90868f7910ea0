"""Child processes that never outlive this process, even if it is killed."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

_PR_SET_PDEATHSIG = 1  # prctl(2)
_LIBC = ctypes.CDLL(None, use_errno=True)

# Linux sends the parent-death signal when the *thread* that forked ends. Therefore, one permanent thread forks all.
SPAWNER = ThreadPoolExecutor(max_workers=1, thread_name_prefix="spawner")


def leash(parent: int) -> Callable[[], None]:
    """Return a `preexec_fn` with which the kernel kills the child when the parent's `SPAWNER` thread ends."""

    def set_death_signal() -> None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # the parent died before the signal was set
            os._exit(1)

    return set_death_signal


def _spawn(
    command: Sequence[str], env: Mapping[str, str], cwd: Path | None, log: Path, pass_fds: Sequence[int]
) -> subprocess.Popen[bytes]:
    with log.open("ab") as output:
        return subprocess.Popen(
            command,
            env=dict(env),
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=pass_fds,
            preexec_fn=leash(os.getpid()),
        )


def start(
    command: Sequence[str],
    *,
    env: Mapping[str, str],
    log: Path,
    cwd: Path | None = None,
    pass_fds: Sequence[int] = (),
) -> subprocess.Popen[bytes]:
    """Start a process in its own group, with output to `log`. The kernel kills the process when this process ends.

    Raises:
        OSError: The program cannot be started.
    """
    return SPAWNER.submit(_spawn, command, env, cwd, log, pass_fds).result()


def kill_group(pid: int) -> None:
    """Kill a process and its children, if they are running."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


def stop(process: subprocess.Popen[bytes], *, grace_s: float) -> None:
    """Stop a process with SIGTERM, and after `grace_s` with SIGKILL. Wait for its end, and kill its whole group."""
    if process.poll() is None:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(grace_s)
    kill_group(process.pid)
    process.wait()
