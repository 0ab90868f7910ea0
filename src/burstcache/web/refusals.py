"""Requests that the proxy itself refuses."""

from __future__ import annotations

from collections.abc import Mapping

from burstcache.core.errors import BurstcacheError


class RefusedRequestError(BurstcacheError):
    """The client's request is refused with a 4xx that names what is wrong and what is accepted."""

    def __init__(self, status: int, code: str, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.headers = dict(headers or {})
