"""The bounds of a client: the staleness of its objects, and the sizes of its caches in memory and on disk."""

from __future__ import annotations

import os
from dataclasses import dataclass
from numbers import Real
from typing import Literal, TypedDict

from burstcache.core.errors import InvalidSettingError, WrongTypeError
from burstcache.serve.local_cache import IMMUTABLE_S, STRONG_S

MEMORY_BYTES = 64 << 20
MAX_STALE_MS = 2000
DISK_BYTES = 10 << 30
DISK_VARIABLE, DISK_BYTES_VARIABLE = "BURSTCACHE_DISK", "BURSTCACHE_DISK_BYTES"

Freshness = Literal["bounded", "strong", "immutable"]
_STALE_S = {"strong": STRONG_S, "immutable": IMMUTABLE_S}


def is_number(value: object) -> bool:
    """Return True for a number, including numpy's, but not for a bool."""
    return isinstance(value, Real) and not isinstance(value, bool)


class BoundArguments(TypedDict, total=False):
    """The arguments of `Client` for staleness, memory and disk."""

    freshness: Freshness
    max_stale_ms: int
    memory_bytes: int
    disk: str | os.PathLike[str] | None
    disk_bytes: int | None


@dataclass(frozen=True)
class Bounds:
    """The sizes of a client's caches [bytes], and the maximum staleness of its objects [s].

    `disk` is the directory of slices. Empty: none.
    """

    memory_bytes: int
    max_stale_s: float
    disk: str = ""
    disk_bytes: int = DISK_BYTES

    @classmethod
    def of(
        cls,
        freshness: Freshness = "bounded",
        max_stale_ms: int = MAX_STALE_MS,
        memory_bytes: int = MEMORY_BYTES,
        disk: str | os.PathLike[str] | None = None,
        disk_bytes: int | None = None,
    ) -> Bounds:
        """Convert the arguments of `Client` to bounds. Without `disk`, the environment's variables apply.

        Raises:
            InvalidSettingError: An argument has an invalid value.
        """
        if freshness not in ("bounded", *_STALE_S):
            raise InvalidSettingError(f"freshness={freshness!r}; accepted: bounded, strong, immutable")
        if not (is_number(max_stale_ms) and max_stale_ms > 0):
            raise InvalidSettingError(f"max_stale_ms={max_stale_ms!r}; accepted: above 0 (freshness='strong' asks S3)")
        if not (is_number(memory_bytes) and memory_bytes >= 0):
            raise InvalidSettingError(f"memory_bytes={memory_bytes!r}; accepted: 0 (keep nothing) or more")
        if disk is not None and not isinstance(disk, str | os.PathLike):
            raise WrongTypeError.of("disk", disk, "str or Path of a directory")
        directory = os.environ.get(DISK_VARIABLE, "") if disk is None else os.fspath(disk)
        if disk_bytes is None:
            disk_bytes = _bytes_in_environment()
        if not (is_number(disk_bytes) and disk_bytes > 0):
            raise InvalidSettingError(f"disk_bytes={disk_bytes!r}; accepted: above 0")
        return cls(memory_bytes, _STALE_S.get(freshness, max_stale_ms / 1000), directory, int(disk_bytes))


def _bytes_in_environment() -> int:
    text = os.environ.get(DISK_BYTES_VARIABLE, "") or str(DISK_BYTES)
    if not text.isdecimal():
        raise InvalidSettingError(f"{DISK_BYTES_VARIABLE}={text!r}; accepted: a number of bytes")
    return int(text)
