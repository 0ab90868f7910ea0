"""The `burstcache` command: finds the module that a command belongs to, and turns what goes wrong into an exit code."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NoReturn

from burstcache import __version__
from burstcache.core.errors import BurstcacheError, InvalidSettingError
from burstcache_cli.command import Command

WELL, FAILED, CALLED_WRONGLY, INTERRUPTED = 0, 1, 2, 130


COMMANDS = (
    Command("local", "run the whole system on this machine: up, status, down", "burstcache_local.command"),
    Command("keys", "show all keys: state, tier, since when", "burstcache_cli.show"),
    Command("watch", "follow a key or a node through its states", "burstcache_cli.show"),
    Command("routes", "show the keys that are not on S3, and where they are", "burstcache_cli.show"),
    Command("redis", "start, stop, ping a Redis node by hand; show all", "burstcache_cli.show"),
    Command("lambda", "start and stop a key's cache function by hand", "burstcache_cli.show"),
    Command("sim", "simulate: what a trace would cost, and how often it would hit", "burstcache_sim.command"),
    Command("advise", "say whether to deploy this for a log, how, and at what cost", "burstcache_sim.commands.advise"),
)


class _Parser(argparse.ArgumentParser):
    """Says in one line what is wrong with a call."""

    def error(self, message: str) -> NoReturn:
        self.exit(CALLED_WRONGLY, f"{self.prog}: {message} (see {self.prog} --help)\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Returns:
        0: well, 1: the work failed, 2: the call was wrong, 130: interrupted.
    """
    try:
        try:
            return _run(sys.argv[1:] if argv is None else argv)
        finally:
            sys.stdout.flush()  # here, where a reader that has gone can still be answered
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # the reader has gone (`burstcache keys | head`): it has what it wanted
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except InvalidSettingError as error:
        return _complain(str(error), CALLED_WRONGLY)
    except BurstcacheError as error:
        return _complain(str(error), FAILED)
    except Exception as error:  # AWS's errors say enough themselves; a person at a terminal has no use for a trace
        return _complain(f"{type(error).__name__}: {error}", FAILED)


def _run(argv: Sequence[str]) -> int:
    parser = _Parser(prog="burstcache", description="A read cache in front of S3 that exists only while it is needed.")
    parser.add_argument("--version", action="version", version=f"burstcache {__version__}")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND")
    chosen = next((command for command in COMMANDS if argv and command.name == argv[0]), None)
    if chosen is None:
        for command in COMMANDS:  # names and help only: the modules behind them take time to import
            subparsers.add_parser(command.name, help=command.help)
        parser.parse_args(argv)
        parser.error(f"a command is missing: expected one of {', '.join(command.name for command in COMMANDS)}")
    module = import_module(chosen.module)
    module.add_parser(subparsers)
    return int(module.run(parser.parse_args(argv)))


def _complain(message: str, exit_code: int) -> int:
    print(f"burstcache: {' '.join(message.split())}", file=sys.stderr)
    return exit_code


if __name__ == "__main__":
    sys.exit(main())
