"""Patches that repair moto's memory leaks."""

from __future__ import annotations

from typing import Any

from burstcache_local.moto.registry import repair


@repair
def models_are_forgotten() -> None:
    """Stop tracking model objects. moto keeps all model objects for its dashboard, even every version of an item."""
    from moto.core.common_models import BaseModel

    def new(cls: Any, *args: Any, **kwargs: Any) -> Any:
        return object.__new__(cls)

    BaseModel.__new__ = new
