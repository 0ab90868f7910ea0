"""HTTP load by wrk: a fixed request again and again, or many in order, and what the server's processors took for it.

wrk runs on a processor of its own, so that it and the server take no time from each other.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.support.growth import family

SERVER_CORE, LOAD_CORE = 0, 1
_LIMIT_S = 60.0  # above the duration, before a load that does not end fails
_TIMEOUT_S = 30  # of one request
_DONE = """
function done(summary, latency)
  local errors = summary.errors
  io.write(string.format(
    '\\n{"requests": %d, "bytes": %d, "lasted_us": %d, "p50_us": %d, "p99_us": %d, "failed": %d}\\n',
    summary.requests, summary.bytes, summary.duration, latency:percentile(50), latency:percentile(99),
    errors.connect + errors.read + errors.write + errors.status + errors.timeout))
end
"""
_IN_ORDER = """
local requests, place = {}, 0
function init(arguments)
  local file = io.open(arguments[1], "rb")
  for each in file:read("*a"):gmatch("[^%z]+") do requests[#requests + 1] = each end
  file:close()
end
function request()
  place = place % #requests + 1
  return requests[place]
end
"""


@dataclass(frozen=True, slots=True)
class Request:
    """A GET with all of its headers; the path may have a query."""

    path: str
    headers: Mapping[str, str]

    def encoded(self) -> bytes:
        """Return the bytes that a client sends."""
        lines = [f"GET {self.path} HTTP/1.1", *(f"{name}: {value}" for name, value in self.headers.items()), "", ""]
        return "\r\n".join(lines).encode("ascii")


@dataclass(frozen=True, slots=True)
class LoadFigures:
    """Figures of one load.

    Attributes:
        cpu_us: Processor time of the server per request, user and system [us].
    """

    requests: int
    per_s: float
    p50_us: float
    p99_us: float
    cpu_us: float


class LoadFailedError(Exception):
    """wrk failed, or the server refused requests."""


def has_wrk() -> bool:
    """Return True if wrk is installed."""
    return shutil.which("wrk") is not None


def pinned(core: int, command: Sequence[str]) -> list[str]:
    """Return a command that runs on one processor, if the machine has it."""
    if core not in os.sched_getaffinity(0) or shutil.which("taskset") is None:
        return list(command)
    return ["taskset", "-c", str(core), *command]


def processor_s(process_id: int) -> float:
    """Return the processor time of a process and its descendants so far [s]."""
    ticks = 0
    for each in family(process_id):
        try:
            fields = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def run_load(
    url: str, requests: Sequence[Request], *, process_id: int, connections: int, duration_s: int
) -> LoadFigures:
    """Send requests over and over on each connection, one after another.

    Args:
        url: The server's scheme, host and port.
        requests: One request, or several that take turns.
        process_id: The server's process, whose descendants count as well.
        connections: Connections, each of which waits for its response.
        duration_s: How long [s].

    Raises:
        LoadFailedError: wrk failed, or a request did.
    """
    with tempfile.TemporaryDirectory(prefix="load-") as folder:
        script, in_order = Path(folder) / "load.lua", Path(folder) / "requests"
        first, is_fixed = requests[0], len(requests) == 1
        script.write_text(_DONE if is_fixed else _DONE + _IN_ORDER)
        in_order.write_bytes(b"\0".join(request.encoded() for request in requests))
        command = ["wrk", "-t1", f"-c{connections}", f"-d{duration_s}s", "--timeout", f"{_TIMEOUT_S}s", "-s", script]
        if is_fixed:
            for name, value in first.headers.items():
                command += ["-H", f"{name}: {value}"]
        command += [url + first.path, "--", in_order]
        began_s = processor_s(process_id)
        done = subprocess.run(
            pinned(LOAD_CORE, [str(each) for each in command]),
            capture_output=True,
            text=True,
            timeout=duration_s + _LIMIT_S,
            check=False,
        )
        took_s = processor_s(process_id) - began_s
    return _figures(done, took_s)


def _figures(done: subprocess.CompletedProcess[str], took_s: float) -> LoadFigures:
    try:
        figures = json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        raise LoadFailedError(f"wrk: {done.stdout} {done.stderr}") from None
    if figures["failed"] or not figures["requests"]:
        raise LoadFailedError(f"{figures['failed']} of {figures['requests']} requests failed")
    count = figures["requests"]
    return LoadFigures(
        count, count / figures["lasted_us"] * 1e6, figures["p50_us"], figures["p99_us"], took_s / count * 1e6
    )
