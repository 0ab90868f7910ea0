"""The budget function's settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from burstcache.settings.environment import Settings, text


@dataclass(frozen=True)
class BudgetSettings(Settings):
    """Environment of the budget function."""

    table_name: Annotated[str, text, "TABLE_NAME"]
