"""A steady load on the local run: do processes, memory or connections grow? Exit code 1 if they do, or if a GET fails.

python -m benchmarks.soak [MINUTES]     (20 by default, 50 requests a second)
"""

from __future__ import annotations

import sys
import threading
import time
from dataclasses import astuple, dataclass
from pathlib import Path

from benchmarks.common import Getter, Setup, environment, quantiles, running_cloud

_PER_S, _CLIENTS, _KEYS, _SAMPLE_EVERY_S = 50, 5, 20, 30
# Keys come and go: in each round another half of them is requested, long enough to reach Redis, then left alone.
_ROUND_S = 60
_SETUP = Setup(
    "tick_s=3,lambda_threshold_s=3,redis_utilization_s=10,redis_check_s=5", boot_s=3, stop_s=2, max_hot_keys=_KEYS
)
SETUPS = (_SETUP,)


@dataclass(frozen=True, slots=True)
class Sample:
    """What the local run takes at one moment."""

    at_s: float
    processes: int
    memory_mb: float
    sockets: int


def main() -> int:
    """Run the soak; return the exit code."""
    minutes = float(sys.argv[1]) if len(sys.argv) > 1 else 20
    print(environment())
    with running_cloud(_SETUP) as cloud:
        for i in range(_KEYS):
            cloud.put(f"key-{i}", b"x" * 10_000)
        stop_at_s = time.monotonic() + minutes * 60
        latencies_ms: list[float] = []
        failures: list[str] = []
        clients = [
            threading.Thread(target=_load, args=(cloud.url, i, stop_at_s, latencies_ms, failures))
            for i in range(_CLIENTS)
        ]
        for client in clients:
            client.start()
        samples = _watch(cloud.process_id, stop_at_s)
        for client in clients:
            client.join()
        growths = _growths(samples)
    print(f"{len(latencies_ms)} GETs in {minutes:g} min, {quantiles(latencies_ms)} ms, {len(failures)} failed")
    for problem in (*growths, *failures[:3]):
        print(f"FAILED: {problem}")
    return 1 if growths or failures else 0


def _load(url: str, client: int, stop_at_s: float, latencies_ms: list[float], failures: list[str]) -> None:
    getter, due_s, i = Getter(url), time.monotonic(), client
    while due_s < stop_at_s:
        half = int(due_s // _ROUND_S) % 2 * (_KEYS // 2)
        i += 1
        status, _, body, latency_ms = getter.get(f"key-{half + i % (_KEYS // 2)}")
        latencies_ms.append(latency_ms)
        if status != 200 or len(body) != 10_000:
            failures.append(f"status {status}, {len(body)} bytes")
        due_s += _CLIENTS / _PER_S
        time.sleep(max(0.0, due_s - time.monotonic()))


def _watch(process_id: int, stop_at_s: float) -> list[Sample]:
    began_s, samples = time.monotonic(), []
    print(f"{'time':>8} {'processes':>10} {'memory':>10} {'sockets':>8}")
    while time.monotonic() < stop_at_s:
        time.sleep(min(_SAMPLE_EVERY_S, max(0.1, stop_at_s - time.monotonic())))
        sample = _sample(process_id, time.monotonic() - began_s)
        samples.append(sample)
        print("{:7.0f}s {:10d} {:7.0f} MB {:8d}".format(*astuple(sample)), flush=True)
    return samples


def _sample(process_id: int, at_s: float) -> Sample:
    members = family(process_id)
    memory_kb = sum(_memory_kb(process) for process in members)
    sockets = sum(_sockets(process) for process in members)
    return Sample(at_s, len(members), memory_kb / 1024, sockets)


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


def _sockets(process_id: int) -> int:
    count = 0
    try:
        for descriptor in Path(f"/proc/{process_id}/fd").iterdir():
            try:
                count += descriptor.readlink().name.startswith("socket:")
            except OSError:
                continue
    except OSError:
        pass
    return count


def _growths(samples: list[Sample]) -> list[str]:
    """Compare the second quarter with the last; the first one is the warm-up."""
    quarter = len(samples) // 4
    early, late = samples[quarter : 2 * quarter], samples[-quarter:]
    growths = []
    for name, slack in (("processes", 2), ("memory_mb", 50), ("sockets", 20)):
        before, after = (sum(getattr(s, name) for s in part) / max(1, len(part)) for part in (early, late))
        print(f"{name}: {before:.1f} in the second quarter, {after:.1f} in the last")
        if after > before * 1.05 + slack:
            growths.append(f"{name} grew from {before:.1f} to {after:.1f}")
    return growths


if __name__ == "__main__":
    sys.exit(main())
