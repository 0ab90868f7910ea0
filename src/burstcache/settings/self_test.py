"""The self-test's settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from burstcache.settings.environment import Settings, names


@dataclass(frozen=True)
class SelfTestSettings(Settings):
    """Environment of the self-test."""

    functions: Annotated[tuple[str, ...], names, "FUNCTIONS"]  # callers before callees
