"""How old an answer may be for its request (RFC 9111, section 5.2.1)."""

from __future__ import annotations

import re
from collections.abc import Mapping

# A number of more digits is some centuries: no limit, and Python refuses to convert thousands of them.
_DIRECTIVE = re.compile(r'([a-z-]+)(?:="?([0-9]{1,10})"?)?', re.IGNORECASE)
_ASKS_THE_ORIGIN = ("no-cache", "no-store")


def max_age_s(headers: Mapping[str, str]) -> int | None:
    """Return how old an answer may be at most [s]; 0: S3 has to confirm it; None: as old as the reader allows.

    Args:
        headers: The client's, names in lower case.
    """
    if not (text := headers.get("cache-control", "")):
        return None
    limits = []
    for directive in text.split(","):
        if (match := _DIRECTIVE.fullmatch(directive.strip())) is not None:
            name, value = match[1].lower(), match[2]
            if name in _ASKS_THE_ORIGIN:
                limits.append(0)
            elif name == "max-age" and value:
                limits.append(int(value))
    return min(limits, default=None)
