"""Values that say which write they are of: each answer can be held byte for byte against all that were written."""

from __future__ import annotations

import random
import threading
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType

_SHIFTS = 256
_NOISE = random.Random("noise").randbytes(1 << 16)


@lru_cache(maxsize=512)
def value_of(key: str, version: int, size_bytes: int) -> bytes:
    """Return a key's value of a version: a line with both, then bytes that no other version has in these places."""
    line = f"{key} {version} {size_bytes}\n".encode()
    shift = random.Random(f"{key} {version}").randrange(_SHIFTS)
    noise = _NOISE[shift:] + _NOISE[:shift]
    return (line + noise * (1 + size_bytes // len(noise)))[: max(size_bytes, len(line))]


def version_in(value: bytes) -> tuple[str, int, int]:
    """Return key, version and size as a value's first line has them, or raise ValueError."""
    key, version, size_bytes = value.partition(b"\n")[0].decode("ascii").rsplit(" ", 2)
    return key, int(version), int(size_bytes)


class Versions:
    """The writes to some keys, from version 0 or the newest one of earlier writes on. Thread-safe."""

    def __init__(self, sizes_bytes: dict[str, int], newest: Mapping[str, int] = MappingProxyType({})) -> None:
        self.sizes_bytes = sizes_bytes
        self._newest = {**dict.fromkeys(sizes_bytes, 0), **newest}
        self._lock = threading.Lock()

    def begin(self, key: str) -> tuple[int, bytes]:
        """Return number and value of the next write, which from now on a reader may see, whatever becomes of it."""
        with self._lock:
            self._newest[key] += 1
            version = self._newest[key]
        return version, value_of(key, version, self.sizes_bytes[key])

    def value(self, key: str, version: int = 0) -> bytes:
        """Return a value."""
        return value_of(key, version, self.sizes_bytes[key])

    def problem(self, key: str, value: bytes) -> str:
        """Return what is wrong with an answer: it is of no write that has begun; empty if it is of one."""
        try:
            named, version, _ = version_in(value)
        except ValueError:
            return f"wrong: no value of any key, {value[:40]!r}"
        if named != key:
            return f"wrong: the value of {named}"
        if not 0 <= version <= self._newest[key]:
            return f"wrong: version {version}, of which {self._newest[key]} is the newest"
        if value != value_of(key, version, self.sizes_bytes[key]):
            return f"wrong: not the bytes of version {version}"
        return ""
