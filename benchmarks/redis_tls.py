"""What TLS costs a reader of Redis: one server, by its plain and its TLS port, in one run.

The server must be built with TLS, as Debian's redis-server is; the one that the local run brings is not. Reads are
those of guests. The sides take turns, so that a noisy machine disturbs both.

    python -m benchmarks.redis_tls --server /usr/bin/redis-server [--rounds 2000]
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from cryptography import x509

from benchmarks.read_path import SIZES_BYTES, Times, entry, free_port, in_turns, wait_for_port
from benchmarks.support.common import environment
from benchmarks.support.tls import authority
from burstcache.access import RedisAccess, RedisNode
from burstcache.adapters.redis_connection import SERVER_NAME
from burstcache.adapters.redis_objects import RedisObjects

_NO_SECRETS: Any = None
_CONNECTIONS_PER_READ = 20  # connecting takes that much longer than reading


def serve(server: Path, folder: Path, ends: ExitStack) -> tuple[RedisObjects, RedisObjects]:
    """Start a server with both ports; return the node by each."""
    ca_pem = authority(folder, x509.DNSName(SERVER_NAME))
    plain, tls = free_port(), free_port()
    options = {"port": plain, "tls-port": tls, "tls-cert-file": "server.pem", "tls-key-file": "server.key"}
    options |= {"tls-auth-clients": "no", "bind": "127.0.0.1", "save": '""', "appendonly": "no"}
    (folder / "redis.conf").write_text("".join(f"{name} {value}\n" for name, value in options.items()))
    process = subprocess.Popen([server, "redis.conf"], cwd=folder, stdout=subprocess.DEVNULL)
    ends.callback(process.wait)
    ends.callback(process.kill)
    wait_for_port(tls)
    return node_at(plain, RedisAccess()), node_at(tls, RedisAccess(ca_pem=ca_pem))


def node_at(port: int, access: RedisAccess) -> RedisObjects:
    """Return a node on this machine."""
    return RedisObjects(RedisNode("node-1", "i-1", "127.0.0.1", port), _NO_SECRETS, access)


def reading(node: RedisObjects, hash_: str) -> Callable[[], object]:
    """Return a read of a guest."""
    return lambda: node.read_guest(hash_, at_us=1, leases=False)


def connecting(node: RedisObjects) -> Callable[[], object]:
    """Return a first connection and its first answer."""

    def connect() -> None:
        node.close()
        node.ping()

    return connect


def show(what: str, plain: Times, tls: Times) -> None:
    """Print one row."""
    print(f"{what:>8} {plain.median_ms:9.3f} {tls.median_ms:9.3f} {tls.median_ms / plain.median_ms:6.2f}")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--server", type=Path, required=True, help="redis-server or valkey-server, built with TLS")
    parser.add_argument("--rounds", type=int, default=2000, help="reads per row and side")
    arguments = parser.parse_args()
    print(environment())
    print("           plain ms    TLS ms  ratio   (medians)")
    with ExitStack() as ends:
        folder = Path(ends.enter_context(tempfile.TemporaryDirectory()))
        nodes = serve(arguments.server.absolute(), folder, ends)
        for name, size_bytes in SIZES_BYTES.items():
            nodes[0].put(name, entry(size_bytes), nodes[0].take_lease(name))
            show(name, *in_turns(arguments.rounds, *(reading(node, name) for node in nodes)))
        show("connect", *in_turns(arguments.rounds // _CONNECTIONS_PER_READ, *map(connecting, nodes)))


if __name__ == "__main__":
    main()
