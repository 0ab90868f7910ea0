"""Repairs to what moto never forgets."""

from __future__ import annotations

from typing import Any

from burstcache_local.moto.registry import repair


@repair
def models_are_forgotten() -> None:
    """moto keeps every object of every model, each version of each DynamoDB item too, to show it on its dashboard."""
    from moto.core.common_models import BaseModel

    def new(cls: Any, *args: Any, **kwargs: Any) -> Any:
        return object.__new__(cls)

    BaseModel.__new__ = new
