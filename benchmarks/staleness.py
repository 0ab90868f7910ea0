"""A local run under many writes and many first reads: how old what readers get is, and whether all are answered.

    python -m benchmarks.staleness [--writes-per-s 20] [--seconds 10] [--keys 4] [--gets 90]

First, objects in the Lambda tier are written straight to the bucket, on schedule, while readers without memory read
them without pause. What a read got is as old as its beginning is later than S3's acknowledgement of the next version.
Then 90 GETs of cold keys come at once: one of each key at the front door, and all of one key in a program.
"""

from __future__ import annotations

import argparse
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from benchmarks.client.common import SETUP_OF, access_of, open_readers, print_table
from benchmarks.client.heat import heat_all, put_all
from benchmarks.hits import Cloud, running_cloud
from benchmarks.support.common import PROJECT, Getter, environment
from burstcache.client import Client

SETUPS = (SETUP_OF["lambda"],)
_READERS = 2

Put = Callable[..., object]
Read = tuple[str, int, float]  # key, version and when it began [s]


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser("python -m benchmarks.staleness", description=__doc__.splitlines()[0])
    parser.add_argument("--writes-per-s", type=float, default=20, help="to all keys together (default: 20)")
    parser.add_argument("--seconds", type=float, default=10, help="of writes (default: 10)")
    parser.add_argument("--keys", type=int, default=4, help="that are written (default: 4)")
    parser.add_argument("--gets", type=int, default=90, help="of cold keys at once (default: 90)")
    arguments = parser.parse_args()
    print(environment())
    with running_cloud(PROJECT, *SETUPS) as cloud:
        staleness(cloud, arguments.keys, arguments.writes_per_s, arguments.seconds)
        first_reads(cloud, arguments.gets)


def staleness(cloud: Cloud, keys: int, writes_per_s: float, lasts_s: float) -> None:
    """Print how old what readers got was."""
    print("\n## Hot objects that are written\n")
    names = [f"written-{number}" for number in range(keys)]
    put_all(cloud, names, b"0")
    heat_all(cloud, names, "lambda")
    put = partial(cloud.client("s3").put_object, Bucket=cloud.bucket_name)
    reads, is_over = list[Read](), threading.Event()
    with open_readers(cloud) as (client, _), ThreadPoolExecutor(_READERS + keys) as threads:
        readers = [threads.submit(_read_on, client, names, is_over, reads) for _ in range(_READERS)]
        writers = {name: threads.submit(_write_on, put, name, keys / writes_per_s, lasts_s) for name in names}
        written_s = {name: writer.result() for name, writer in writers.items()}
        is_over.set()
        for reader in readers:
            reader.result()
    ages_ms = [max(0.0, began_s - _next_s(written_s[name], version)) * 1000 for name, version, began_s in reads]
    old_ms = sorted(age_ms for age_ms in ages_ms if age_ms)
    writes = sum(len(times_s) - 1 for times_s in written_s.values())
    titles = ["writes offered", "made", "reads", "of an old version", "p50 ms", "p99 ms", "longest ms"]
    print_table(titles, [[round(writes_per_s * lasts_s), writes, len(reads), len(old_ms), *_quantiles(old_ms)]])


def first_reads(cloud: Cloud, gets: int) -> None:
    """Print whether all of many first reads at once were answered, and how often S3 was asked for them."""
    print("\n## First reads at once\n")
    names = [f"cold-{number}" for number in range(gets)]
    put_all(cloud, [*names, "bare", "kept"], b"cold")
    asked: list[object] = []
    s3 = cloud.client("s3")
    s3.meta.events.register("before-call.s3.GetObject", lambda **_: asked.append(None))

    def by_front(name: str) -> int:
        status, tier, _, _ = Getter(cloud.front_url).get(name)
        asked.extend([None] * (tier == "s3"))
        return status

    rows = [["the front door, a key each", *_at_once(by_front, names), len(asked)]]
    for name, memory_bytes in (("bare", 0), ("kept", 1 << 20)):
        with Client(**access_of(cloud), s3=s3, memory_bytes=memory_bytes) as client:
            client.head(name)  # what one program does once
            asked.clear()
            row = _at_once(partial(_get, client), [name] * gets)
        rows.append([f"a program {'with' if memory_bytes else 'without'} memory, one key", *row, len(asked)])
    print_table(["reader", "GETs", "answered", "longest ms", "reads of S3"], rows)


def _read_on(client: Client, names: Sequence[str], is_over: threading.Event, reads: list[Read]) -> None:
    while not is_over.is_set():
        for name in names:
            began_s = time.perf_counter()
            reads.append((name, int(client.get(name).body), began_s))


def _write_on(put: Put, name: str, every_s: float, lasts_s: float) -> list[float]:
    """Write versions on schedule; return when each was acknowledged, the first of them long ago [s]."""
    written_s, began_s = [float("-inf")], time.perf_counter()
    while (passed_s := time.perf_counter() - began_s) < lasts_s:
        time.sleep(every_s - passed_s % every_s)
        put(Key=name, Body=b"%d" % len(written_s))
        written_s.append(time.perf_counter())
    return written_s


def _next_s(written_s: Sequence[float], version: int) -> float:
    """Return when the version after this one was acknowledged; infinite: it was the last one [s]."""
    return written_s[version + 1] if version + 1 < len(written_s) else float("inf")


def _quantiles(values_ms: Sequence[float]) -> list[str]:
    """Return median, 99th percentile and the longest of sorted values, as texts."""
    if not values_ms:
        return ["-"] * 3
    places = (len(values_ms) // 2, int(len(values_ms) * 0.99), len(values_ms) - 1)
    return [f"{values_ms[place]:.0f}" for place in places]


def _get(client: Client, name: str) -> int:
    return 200 if client.get(name).body == b"cold" else 0


def _at_once(get: Callable[[str], int], names: Sequence[str]) -> list[object]:
    """Return the number of GETs, of answers, and the longest duration [ms]."""
    start = threading.Barrier(len(names))

    def timed(name: str) -> tuple[int, float]:
        start.wait()
        begun_s = time.perf_counter()
        status = get(name)
        return status, (time.perf_counter() - begun_s) * 1000

    with ThreadPoolExecutor(len(names)) as threads:
        outcomes = list(threads.map(timed, names))
    answered = sum(status == 200 for status, _ in outcomes)
    return [len(names), answered, f"{max(took_ms for _, took_ms in outcomes):.0f}"]


if __name__ == "__main__":
    main()
