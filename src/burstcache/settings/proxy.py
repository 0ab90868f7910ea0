"""The proxy's settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from burstcache.settings.environment import given, is_true, whole
from burstcache.settings.reader import ReaderSettings


@dataclass(frozen=True)
class ProxySettings(ReaderSettings):
    """The settings of the proxy: a reader's, and what its memory may do."""

    memory_mb: Annotated[int, whole, "MEMORY_MB"]
    max_stale_ms: Annotated[int, whole, "MAX_STALE_MS"]
    prefixes: Annotated[str, given, "JWT_PREFIXES"]  # `web.prefixes`: what tokens give a right to; empty: to all keys
    takes_writes: Annotated[bool, is_true, "TAKES_WRITES"]  # the front door does, by another function
