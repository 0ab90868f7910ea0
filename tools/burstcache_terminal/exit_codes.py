"""The exit codes of `burstcache`."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """What the shell gets."""

    SUCCESS = 0
    FAILURE = 1
    USAGE = 2  # the call itself is wrong: repeating it cannot help
    INTERRUPTED = 130  # what a shell reports of a program that Ctrl-C ended
