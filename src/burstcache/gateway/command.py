"""The command `burstcache gateway`: an S3 endpoint on this machine that reads through the cache."""

from __future__ import annotations

import argparse
import os
import ssl
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NoReturn

import boto3
from botocore.exceptions import BotoCoreError

from burstcache.adapters.clock import SystemClock
from burstcache.client.bounds import MAX_STALE_MS, MEMORY_BYTES, Bounds
from burstcache.client.client import Client
from burstcache.core.errors import BurstcacheError, InvalidSettingError, in_one_line
from burstcache.gateway.access import Access
from burstcache.gateway.access_log import check_log
from burstcache.gateway.credentials import KeyRing, KeysFile, KeySource, MachineKeys, SecretsManagerKeys
from burstcache.gateway.origin import Origin
from burstcache.gateway.server import Parts, ServerSettings, serve

PORT = 9000
_FAILURE, _USAGE_ERROR = 1, 2
_MIB = 1 << 20
_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_OWN_VARIABLES = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise InvalidSettingError(f"{self.prog}: {message} (see {self.prog} --help)")


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    what = parser.add_argument_group("what it reads")
    what.add_argument("--bucket", default="", metavar="B", help="the bucket to cache, without a stack")
    what.add_argument("--stack-name", default="", metavar="S", help="the stack whose bucket and tiers to read")
    what.add_argument("--local", metavar="DIR", help="the local run whose state is in this directory")
    what.add_argument(
        "--origin-endpoint", default="", metavar="URL", help="an S3-compatible store in place of Amazon S3"
    )
    what.add_argument("--region", default="", help="the region of S3 (default: the environment's)")
    keeps = parser.add_argument_group("what it keeps")
    keeps.add_argument(
        "--memory-mib", type=_whole(0), default=MEMORY_BYTES // _MIB, metavar="N", help="memory per process [MiB]"
    )
    keeps.add_argument("--disk", metavar="DIR", help="a directory that keeps objects for later runs")
    keeps.add_argument("--disk-mib", type=_whole(1), metavar="N", help="size limit of that directory [MiB]")
    keeps.add_argument("--freshness", choices=("bounded", "strong", "immutable"), default="bounded")
    keeps.add_argument(
        "--max-stale-ms", type=_whole(1), default=MAX_STALE_MS, metavar="N", help="maximum staleness [ms]"
    )
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


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command, and return its exit code.

    Args:
        argv: The arguments, beginning with `gateway`. None: the process's own.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    parser = _Parser(prog="burstcache gateway", description=__doc__)
    options(parser)
    try:
        return work(parser.parse_args(words[1:]))
    except (BurstcacheError, BotoCoreError) as error:
        print(f"burstcache: {in_one_line(error)}", file=sys.stderr)
        return _USAGE_ERROR if isinstance(error, InvalidSettingError) else _FAILURE


def work(args: argparse.Namespace) -> int:
    """Serve until SIGTERM or Ctrl-C, and return the exit code.

    Raises:
        InvalidSettingError: An option is invalid, or the address is in use.
    """
    _check(args)
    _forget_own_endpoint(args)
    tls = _tls(args)
    make_client = partial(_client, args)
    with make_client() as client:  # fails now, and once, if the bucket or the stack is unknown
        bucket = client.bucket_name
    parts = Parts(client=make_client, origin=_origin, access=partial(_access, args))
    parts.access()  # as above, for credentials
    settings = ServerSettings(
        host=args.host,
        port=args.port,
        unix_socket=args.unix_socket,
        bucket=bucket,
        processes=args.processes,
        drain_s=args.drain_s,
        tls=tls,
        domains=tuple(args.domain),
        metrics_address=None if args.metrics_port is None else (args.metrics_host, args.metrics_port),
        access_log=args.access_log,
        accepts_unsigned=args.unsigned,
        disk=Bounds.of(disk=args.disk).disk,
        permitted_s=args.permitted_s if args.forward_proxy else None,
    )

    def ready(port: int) -> None:
        host = f"[{args.host}]" if ":" in args.host else args.host
        print(f"{'http' if tls is None else 'https'}://{host}:{port} reads {bucket}; Ctrl-C ends it", flush=True)

    try:
        return serve(settings, parts, ready)
    except OSError as error:
        raise InvalidSettingError(f"--host {args.host} --port {args.port}: {error.strerror or error}") from error


def _check(args: argparse.Namespace) -> None:
    named = [name for name in ("bucket", "stack_name", "local") if getattr(args, name)]
    if len(named) > 1:
        raise InvalidSettingError("--bucket, --stack-name and --local exclude each other; accepted: one of them")
    if args.unsigned and (args.keys_file or args.keys_secret):
        raise InvalidSettingError("--unsigned excludes --keys-file and --keys-secret")
    if args.unsigned and args.host not in _LOOPBACK:
        raise InvalidSettingError(
            f"--unsigned with --host {args.host}; accepted: 127.0.0.1, ::1, localhost. Others could use this machine's"
            " credentials"
        )
    if args.metrics_host != "127.0.0.1" and args.metrics_port is None:
        raise InvalidSettingError(f"--metrics-host {args.metrics_host} needs --metrics-port")
    if args.access_log:
        try:
            check_log(args.access_log)
        except OSError as error:
            raise InvalidSettingError(f"--access-log {args.access_log}: {error.strerror or error}") from error
    if bool(args.tls_certificate) != bool(args.tls_key):
        raise InvalidSettingError("--tls-certificate and --tls-key need each other")


def _forget_own_endpoint(args: argparse.Namespace) -> None:
    """Ignore the variable that leads this machine's programs to the gateway itself."""
    for name in _OWN_VARIABLES:
        host, _, port = os.environ.get(name, "").partition("://")[2].rstrip("/").rpartition(":")
        if port == str(args.port) and host in (*_LOOPBACK, "[::1]", args.host):
            del os.environ[name]


def _client(args: argparse.Namespace) -> Client:
    bounds: dict[str, Any] = {
        "freshness": args.freshness,
        "max_stale_ms": args.max_stale_ms,
        "memory_bytes": args.memory_mib * _MIB,
        "disk": args.disk,
        "disk_bytes": None if args.disk_mib is None else args.disk_mib * _MIB,
    }
    if args.local:
        return Client.local(args.local, **bounds)
    urls = {"s3": args.origin_endpoint} if args.origin_endpoint else None
    session = boto3.Session(region_name=args.region or None)
    return Client(bucket=args.bucket, stack_name=args.stack_name, session=session, endpoint_urls=urls, **bounds)


def _origin(client: Client) -> Origin:
    return Origin(client.s3)


def _access(args: argparse.Namespace) -> Access:
    if args.unsigned:
        return Access(None, args.domain)
    clock = SystemClock()
    sources: list[KeySource] = []
    if args.keys_file:
        sources.append(KeysFile(args.keys_file, clock))
    if args.keys_secret:
        sources.append(SecretsManagerKeys(boto3.client("secretsmanager"), args.keys_secret, clock))
    return Access(KeyRing(sources or [MachineKeys(clock)], clock), args.domain)


def _tls(args: argparse.Namespace) -> Callable[[], ssl.SSLContext] | None:
    if not args.tls_certificate:
        return None

    def context() -> ssl.SSLContext:
        made = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        try:
            made.load_cert_chain(args.tls_certificate, args.tls_key)
        except (OSError, ssl.SSLError) as error:
            raise InvalidSettingError(
                f"--tls-certificate {args.tls_certificate} --tls-key {args.tls_key}: {in_one_line(error)}"
            ) from error
        return made

    context()
    return context


def _whole(least: int, most: int | None = None) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not text.isdecimal() or int(text) < least or (most is not None and int(text) > most):
            limits = f"from {least} to {most}" if most is not None else f"of at least {least}"
            raise argparse.ArgumentTypeError(f"{text!r}: expected a whole number {limits}")
        return int(text)

    return parse
