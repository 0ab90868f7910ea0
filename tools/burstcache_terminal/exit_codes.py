"""The exit codes of `burstcache`."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """An exit code for the shell."""

    SUCCESS = 0
    FAILURE = 1
    USAGE = 2  # invalid arguments; do not retry
    INTERRUPTED = 130  # as reported by a shell after Ctrl-C
