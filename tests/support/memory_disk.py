"""Memory disk: slices of a reader in a dictionary."""

from __future__ import annotations

from collections.abc import Callable


class MemoryDisk:
    """Slices in a dictionary.

    Attributes:
        cold: Names of slices that take a wait.
    """

    def __init__(self) -> None:
        self.bodies: dict[str, bytes] = {}
        self.cold: set[str] = set()

    def has(self, name: str) -> bool:
        return name in self.bodies

    def read(self, name: str) -> bytes | None:
        return self.bodies.get(name)

    def read_halves(
        self, name: str, split: Callable[[bytes], int], *, waits: bool = True
    ) -> tuple[bytes, bytes] | None:
        body = self.bodies.get(name) if waits or name not in self.cold else None
        return None if body is None else (body[: split(body)], body[split(body) :])

    def read_begin(self, name: str, split: Callable[[bytes], int]) -> bytes | None:
        halves = self.read_halves(name, split, waits=False)
        return None if halves is None else halves[0]

    def read_into(self, name: str, start: int, into: memoryview, *, prefix: bytes = b"", waits: bool = True) -> bool:
        body = self.bodies.get(name) if waits or name not in self.cold else None
        if body is not None and body.startswith(prefix):
            into[:] = body[start : start + len(into)]
            return True
        return False

    def write(self, name: str, body: bytes | memoryview, *, replaces: bool = False) -> bool:
        self.bodies[name] = bytes(body)
        return True
