"""A TLS front for a plaintext server, because Redis wheels are built without TLS.

Clients connect and verify certificates as on AWS, although another program terminates TLS. This program runs in its own
process, so that load on the AWS services in this process does not delay it.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

from burstcache_local.machines import processes, tls_server


class TlsFront:
    """A process that terminates TLS and forwards connections to a plaintext server between `open` and `close`."""

    def __init__(self, address: tuple[str, int], server: tuple[str, int], pem: str, log: Path) -> None:
        """Configure the front without listening.

        Args:
            address: Address that clients connect to.
            server: Address of the plaintext server.
            pem: A private key with its certificate.
            log: The process's log file.
        """
        self._address, self._server, self._pem, self._log = address, server, pem, log
        self._process: subprocess.Popen[bytes] | None = None

    def open(self) -> None:
        """Start listening. Clients can connect when this method returns.

        Raises:
            OSError: The address is in use.
        """
        key = os.memfd_create("key")  # OpenSSL reads keys from files only
        try:
            os.write(key, self._pem.encode())
            with socket.create_server(self._address) as listener:
                descriptors = (listener.fileno(), key)
                arguments = map(str, (*descriptors, *self._server))
                command = [sys.executable, "-I", tls_server.__file__, *arguments]
                self._process = processes.start(command, env={}, log=self._log, pass_fds=descriptors)
        finally:
            os.close(key)

    def close(self) -> None:
        """Close all connections and stop listening."""
        if self._process is not None:
            processes.stop(self._process, grace_s=0)
            self._process = None
