"""How fresh a client's answers are, and what it keeps."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Literal, TypedDict

from burstcache.core.errors import InvalidSettingError
from burstcache.serve.own_copies import IMMUTABLE_S, STRONG_S

MEMORY_BYTES = 64 << 20
MAX_STALE_MS = 2000

Freshness = Literal["bounded", "strong", "immutable"]
_STALE_S = {"strong": STRONG_S, "immutable": IMMUTABLE_S}


def is_number(value: object) -> bool:
    """Whether an argument is a number, numpy's included, and no truth value."""
    return isinstance(value, Real) and not isinstance(value, bool)


class Keeping(TypedDict, total=False):
    """How fresh a client's answers are, and what it keeps: arguments of `Client`."""

    freshness: Freshness
    max_stale_ms: int
    memory_bytes: int


@dataclass(frozen=True)
class Bounds:
    """What memory takes, and how old its answers may be."""

    memory_bytes: int
    max_stale_s: float

    @classmethod
    def of(
        cls,
        freshness: Freshness = "bounded",
        max_stale_ms: int = MAX_STALE_MS,
        memory_bytes: int = MEMORY_BYTES,
    ) -> Bounds:
        """Return what the arguments of `Client` mean, or raise InvalidSettingError."""
        if freshness not in ("bounded", *_STALE_S):
            raise InvalidSettingError(f"freshness={freshness!r}; accepted: bounded, strong, immutable")
        if not (is_number(max_stale_ms) and max_stale_ms > 0):
            raise InvalidSettingError(f"max_stale_ms={max_stale_ms!r}; accepted: above 0 (freshness='strong' asks S3)")
        if not (is_number(memory_bytes) and memory_bytes >= 0):
            raise InvalidSettingError(f"memory_bytes={memory_bytes!r}; accepted: 0 (keep nothing) or more")
        return cls(memory_bytes, _STALE_S.get(freshness, max_stale_ms / 1000))
