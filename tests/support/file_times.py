"""File times: waits for the clock of a file system, whose ticks are coarser than the system's clock."""

from __future__ import annotations

from pathlib import Path

from support.waiting import until


def await_tick(path: Path) -> None:
    """Wait until the file system's clock is past the last change of a directory."""
    probe = path.parent / "probe"

    def is_past() -> bool:
        probe.unlink(missing_ok=True)
        probe.touch()
        return probe.stat().st_mtime_ns > path.stat().st_ctime_ns

    until(is_past)
