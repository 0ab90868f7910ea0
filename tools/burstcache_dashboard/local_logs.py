"""Figures for a local run, read incrementally from the run's logs."""

from __future__ import annotations

import json
import re
import threading
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import takewhile
from pathlib import Path
from urllib.parse import parse_qs, unquote

from burstcache import metrics
from burstcache.adapters.clock import Clock
from burstcache_dashboard.measured import FunctionUse, Latencies, Measured, Read, Slots, TierUse
from burstcache_local.emf import Sample, samples
from burstcache_local.front.access_log import FILE

_SLOT_S, _SLOTS = 2, 450  # 15 min in total
_MOST_REQUESTS = 200_000  # latest requests to keep for other systems' bills and for key pages
_MOST_BYTES = 16_000_000  # bytes to read from a file at a time
_REPORT = re.compile(r"^REPORT .*\tBilled Duration: (\d+) ms\tMemory Size: (\d+) MB(.*)", re.MULTILINE)
_TIME = re.compile(r"\tTime: (\S+)")
_LOGICAL_ID = re.compile(r".*-(\w+)-[0-9A-F]{12}")  # in a function's name, which is also the log's name


class LocalLogs:
    """A source of figures from a run's logs, without reads through the client library. Thread-safe."""

    def __init__(self, folder: Path, clock: Clock, *, since_us: int) -> None:
        """Begin at the start of the logs.

        Args:
            folder: Folder of the run's logs.
            clock: The run's clock.
            since_us: Start of the run, since 1970 [us].
        """
        self._folder, self._offsets = folder, dict[Path, int]()
        self._clock, self._lock = clock, threading.Lock()
        self._since_us = since_us
        self._latencies: defaultdict[str, Latencies] = defaultdict(Latencies)
        self._bytes: Counter[str] = Counter()
        self._requests: deque[tuple[str, Read]] = deque(maxlen=_MOST_REQUESTS)
        self._slots = Slots(_SLOT_S, _SLOTS)
        self._failed = self._promotions = self._busy_s = self._newest_s = 0
        self._failed_at_s = 0
        self._fallbacks: Counter[str] = Counter()
        self._fell_back_at_s: dict[str, int] = {}
        self._lives: Counter[str] = Counter()
        self._node_s = 0.0
        self._functions: dict[str, FunctionUse] = {}

    def read(self) -> Measured:
        """Read new lines from all logs, and return the figures."""
        with self._lock:
            now_us = self._clock.now_us()
            self._follow_requests()
            for path in sorted(self._folder.glob("*.log")):
                self._follow_function(path)
            return self._measured(now_us)

    def reads_of(self, key: str) -> Iterable[Read]:
        """Return the latest reads of a key, oldest first."""
        with self._lock:
            return [read for of, read in self._requests if of == key]

    def keys_read_since(self, at_ms: int) -> set[str]:
        """Return the keys with a response at or after a time."""
        # Lines are ordered by response, not by request.
        with self._lock:
            newest = takewhile(lambda request: request[1].answered_ms >= at_ms, reversed(self._requests))
            return {key for key, _ in newest}

    def newest_requests(self) -> list[tuple[int, str, int]]:
        """Return time [us], key and size [bytes] of the latest successful reads of all keys."""
        with self._lock:
            return [(read.at_ms * 1000, key, read.size_bytes) for key, read in self._requests if read.status < 400]

    def _measured(self, now_us: int) -> Measured:
        oldest_s = now_us // 1_000_000 - _SLOT_S * _SLOTS
        return Measured(
            since_us=self._since_us,
            until_us=now_us,
            tiers={tier: self._use(tier) for tier in self._latencies},
            failed_reads=self._failed,
            fallbacks=dict(self._fallbacks),
            lives=dict(self._lives),
            promotions=self._promotions,
            node_s=self._node_s,
            functions=dict(self._functions),
            series=tuple((start, dict(counts)) for start, counts in self._slots if start >= oldest_s),
            slot_s=_SLOT_S,
            busy_s=self._busy_s,
            failed_read_at_s=self._failed_at_s,
            fell_back_at_s=dict(self._fell_back_at_s),
        )

    def _use(self, tier: str) -> TierUse:
        latencies = self._latencies[tier]
        mean_ms = latencies.total_ms / latencies.count if latencies.count else None
        p50, p90, p99 = (latencies.percentile_ms(share) for share in (0.5, 0.9, 0.99))
        return TierUse(latencies.count, self._bytes[tier], mean_ms, p50, p90, p99)

    def _follow_requests(self) -> None:
        # Not `splitlines`, which also splits at other characters that keys may contain.
        for line in filter(None, self._new_text(self._folder / FILE).split("\n")):
            entry = json.loads(line)
            if entry["method"] != "GET" or not (key := _key(entry["path"], entry["query"])):
                continue
            status, tier = entry["status"], entry["tier"] or "s3"
            read = Read(entry["at"], tier, entry["latency_ms"], entry["bytes"], status)
            self._requests.append((key, read))
            if status >= 500:
                self._failed += 1
                self._failed_at_s = max(self._failed_at_s, read.at_ms // 1000)
            elif status < 400:
                self._latencies[tier].add(read.latency_ms)
                self._bytes[tier] += read.size_bytes
                self._slots.add(read.at_ms / 1000, tier)
                if (at_s := read.at_ms // 1000) > self._newest_s:
                    self._busy_s, self._newest_s = self._busy_s + 1, at_s

    def _follow_function(self, path: Path) -> None:
        text = self._new_text(path)
        if not text or not (match := _LOGICAL_ID.fullmatch(path.stem)):
            return
        name = match[1]
        for sample in samples(text):
            self._count(sample)
        for billed_ms, memory_mb, rest in _REPORT.findall(text):
            former = self._functions.get(name, FunctionUse(0, 0, 0))
            is_failed, at = "\tStatus: error" in rest, _TIME.search(rest)
            self._functions[name] = FunctionUse(
                invocations=former.invocations + 1,
                billed_ms=former.billed_ms + int(billed_ms),
                memory_mb=int(memory_mb),
                errors=former.errors + is_failed,
                failed_at_s=round(datetime.fromisoformat(at[1]).timestamp())
                if is_failed and at
                else former.failed_at_s,
            )

    def _count(self, sample: Sample) -> None:
        name, dimensions = sample.metric.name, dict(sample.metric.dimensions)
        if name == metrics.FALLBACKS.name:
            reason, at_s = dimensions[metrics.FALLBACKS.dimension], sample.at_ms // 1000
            self._fallbacks[reason] += round(sample.value)
            self._fell_back_at_s[reason] = max(self._fell_back_at_s.get(reason, 0), at_s)
        elif name == metrics.LIVES.name:
            self._lives[dimensions[metrics.LIVES.dimension]] += round(sample.value)
        elif name == metrics.PROMOTIONS.name:
            self._promotions += round(sample.value)
        elif name == metrics.NODE_SECONDS.name:
            self._node_s += sample.value

    def _new_text(self, path: Path) -> str:
        """Return the complete lines appended to a file since the last read."""
        return "".join(self._new_pieces(path))

    def _new_pieces(self, path: Path) -> Iterator[str]:
        offset = self._offsets.get(path, 0)
        try:
            if path.stat().st_size <= offset:
                return
            with path.open("rb") as log:
                log.seek(offset)
                while piece := log.read(_MOST_BYTES):
                    complete, newline, _ = piece.rpartition(b"\n")
                    if not newline:
                        return
                    offset += len(complete) + 1
                    self._offsets[path] = offset
                    log.seek(offset)
                    yield complete.decode(errors="replace") + "\n"
        except FileNotFoundError:  # the run has not begun to log, or has ended
            return


def _key(path: str, query: str) -> str:
    """Return the key of a request, or an empty string if the request has no key."""
    if path.startswith("/objects/"):
        return unquote(path.removeprefix("/objects/"))
    return parse_qs(query).get("key", [""])[0] if path == "/objects" else ""
