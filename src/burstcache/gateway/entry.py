"""The entry of `burstcache gateway`: parses arguments before anything is imported that takes long."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from burstcache import __version__
from burstcache.core.errors import BurstcacheError, InvalidSettingError, in_one_line

PORT = 9000
_PURPOSE = "Serve S3's protocol to programs in any language, cached."
_FAILURE, _USAGE_ERROR = 1, 2


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise InvalidSettingError(f"{self.prog}: {message} (see {self.prog} --help)")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command, and return its exit code.

    Args:
        argv: The arguments, beginning with `gateway`. None: the process's own.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        return _work(parse_arguments(words[1:]))
    except BurstcacheError as error:
        print(f"burstcache: {in_one_line(error)}", file=sys.stderr)
        return _USAGE_ERROR if isinstance(error, InvalidSettingError) else _FAILURE


def parse_arguments(words: Sequence[str]) -> argparse.Namespace:
    """Parse the command's arguments.

    Raises:
        InvalidSettingError: An argument is unknown or invalid.
    """
    parser = _Parser(prog="burstcache gateway", description=_PURPOSE)
    options(parser)
    return parser.parse_args(words)


def _work(args: argparse.Namespace) -> int:
    from botocore.exceptions import BotoCoreError

    try:
        from burstcache.gateway.command import work
    except ModuleNotFoundError as error:
        raise InvalidSettingError(
            f"{error.name} is missing. Run: pip install 'burstcache[gateway]=={__version__}'"
        ) from error
    try:
        return work(args)
    except BotoCoreError as error:
        print(f"burstcache: {in_one_line(error)}", file=sys.stderr)
        return _FAILURE


def options(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments to a parser."""
    what = parser.add_argument_group("what it reads")
    what.add_argument("--bucket", default="", metavar="B", help="the bucket to cache, without a stack")
    what.add_argument("--stack-name", default="", metavar="S", help="the stack whose bucket and tiers to read")
    what.add_argument("--local", metavar="DIR", help="the local run whose state is in this directory")
    what.add_argument(
        "--origin-endpoint", default="", metavar="URL", help="an S3-compatible store in place of Amazon S3"
    )
    what.add_argument("--region", default="", help="the region of S3 (default: the environment's)")
    keeps = parser.add_argument_group("what it keeps")
    keeps.add_argument("--memory-mib", type=_whole(0), metavar="N", help="memory per process [MiB] (default: 64)")
    keeps.add_argument("--disk", metavar="DIR", help="a directory that keeps objects for later runs")
    keeps.add_argument("--disk-mib", type=_whole(1), metavar="N", help="size limit of that directory [MiB]")
    keeps.add_argument("--freshness", choices=("bounded", "strong", "immutable"), default="bounded")
    keeps.add_argument("--max-stale-ms", type=_whole(1), metavar="N", help="maximum staleness [ms] (default: 2000)")
    where = parser.add_argument_group("where it listens")
    where.add_argument("--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1)")
    where.add_argument(
        "--port", type=_whole(0, 65_535), default=PORT, help=f"TCP port (default: {PORT}; 0: a free one)"
    )
    where.add_argument("--unix-socket", default="", metavar="PATH", help="a Unix socket, beside the port")
    where.add_argument("--domain", action="append", default=[], help="a name for bucket names in the host (B.DOMAIN)")
    where.add_argument("--tls-certificate", default="", metavar="PEM", help="certificate chain for HTTPS")
    where.add_argument("--tls-key", default="", metavar="PEM", help="its private key")
    where.add_argument("--processes", type=_whole(1, 64), default=1, metavar="N", help="number of processes")
    where.add_argument(
        "--drain-s", type=_whole(0), default=30, metavar="N", help="how long a stop waits for requests [s]"
    )
    shows = parser.add_argument_group("what it shows")
    shows.add_argument("--access-log", default="", metavar="FILE", help="a line per request, as S3 logs it (-: here)")
    shows.add_argument(
        "--metrics-host",
        default="127.0.0.1",
        metavar="HOST",
        help="address for metrics and health (default: 127.0.0.1)",
    )
    shows.add_argument(
        "--metrics-port",
        type=_whole(0, 65_535),
        metavar="N",
        help="a port for metrics and health alone (0: a free one)",
    )
    who = parser.add_argument_group("whose requests it answers (default: those signed with this machine's credentials)")
    who.add_argument("--keys-file", metavar="FILE", help="requests signed with the access keys in a file")
    who.add_argument("--keys-secret", metavar="ID", help="requests signed with the access keys in Secrets Manager")
    who.add_argument(
        "--forward-proxy",
        action="store_true",
        help="also requests for S3's own host names (HTTP_PROXY), whose signatures S3 verifies",
    )
    who.add_argument(
        "--permitted-s",
        type=_whole(0),
        default=0,
        metavar="N",
        help="how long an answer of S3 permits a proxy's caller further hits over its connection (default: 0)",
    )
    who.add_argument("--unsigned", action="store_true", help="requests without a signature, on the loopback only")


def _whole(least: int, most: int | None = None) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not text.isdecimal() or int(text) < least or (most is not None and int(text) > most):
            limits = f"from {least} to {most}" if most is not None else f"of at least {least}"
            raise argparse.ArgumentTypeError(f"{text!r}: expected a whole number {limits}")
        return int(text)

    return parse
