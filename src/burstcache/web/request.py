"""One read, as every tier understands it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from burstcache.web.ranges import ByteRange


@dataclass(frozen=True, slots=True)
class Request:
    """A GET or HEAD of one object.

    `headers` are the client's, names in lower case. `range` is the requested part, None for the whole object.
    """

    method: str
    key: str
    hash: str
    headers: Mapping[str, str]
    range: ByteRange | None
    request_id: str
    at_us: int
