"""Client addresses at the start of a log: whether most of them are public, as those of browsers are."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address
from re import compile as regex

_WORD = regex(r"[0-9A-Fa-f.:]+")


def has_public_clients(lines: Sequence[bytes]) -> bool:
    """Return whether most of the lines with an address have a public one first.

    The first address of a line is the client's in the usual formats. The name of a browser looks like an address
    (`Chrome/120.0.0.0`), so a word after a slash does not count.
    """
    firsts = [address for line in lines if (address := _first_address(line.decode("ascii", "replace")))]
    return 2 * sum(address.is_global for address in firsts) > len(firsts)


def _first_address(line: str) -> IPv4Address | IPv6Address | None:
    for match in _WORD.finditer(line):
        word = match[0]
        if line[: match.start()].endswith("/") or ("." not in word and word.count(":") < 2):
            continue
        try:
            return ip_address(word.partition(":")[0] if "." in word else word)
        except ValueError:
            continue
    return None
