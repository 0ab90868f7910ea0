"""Command-line arguments for the commands that show and operate a stack."""

from __future__ import annotations

import argparse
import os
import re
from math import inf
from pathlib import Path
from typing import Any

from burstcache_terminal.options import number, template_parameters, whole

_MAX_HOLD_S = 7 * 24 * 3600


def stack(parser: argparse.ArgumentParser) -> None:
    """Add the options that select a stack, and `--json`."""
    which_stack(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")


def which_stack(parser: argparse.ArgumentParser) -> None:
    """Add the options that select a stack."""
    group = parser.add_argument_group("which stack", "Default: the local run that `burstcache local up` started.")
    group.add_argument("--stack-name", action=_Named, metavar="NAME", default="", help="a stack deployed to AWS")
    group.add_argument("--region", default="", help="its region (default: from the environment or the profile)")
    group.add_argument("--profile", default="", help="AWS profile to use for it")
    group.add_argument(
        "--state-dir",
        type=Path,
        metavar="DIR",
        default=Path(".burstcache"),
        help="state folder of the local run (%(default)s)",
    )


def config(parser: argparse.ArgumentParser) -> None:
    """Add the options of `config`."""
    add = parser.add_argument
    add("--template", type=Path, default=Path("template.yaml"), metavar="FILE", help="(default: template.yaml)")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--advanced", action="store_true", help="offer every other parameter, too, group by group")
    how.add_argument("--check", action="store_true", help="ask nothing; check account, bucket and the file's answers")
    deployment(parser)


def permissions(parser: argparse.ArgumentParser) -> None:
    """Add the options of `permissions`."""
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--deploy", action="store_true", help="the policy of the role that deploys the stack")
    which.add_argument("--boundary", action="store_true", help="a permissions boundary for the roles of the stack")
    add = parser.add_argument
    template_parameters(parser)
    add("--template", type=Path, default=Path("template.yaml"), metavar="FILE", help="(default: template.yaml)")
    add("--stack-name", action=_Named, metavar="NAME", default="burstcache", help="name of the stack (%(default)s)")
    add("--region", default="", help="its region (default: any)")


def deploy(parser: argparse.ArgumentParser) -> None:
    """Add the options of `deploy`."""
    parser.add_argument("--lose-state", action="store_true", help="go on even if databases lose their state")
    deployment(parser)


def delete(parser: argparse.ArgumentParser) -> None:
    """Add the options of `delete`."""
    parser.add_argument(
        "--with-buckets",
        action="store_true",
        help="also delete the buckets that the stack created, with every object version",
    )
    deployment(parser)


def deployment(parser: argparse.ArgumentParser) -> None:
    """Add the options that select an environment of samconfig.toml and override the environment's settings."""
    group = parser.add_argument_group("which stack", "Defaults come from samconfig.toml.")
    add = group.add_argument
    add("--file", type=Path, default=Path("samconfig.toml"), metavar="FILE", help="(default: samconfig.toml)")
    add(
        "--config-env",
        type=_environment,
        default="default",
        metavar="NAME",
        help="environment in that file (default: default)",
    )
    add("--stack-name", action=_Named, metavar="NAME", default="", help="name of the stack")
    add("--region", default="", help="its region")
    add("--profile", default="", help="AWS profile to use")


def doctor(parser: argparse.ArgumentParser) -> None:
    """Add the options of `doctor`."""
    stack(parser)
    group = parser.add_argument_group("which gateway", "Test a gateway in place of a stack, as its clients do.")
    group.add_argument("--gateway", metavar="URL", default="", help="its endpoint")
    group.add_argument(
        "--bucket", default="", metavar="B", help="the bucket to read (default: this machine's gateway's)"
    )
    group.add_argument("--key", default="", metavar="KEY", help="the object to read (default: any one)")


def keys(parser: argparse.ArgumentParser) -> None:
    """Add the options of `keys`."""
    stack(parser)


def explain(parser: argparse.ArgumentParser) -> None:
    """Add the options of `explain`."""
    lambda_key(parser)


def routes(parser: argparse.ArgumentParser) -> None:
    """Add the options of `routes`."""
    stack(parser)


def watch(parser: argparse.ArgumentParser) -> None:
    """Add the options of `watch`."""
    watched = parser.add_mutually_exclusive_group(required=True)
    watched.add_argument("key", nargs="?", type=_key, metavar="KEY", help="name of an object in the origin bucket")
    watched.add_argument("--node", metavar="NODE", help="watch a Redis node in place of a key")
    parser.add_argument("--once", action="store_true", help="print the states of the current life up to now, and exit")
    parser.add_argument("--until", metavar="STATE", default="", help="exit on this state, such as RedisRunning")
    parser.add_argument(
        "--timeout-s",
        type=number(least=0, noun="a number of seconds"),
        metavar="SECONDS",
        default=inf,
        help="exit after this time, with an error if --until is not reached by then",
    )
    stack(parser)


def redis_start(parser: argparse.ArgumentParser) -> None:
    """Add the options of `redis start`."""
    redis_node(parser)
    parser.add_argument(
        "--for-s",
        type=whole(least=1, most=_MAX_HOLD_S, noun="a whole number of seconds"),
        metavar="SECONDS",
        default=900,
        help="how long to keep it running (%(default)s)",
    )


def redis_node(parser: argparse.ArgumentParser) -> None:
    """Add the argument for a node's name, and the options that select a stack."""
    parser.add_argument("node", nargs="?", metavar="NODE", default="", help="name of a node (default: the only one)")
    stack(parser)


def lambda_key(parser: argparse.ArgumentParser) -> None:
    """Add the argument for an object's key, and the options that select a stack."""
    parser.add_argument("key", type=_key, metavar="KEY", help="name of an object in the origin bucket")
    stack(parser)


def purge(parser: argparse.ArgumentParser) -> None:
    """Add the arguments for an object's key or a prefix, and the options that select a stack."""
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument(
        "key", type=_key, nargs="?", metavar="KEY", help="name of an object; it may have been deleted since"
    )
    which.add_argument("--prefix", metavar="PREFIX", help="all objects of the bucket whose names begin with it")
    stack(parser)


def pause(parser: argparse.ArgumentParser) -> None:
    """Add the argument for a pause's reason, and the options that select a stack."""
    parser.add_argument("--reason", metavar="TEXT", default="by hand", help="shown while it lasts (%(default)s)")
    stack(parser)


class _Named(argparse.Action):
    """An action that stores a stack's name. It rejects an empty name, which would select the local run."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option_string: Any = None
    ) -> None:
        """Store the name, or raise ArgumentError if the name is empty."""
        if not values:
            problem = "'': expected the name of a deployed stack; leave the option out for the local run"
            raise argparse.ArgumentError(self, problem)
        setattr(namespace, self.dest, values)


def _environment(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_-]+", text):
        raise argparse.ArgumentTypeError(f"{text!r}: expected letters, digits, - and _, such as prod")
    return text


def _key(text: str) -> str:
    if not text:
        raise argparse.ArgumentTypeError("'': expected the name of an object in the origin bucket")
    try:
        return os.fsencode(text).decode("utf-8")  # in the C locale, Python decodes arguments as ASCII
    except UnicodeError:
        raise argparse.ArgumentTypeError(f"{text!r}: expected UTF-8, as in all names of objects") from None
