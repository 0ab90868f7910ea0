"""Values that name the version they were written as, so that an answer can be checked byte for byte."""

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
    """Return a key's value of a version: a line with both, then bytes in an order that depends on the version."""
    line = f"{key} {version} {size_bytes}\n".encode()
    shift = random.Random(f"{key} {version}").randrange(_SHIFTS)
    noise = _NOISE[shift:] + _NOISE[:shift]
    return (line + noise * (1 + size_bytes // len(noise)))[: max(size_bytes, len(line))]


def version_in(value: bytes) -> tuple[str, int, int]:
    """Return key, version and size from a value's first line, or raise ValueError."""
    key, version, size_bytes = value.partition(b"\n")[0].decode("ascii").rsplit(" ", 2)
    return key, int(version), int(size_bytes)


class Versions:
    """Counter of the versions written to some keys, from 0 or from earlier writes on. Thread-safe."""

    def __init__(self, sizes_bytes: dict[str, int], newest: Mapping[str, int] = MappingProxyType({})) -> None:
        self.sizes_bytes = sizes_bytes
        self._newest = {**dict.fromkeys(sizes_bytes, 0), **newest}
        self._lock = threading.Lock()

    def begin(self, key: str) -> tuple[int, bytes]:
        """Return version and value of the next write. Readers may see it from now on, even if the write fails."""
        with self._lock:
            self._newest[key] += 1
            version = self._newest[key]
        return version, value_of(key, version, self.sizes_bytes[key])

    def value(self, key: str, version: int = 0) -> bytes:
        """Return a key's value of a version."""
        return value_of(key, version, self.sizes_bytes[key])

    def problem(self, key: str, value: bytes) -> str:
        """Return the problem with an answer that no started write produced, or an empty string."""
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
