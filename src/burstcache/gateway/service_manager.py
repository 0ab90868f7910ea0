"""The service manager of a gateway: systemd, which learns of its states and may hand over listening sockets.

Both protocols are those of sd_notify(3) and sd_listen_fds(3). Without systemd's variables nothing happens.
"""

from __future__ import annotations

import os
import socket

from burstcache.logs import logger

_FIRST_SOCKET = 3


def notify(state: str) -> None:
    """Send a state to the service manager, such as `READY=1`."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.connect(f"\0{address[1:]}" if address.startswith("@") else address)
            manager.send(state.encode())
    except OSError as error:
        logger().warning("the service manager cannot be notified", reason=str(error), state=state)


def inherited_sockets() -> list[socket.socket]:
    """Return the listening sockets that the service manager has opened for this process, each once.

    It keeps them open while the service restarts, so clients wait instead of being refused.
    """
    count, process = os.environ.pop("LISTEN_FDS", ""), os.environ.pop("LISTEN_PID", "")
    if process != str(os.getpid()) or not count.isdecimal():
        return []
    sockets = [socket.socket(fileno=number) for number in range(_FIRST_SOCKET, _FIRST_SOCKET + int(count))]
    for each in sockets:
        each.set_inheritable(False)
        each.setblocking(False)
    return sockets
