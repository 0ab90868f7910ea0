"""What a program takes as time goes by: does it grow?"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_SLACK = {"processes": 2, "memory_mb": 20, "each_mb": 2, "sockets": 20, "files": 20, "rows": 20}
_SHARE = 1.05  # by how much more a figure may be at the end


@dataclass(frozen=True, slots=True)
class Sample:
    """What a process and its descendants take at one moment; `rows` are those of its table.

    Memory is the proportional share, in which pages in common count once. What all take together depends on how many
    there are, and one more of them takes more than a leak.
    """

    at_s: float
    processes: int
    memory_mb: float  # of the process itself
    each_mb: float  # the mean of its descendants
    sockets: int
    files: int
    rows: int


def sample(process_id: int, at_s: float, rows: int) -> Sample:
    """Look at a process and its descendants."""
    members = family(process_id)
    opened = [_open(member) for member in members]
    own_mb, *others_mb = (_memory_kb(member) / 1024 for member in members)
    each_mb = sum(others_mb) / max(1, len(others_mb))
    return Sample(at_s, len(members), own_mb, each_mb, sum(s for s, _ in opened), sum(f for _, f in opened), rows)


def quarters(samples: Sequence[Sample]) -> dict[str, tuple[float, float]]:
    """Return the least of each figure in the second and in the last quarter; the first one is the warm-up.

    What something takes for a while and gives back is no growth, so the least counts: a leak raises that, too.

    Raises:
        ValueError: There are too few samples for quarters.
    """
    quarter = len(samples) // 4
    if not quarter:
        raise ValueError(f"{len(samples)} samples: expected at least 4")
    early, late = samples[quarter : 2 * quarter], samples[-quarter:]
    return {name: (_least(early, name), _least(late, name)) for name in _SLACK}


def growths(samples: Sequence[Sample]) -> list[str]:
    """Return the quantities that have grown from the second quarter to the last. Raises as `quarters` does."""
    return [
        f"{name} grew from {before:.1f} to {after:.1f}"
        for name, (before, after) in quarters(samples).items()
        if after > before * _SHARE + _SLACK[name]
    ]


def _least(samples: Sequence[Sample], name: str) -> float:
    return float(min(getattr(each, name) for each in samples))


def family(process_id: int) -> list[int]:
    """Return a process and all its descendants."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            children.setdefault(parent, []).append(int(entry.name))
    found, open_ = [], [process_id]
    while open_:
        found.append(open_.pop())
        open_ += children.get(found[-1], [])
    return found


def _memory_kb(process_id: int) -> int:
    """Return the proportional share of memory: shared pages count once."""
    try:
        rollup = Path(f"/proc/{process_id}/smaps_rollup").read_text()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:"))


def _open(process_id: int) -> tuple[int, int]:
    """Return the numbers of sockets and of other files that a process has open."""
    sockets = files = 0
    with contextlib.suppress(OSError):  # the process has ended
        for descriptor in Path(f"/proc/{process_id}/fd").iterdir():
            with contextlib.suppress(OSError):
                is_socket = descriptor.readlink().name.startswith("socket:")
                sockets, files = sockets + is_socket, files + (not is_socket)
    return sockets, files
