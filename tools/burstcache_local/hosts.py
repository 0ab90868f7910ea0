"""Loopback hosts, which reach only this machine."""

from __future__ import annotations

import re
from ipaddress import ip_address

# A Host header: an IPv6 address in brackets or a name without a colon, and an optional port.
_HOST = re.compile(r"(?:\[([0-9a-fA-F:.]+)\]|([^:\[\]@/]+))(?::[0-9]{0,5})?")


def is_loopback(host: str) -> bool:
    """Return whether a Host header names this machine. Foreign names do not count, even if they resolve to loopback.

    This prevents DNS rebinding. Subdomains of `localhost` (RFC 6761, section 6.3) are accepted, because SDKs use such
    names for buckets.
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
