"""A read request, as passed to every tier."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from burstcache.web.ranges import ByteRange


@dataclass(frozen=True, slots=True)
class Request:
    """A GET or HEAD of one object.

    `headers` have lower-case names. `range` is None for the whole object.
    """

    method: str
    key: str
    hash: str
    headers: Mapping[str, str]
    range: ByteRange | None
    request_id: str
    at_us: int
