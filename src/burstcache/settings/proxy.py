"""The proxy's settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from burstcache.settings.environment import is_true, text_or_empty, whole_number
from burstcache.settings.reader import ReaderSettings


@dataclass(frozen=True)
class ProxySettings(ReaderSettings):
    """Environment of the proxy: a reader's, plus limits of the local cache and rules of the front door."""

    memory_mb: Annotated[int, whole_number, "MEMORY_MB"]
    max_stale_ms: Annotated[int, whole_number, "MAX_STALE_MS"]
    prefixes: Annotated[str, text_or_empty, "JWT_PREFIXES"]  # keys that tokens permit (`web.prefixes`); empty means all
    takes_writes: Annotated[bool, is_true, "TAKES_WRITES"]  # the front door routes writes to another function
