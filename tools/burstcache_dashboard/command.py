"""`burstcache dashboard`: serves the page until Ctrl-C."""

from __future__ import annotations

import argparse
import socket

from burstcache.core.errors import InvalidSettingError
from burstcache_cli.stack import stack_of
from burstcache_dashboard.app import Server
from burstcache_dashboard.benchmarks import Benchmarks
from burstcache_dashboard.source import local_source, source_of
from burstcache_terminal.exit_codes import ExitCode

HOST = "127.0.0.1"  # and no other: who can reach the page sees the names of all keys


def dashboard(args: argparse.Namespace) -> ExitCode:
    """Serve the page of one stack.

    Raises:
        InvalidSettingError: The port is taken, or an option names something that does not exist.
        LocalRunAbsentError: No stack was named and nothing runs here.
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
    """Return a socket that listens on a port of this machine, 0 for any free one.

    Raises:
        InvalidSettingError: The port is taken.
    """
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
        listener.listen(128)  # who has read the address may come before the server is up, and waits
    except OSError as error:
        listener.close()
        raise InvalidSettingError(f"--port {port}: {error.strerror}; 0 takes any free one") from error
    return listener
