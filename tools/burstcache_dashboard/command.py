"""The `burstcache dashboard` command, which serves the page until Ctrl-C."""

from __future__ import annotations

import argparse
import socket

from burstcache.core.errors import InvalidSettingError
from burstcache_cli.stack import stack_of
from burstcache_dashboard.app import Server
from burstcache_dashboard.benchmarks import Benchmarks
from burstcache_dashboard.source import local_source, source_of
from burstcache_terminal.exit_codes import ExitCode

HOST = "127.0.0.1"  # only loopback, because the page shows all keys


def dashboard(args: argparse.Namespace) -> ExitCode:
    """Serve the page for the selected stack.

    Raises:
        InvalidSettingError: The port is in use, or an option is invalid.
        LocalRunAbsentError: No stack was named, and there is no local run.
    """
    stack = stack_of(args)
    source = source_of(stack) if stack.is_deployed else local_source(args.state_dir)
    benchmarks = Benchmarks() if source.running else None
    server = Server(source, benchmarks if benchmarks and benchmarks.offers else None)
    with listening(args.port) as listener:
        port = listener.getsockname()[1]
        print(f"http://{HOST}:{port}/ shows {stack.name}; Ctrl-C ends it", flush=True)
        server.run(sockets=[listener])
    return ExitCode.SUCCESS


def listening(port: int) -> socket.socket:
    """Return a socket that listens on a loopback port (0: any free port).

    Raises:
        InvalidSettingError: The port is in use.
    """
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
        listener.listen(128)  # lets clients connect before the server is up
    except OSError as error:
        listener.close()
        raise InvalidSettingError(f"--port {port}: {error.strerror}; 0 takes any free one") from error
    return listener
