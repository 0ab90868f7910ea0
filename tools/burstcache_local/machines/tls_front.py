"""TLS in front of a server that has none: the Redis that one can install from a wheel is built without it.

Clients connect and verify as they do on AWS; only the end of the encryption is another program. It is a process of its
own, as a node is a machine of its own: in this one it would be late whenever the other services of AWS are.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

from burstcache_local.machines import processes, tls_server


class TlsFront:
    """Listens with a certificate and passes on what it hears, from `open` to `close`."""

    def __init__(self, address: tuple[str, int], server: tuple[str, int], pem: str, log: Path) -> None:
        """Remember what to do.

        Args:
            address: Where clients connect.
            server: Where the server listens, without TLS.
            pem: A private key and its certificate.
            log: Where it writes.
        """
        self._address, self._server, self._pem, self._log = address, server, pem, log
        self._process: subprocess.Popen[bytes] | None = None

    def open(self) -> None:
        """Listen; who connects from now on is answered.

        Raises:
            OSError: The address is taken.
        """
        key = os.memfd_create("key")  # OpenSSL takes it from a file only
        try:
            os.write(key, self._pem.encode())
            with socket.create_server(self._address) as listener:
                descriptors = (listener.fileno(), key)
                words = map(str, (*descriptors, *self._server))
                command = [sys.executable, "-I", tls_server.__file__, *words]
                self._process = processes.start(command, env={}, log=self._log, pass_fds=descriptors)
        finally:
            os.close(key)

    def close(self) -> None:
        """Hang up, and listen no longer."""
        if self._process is not None:
            processes.stop(self._process, grace_s=0)
            self._process = None
