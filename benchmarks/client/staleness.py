"""How long after a write readers see it."""

from __future__ import annotations

import itertools
import random
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial

from benchmarks.client.common import LIMIT_S, MEMORY_BYTES, SETUP_OF, open_readers, print_rows, print_table
from benchmarks.client.heat import digest_of, heat_all, put_all
from benchmarks.hits import running_cloud
from benchmarks.support.common import PROJECT
from burstcache.client import Client
from burstcache.core.digest import Digest, prefix_of
from burstcache.core.keys import key_hash

_POLL_S = 0.002  # between two looks at the keys that were written


def staleness(*, writes: int, keys: int = 20) -> None:
    """Print how long after a write to the bucket was acknowledged a reader that asks without pause sees it."""
    print("\n## Staleness after a write to the bucket\n")
    titles = ["tier", "writes", "p50 ms", "p99 ms", "longest ms", "event p50 ms", "event longest ms", "old by the tier"]
    print_table(titles, ())
    names = [f"key-{number}" for number in range(keys)]
    for tier, setup in SETUP_OF.items():
        seen: list[_Seen] = []
        with running_cloud(PROJECT, setup) as cloud:
            put_all(cloud, names, b"0")
            if tier != "s3":
                heat_all(cloud, names, tier)
            with open_readers(cloud, memory_bytes=MEMORY_BYTES if tier == "s3" else 0) as (client, _):
                client.get_many(names)
                put, digest = partial(cloud.client("s3").put_object, Bucket=cloud.bucket_name), digest_of(cloud)
                for version in range(1, -(-writes // keys) + 1):
                    seen += _write_and_watch(put, digest, client, names, b"%d" % version)
        stale_ms, event_ms = sorted(each.stale_ms for each in seen), sorted(each.event_ms for each in seen)
        old = Counter(itertools.chain.from_iterable(each.old_by for each in seen))
        row: list[object] = ["memory" if tier == "s3" else tier, len(seen), f"{statistics.median(stale_ms):.0f}"]
        row += [f"{stale_ms[int(len(stale_ms) * 0.99)]:.0f}", f"{stale_ms[-1]:.0f}"]
        row += [f"{statistics.median(event_ms):.0f}", f"{event_ms[-1]:.0f}"]
        print_rows([[*row, ", ".join(f"{name} {count:,}" for name, count in old.most_common())]])


@dataclass(slots=True)
class _Seen:
    """When one write was seen, after its acknowledgement."""

    stale_ms: float = 0.0  # by the reader: when the first read began that saw the new object
    event_ms: float = 0.0  # in the digest: when the first Query began that had the change
    old_by: list[str] = field(default_factory=list)  # the tiers of reads that saw the former object


def _write_and_watch(
    put: Callable[..., object], digest: Callable[[], Digest], client: Client, names: Sequence[str], body: bytes
) -> list[_Seen]:
    before = digest().sequence
    seen = {name: _Seen() for name in names}
    written_s: dict[str, float] = {}

    def watch(see: Callable[[Sequence[str]], Iterable[tuple[str, float]]], note: Callable[[str, float], None]) -> None:
        left, end_s = set(names), time.perf_counter() + LIMIT_S
        while left:
            if time.perf_counter() > end_s:
                raise TimeoutError(f"{len(left)} of {len(names)} writes not seen in {LIMIT_S:.0f} s")
            for name, begun_s in see([name for name in names if name in left and name in written_s]):
                left.discard(name)
                note(name, max(0.0, begun_s - written_s[name]) * 1000)
            time.sleep(_POLL_S)

    def read(written: Sequence[str]) -> Iterator[tuple[str, float]]:
        for name in written:
            begun_s = time.perf_counter()
            found = client.get(name)
            if found.body == body:
                yield name, begun_s
            else:
                seen[name].old_by.append(found.tier)

    def query(written: Sequence[str]) -> Iterator[tuple[str, float]]:
        begun_s = time.perf_counter()
        changes = set(digest().changed_since(before) or ())
        yield from ((name, begun_s) for name in written if prefix_of(key_hash(name)) in changes)

    def note_read(name: str, after_ms: float) -> None:
        seen[name].stale_ms = after_ms

    def note_event(name: str, after_ms: float) -> None:
        seen[name].event_ms = after_ms

    with ThreadPoolExecutor(2) as threads:
        watching = [threads.submit(watch, read, note_read), threads.submit(watch, query, note_event)]
        for name in names:
            time.sleep(random.random() / len(names))  # somewhere between two reads of the digest
            put(Key=name, Body=body)
            written_s[name] = time.perf_counter()
        for each in watching:
            each.result()
    return list(seen.values())
