"""Settings of a pool reader."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from burstcache.settings.environment import Settings, is_yes, text, whole_number


@dataclass(frozen=True)
class PoolAccess(Settings):
    """Environment of a program that reads through the pool."""

    member_function_name: Annotated[str, text, "POOL_MEMBER_FUNCTION_NAME"]
    control_function_name: Annotated[str, text, "POOL_CONTROL_FUNCTION_NAME"]
    demands_tls: Annotated[bool, is_yes, "POOL_TLS"]
    memory_mb: Annotated[int, whole_number, "POOL_MEMORY_MB"]
    hub: Annotated[str, text, "POOL_HUB"]  # none: in the program itself. fargate: remote
