"""Names by which this machine alone is reached."""

from __future__ import annotations

import re
from ipaddress import ip_address

# Of a Host header: an address of version 6 in brackets, or anything else without a colon; perhaps a port.
_HOST = re.compile(r"(?:\[([0-9a-fA-F:.]+)\]|([^:\[\]@/]+))(?::[0-9]{0,5})?")


def is_loopback(host: str) -> bool:
    """Whether a Host header names this machine: no name of somebody else's that leads here (DNS rebinding).

    Names below `localhost` are this machine's, too (RFC 6761, section 6.3): SDKs put a bucket's name there.
    """
    if not (found := _HOST.fullmatch(host.strip())):
        return False
    name = (found[1] or found[2]).lower().removesuffix(".")
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False
