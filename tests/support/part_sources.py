"""Part sources for tests of slices: the tiers below memory and disk, whose answers arrive piece by piece."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from burstcache.core.slices import Version


class MemoryPartSource:
    """A `PartSource` of one object in memory.

    Attributes:
        requested: Start and end of each requested part.
    """

    tier = "s3"

    def __init__(self) -> None:
        self.requested: list[tuple[int, int]] = []

    def body(self, version: Version) -> bytes:
        """Return the bytes of a version, or raise what S3 raises."""
        raise NotImplementedError

    def await_bytes(self, end: int) -> None:
        """Called before the bytes up to an offset in the object arrive. May block, and may raise what S3 raises."""

    def check_usable(self, version: Version) -> None:
        """Accept all versions."""

    def read(
        self,
        version: Version,
        start: int,
        into: memoryview,
        stops: Sequence[int],
        reached: Callable[[int, str], object],
    ) -> None:
        """Read a part as `PartSource.read` does."""
        self.requested.append((start, start + len(into)))
        body, done = self.body(version), 0
        for stop in stops:
            self.await_bytes(start + stop)
            into[done:stop] = body[start + done : start + stop]
            done = stop
            reached(stop, self.tier)

    def close(self) -> None:
        """Do nothing."""
