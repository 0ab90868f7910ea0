"""TCP ports on 127.0.0.1."""

from __future__ import annotations

import socket
from contextlib import ExitStack

from burstcache_local.errors import PortTakenError


def listen(port: int) -> socket.socket:
    """Return a socket that listens on the port (0: any free port).

    Raises:
        PortTakenError: The port is in use.
    """
    try:
        return socket.create_server(("127.0.0.1", port), backlog=1024)
    except OSError:
        raise PortTakenError(
            f"port {port} is in use: stop its listener, or choose another (`burstcache local up --help`)"
        ) from None


def check_free(*ports: int) -> None:
    """Raise PortTakenError if a port is in use or occurs twice. Port 0 is always free."""
    with ExitStack() as sockets:
        for port in ports:
            sockets.enter_context(listen(port))
