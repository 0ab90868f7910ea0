"""boto3 clients of the read path: they give up early, because S3 answers instead.

The limits add up: whatever hangs, route, tier, report and two tries of S3 stay below the front door's 29 s.
"""

from __future__ import annotations

from threading import Lock
from typing import Any

import boto3
from botocore.config import Config

_CONNECT_TIMEOUT_S = 1
# S3 is the last resort: it may take longer and is asked twice. The other services can be done without.
_S3_CONFIG = Config(
    connect_timeout=_CONNECT_TIMEOUT_S,
    read_timeout=3,
    retries={"mode": "standard", "total_max_attempts": 2},
    signature_version="s3v4",
    # Checksums would be computed here in Python, over bytes that TLS and the ETag protect already.
    response_checksum_validation="when_required",
    tcp_keepalive=True,
)
_QUICK_CONFIG = Config(
    connect_timeout=_CONNECT_TIMEOUT_S,
    read_timeout=1,
    retries={"mode": "standard", "total_max_attempts": 1},
    tcp_keepalive=True,
)
_clients: dict[str, Any] = {}
_lock = Lock()  # boto3's default session may not make two clients at once, and reports are sent from a worker thread


def quick_client(service: str) -> Any:
    """Return this process's read-path client of `service`."""
    if (known := _clients.get(service)) is not None:
        return known
    with _lock:
        if service not in _clients:
            config = _S3_CONFIG if service == "s3" else _QUICK_CONFIG
            _clients[service] = boto3.client(service, config=config)
        return _clients[service]


def forget_clients() -> None:
    """Make every client anew at its next use."""
    with _lock:
        _clients.clear()
