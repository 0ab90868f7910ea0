"""Freshness required by a request, through Cache-Control (RFC 9111, section 5.2.1)."""

from __future__ import annotations

import re
from collections.abc import Mapping

# Ten digits are centuries. Longer numbers are ignored, since Python refuses to convert thousands of digits.
_DIRECTIVE = re.compile(r'([a-z-]+)(?:="?([0-9]{1,10})"?)?', re.IGNORECASE)
_REVALIDATES = ("no-cache", "no-store")


def max_age_s(headers: Mapping[str, str]) -> int | None:
    """Return the maximum age that a request accepts [s] (0: revalidate), or None if the reader's own limit applies.

    Args:
        headers: Headers of the request, names in lower case.
    """
    if not (text := headers.get("cache-control", "")):
        return None
    limits = []
    for directive in text.split(","):
        if (match := _DIRECTIVE.fullmatch(directive.strip())) is not None:
            name, value = match[1].lower(), match[2]
            if name in _REVALIDATES:
                limits.append(0)
            elif name == "max-age" and value:
                limits.append(int(value))
    return min(limits, default=None)
