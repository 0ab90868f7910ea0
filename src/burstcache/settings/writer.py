"""The writer's settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from burstcache.settings.environment import Settings, text, text_or_empty


@dataclass(frozen=True)
class WriterSettings(Settings):
    """Environment of the writer."""

    bucket_name: Annotated[str, text, "BUCKET_NAME"]
    origin_prefix: Annotated[str, text_or_empty, "ORIGIN_PREFIX"]  # prefix of all keys; empty means the whole bucket
    origin_function_name: Annotated[str, text, "ORIGIN_FUNCTION_NAME"]
    prefixes: Annotated[str, text_or_empty, "JWT_PREFIXES"]  # as for the proxy; empty if requests are signed
