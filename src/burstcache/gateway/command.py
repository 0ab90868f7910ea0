"""The work of the command `burstcache gateway`: an S3 endpoint on this machine that reads through the cache."""

from __future__ import annotations

import argparse
import os
import ssl
from collections.abc import Callable
from functools import partial
from typing import Any

import boto3

from burstcache.adapters.clock import SystemClock
from burstcache.client.bounds import Bounds
from burstcache.client.client import Client
from burstcache.core.errors import InvalidSettingError, in_one_line
from burstcache.gateway.access import Access
from burstcache.gateway.access_log import check_log
from burstcache.gateway.credentials import KeyRing, KeysFile, KeySource, MachineKeys, SecretsManagerKeys
from burstcache.gateway.origin import S3Origin
from burstcache.gateway.server import Parts, ServerSettings, serve
from burstcache.gateway.service_manager import notify

_MIB = 1 << 20
_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_OWN_VARIABLES = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")


def work(args: argparse.Namespace, when_ready: Callable[[], object] = lambda: None) -> int:
    """Serve until SIGTERM or Ctrl-C, and return the exit code.

    Args:
        args: The parsed arguments.
        when_ready: Called once the gateway listens.

    Raises:
        InvalidSettingError: An option is invalid, or the address is in use.
    """
    _check(args)
    _forget_own_endpoint(args)
    tls = _tls(args)
    client, access = _client(args), _access(args)  # fails now, and once, if the stack or the credentials are unknown
    bucket = client.bucket_name
    if args.processes == 1:
        parts = Parts(client=lambda: client, origin=_origin, access=lambda: access)
    else:
        client.close()
        parts = Parts(client=partial(_client, args), origin=_origin, access=partial(_access, args))
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

    try:
        return serve(settings, parts, _Announcer(args, bucket, when_ready, is_tls=tls is not None))
    except OSError as error:
        where = f"--unix-socket {error.filename}" if error.filename else f"--host {args.host} --port {args.port}"
        raise InvalidSettingError(f"{where}: {error.strerror or error}") from error


class _Announcer:
    """Tells the user and the service manager of the gateway's states."""

    def __init__(
        self, args: argparse.Namespace, bucket: str, when_ready: Callable[[], object], *, is_tls: bool
    ) -> None:
        self._args = args
        self._when_ready = when_ready
        self._bucket = bucket
        self._is_tls = is_tls

    def ready(self, port: int) -> None:
        host = f"[{self._args.host}]" if ":" in self._args.host else self._args.host
        url = f"{'https' if self._is_tls else 'http'}://{host}:{port}" if port else "a Unix socket"
        print(f"{url} reads {self._bucket}; Ctrl-C ends it", flush=True)
        notify(f"READY=1\nSTATUS=Reads {self._bucket}")
        self._when_ready()

    def stopping(self) -> None:
        notify("STOPPING=1\nSTATUS=Waits for requests under way")


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
    given: dict[str, Any] = {
        "freshness": args.freshness,
        "max_stale_ms": args.max_stale_ms,
        "memory_bytes": None if args.memory_mib is None else args.memory_mib * _MIB,
        "disk": args.disk,
        "disk_bytes": None if args.disk_mib is None else args.disk_mib * _MIB,
    }
    bounds = {name: value for name, value in given.items() if value is not None}
    if args.local:
        return Client.local(args.local, **bounds)
    urls = {"s3": args.origin_endpoint} if args.origin_endpoint else None
    session = boto3.Session(region_name=args.region or None)
    return Client(bucket=args.bucket, stack_name=args.stack_name, session=session, endpoint_urls=urls, **bounds)


def _origin(client: Client) -> S3Origin:
    return S3Origin(client.s3)


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
