"""Ports of 127.0.0.1."""

from __future__ import annotations

import socket
from contextlib import ExitStack

from burstcache_local.errors import PortTakenError


def listen(port: int) -> socket.socket:
    """Return a socket that listens on the port (0 for any free one).

    Raises:
        PortTakenError: Another process listens there.
    """
    try:
        return socket.create_server(("127.0.0.1", port), backlog=1024)
    except OSError:
        raise PortTakenError(f"port {port} is in use: choose another one, or stop what listens there") from None


def check_free(*ports: int) -> None:
    """Raise PortTakenError unless all ports can be listened on at the same time."""
    with ExitStack() as sockets:
        for port in ports:
            sockets.enter_context(listen(port))
