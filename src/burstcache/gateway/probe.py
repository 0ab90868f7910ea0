"""The probe of a gateway in the same container: exit code 0 if it is healthy, 1 if it is not.

    python -m burstcache.gateway.probe [PORT]

Containers of a task or a pod share the loopback, which an orchestrator's own HTTP probes cannot reach.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from http.client import HTTPConnection, HTTPException

_PORT = 9000
_WITHIN_S = 2.0


def main(argv: Sequence[str] | None = None) -> int:
    """Ask the gateway for its health, and return the exit code.

    Args:
        argv: The port. None: the process's own arguments.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    connection = HTTPConnection("127.0.0.1", int(words[0]) if words else _PORT, timeout=_WITHIN_S)
    try:
        connection.request("GET", "/-/healthz")
        return 0 if connection.getresponse().status == 200 else 1
    except (OSError, HTTPException) as error:
        print(f"burstcache: {error}", file=sys.stderr)
        return 1
    finally:
        connection.close()


if __name__ == "__main__":
    sys.exit(main())
