"""The writer's settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from burstcache.settings.environment import Settings, given, text


@dataclass(frozen=True)
class WriterSettings(Settings):
    """The settings of the writer."""

    bucket_name: Annotated[str, text, "BUCKET_NAME"]
    origin_prefix: Annotated[str, given, "ORIGIN_PREFIX"]  # of all keys that are written; empty: the whole bucket is
    origin_function_name: Annotated[str, text, "ORIGIN_FUNCTION_NAME"]
    prefixes: Annotated[str, given, "JWT_PREFIXES"]  # as the proxy's; empty where a signature gives the right
