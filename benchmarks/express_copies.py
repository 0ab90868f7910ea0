"""Copies in S3 Express on a log: what live readers make of it, next to the rule alone and to one that knows the future.

The reader and its tier are the live ones, on a clock that jumps from request to request; the bucket is a dictionary
that keeps S3's conditions and lifecycle rules. The rule alone is the simulator's: `core.express` on the same times. The
clairvoyant copies and deletes whenever that is cheapest.

    python -m benchmarks.express_copies [LOG...] [--repeats 1] [--values 0 1 10 100]

Without a log it takes made-up ones: sets of objects that are asked for again for a month, and streams of objects that
are asked for some times and then never again.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from benchmarks.support.common import environment
from burstcache.adapters.express_bucket import lifecycle_rules
from burstcache.adapters.express_copies import ExpressHit
from burstcache.core.express import US_PER_DAY, ExpressRule, expires_us, express_rule
from burstcache.core.keys import key_hash
from burstcache.core.prices import price_sheet
from burstcache.serve.express_tier import ExpressTier
from burstcache.serve.hit_counter import Served
from burstcache.serve.local_cache import IMMUTABLE_S
from burstcache.serve.reader import Reader
from burstcache.web.entry import Entry
from burstcache.web.request import Request
from burstcache.web.response import Response
from burstcache_sim.traces.read import read_trace
from burstcache_sim.world.express import Express

PRICES = price_sheet("today-us-east-1")
_GB = 1024**3
_ITEMS = (
    "s3-get",
    "s3-express-get",
    "s3-express-retrieval",
    "s3-express-put",
    "s3-express-upload",
    "s3-express-storage",
)


class JumpingClock:
    """A clock that a replay sets."""

    def __init__(self) -> None:
        self.at_us = 0

    def now_us(self) -> int:
        return self.at_us

    def monotonic_s(self) -> float:
        return self.at_us / 1_000_000

    def sleep(self, duration_s: float) -> None:
        self.at_us += round(duration_s * 1_000_000)


@dataclass
class Origin:
    """S3 with objects of the log's sizes; the bodies are one and the same."""

    sizes_bytes: dict[str, int]
    gets: int = 0
    _bytes: bytes = bytes(1 << 26)

    def read(self, request: Request) -> Response:
        self.gets += 1
        size_bytes = self.sizes_bytes[request.key]
        return Response(200, {"etag": '"e"', "content-length": str(size_bytes)}, self._bytes[:size_bytes])

    def revalidate(self, request: Request, known: Entry) -> Entry | None:
        raise AssertionError("objects never change")

    def is_current(self, key: str, known: Entry) -> bool:
        return True

    def publish_report(self, request: Request, *, etag: str, size_bytes: int) -> None:
        """Nobody asks."""

    def count(self, batch: Sequence[Served]) -> None:
        """Nobody asks."""

    def close(self) -> None:
        """Nothing is open."""


@dataclass(frozen=True, slots=True)
class _Put:
    """A copy with its size, when it was put, and when S3 deletes it."""

    found: ExpressHit
    size_bytes: int
    put_us: int
    end_us: int


@dataclass
class Bucket:
    """A directory bucket, and what it is billed for."""

    clock: JumpingClock
    rule: ExpressRule
    asked: int = 0
    read_bytes: int = 0
    puts: int = 0
    put_bytes: int = 0
    expired: int = 0
    byte_us: int = 0
    _found: dict[str, _Put] = field(default_factory=dict)

    def read(self, hash_: str, *, only_meta: bool = False) -> ExpressHit | None:
        self.asked += 1
        put = self._found.get(hash_)
        if put is None:
            return None
        if put.end_us <= self.clock.at_us:
            self._remove(hash_, put.end_us)
            self.expired += 1
            return None
        self.read_bytes += put.size_bytes
        return put.found

    def put(self, hash_: str, data: bytes, *, replaces: str) -> bool:
        assert not replaces
        assert hash_ not in self._found, "nobody else puts copies"
        self.puts += 1
        self.put_bytes += len(data)
        at_us = self.clock.at_us
        end_us = expires_us(at_us, self._days(len(data)))
        self._found[hash_] = _Put(ExpressHit(str(self.puts), data, len(data)), len(data), at_us, end_us)
        return True

    def close(self, until_us: int) -> None:
        for hash_, put in list(self._found.items()):
            self._remove(hash_, min(put.end_us, until_us))

    def _remove(self, hash_: str, at_us: int) -> None:
        put = self._found.pop(hash_)
        self.byte_us += put.size_bytes * max(at_us - put.put_us, 3600 * 1_000_000)

    def _days(self, size_bytes: int) -> int:
        for each in lifecycle_rules(self.rule):
            sizes = each["Filter"].get("And", each["Filter"])
            if sizes.get("ObjectSizeGreaterThan", -1) < size_bytes < sizes.get("ObjectSizeLessThan", 1 << 60):
                return int(each["Expiration"]["Days"])
        raise AssertionError(f"no rule for {size_bytes} bytes")


@dataclass(frozen=True)
class Log:
    """GETs in the order of their times, of objects of one size each."""

    name: str
    times_us: list[int]
    keys: list[int]
    sizes_bytes: list[int]

    @classmethod
    def read(cls, path: str, repeats: int) -> Log:
        trace = read_trace(Path(path))
        assert trace.key_ids is not None, "the log has one key only"
        assert trace.sizes_bytes is not None, "the log has no sizes"
        sizes = np.zeros(int(trace.key_ids.max()) + 1, np.int64)
        np.maximum.at(sizes, trace.key_ids, trace.sizes_bytes)
        period_us = -(-(int(trace.arrivals_us[-1]) + 1) // US_PER_DAY) * US_PER_DAY
        times_us = np.concatenate([trace.arrivals_us + at * period_us for at in range(repeats)])
        name = f"{Path(path).name.split('.')[0]}, {repeats} times"
        return cls(name, times_us.tolist(), np.tile(trace.key_ids, repeats).tolist(), sizes.tolist())


def of_a_set(name: str, objects: int, gets: int, median_bytes: float, spread: float) -> Log:
    """Return a month of GETs by Zipf (0.8) of a set of objects of log-normal sizes up to 4 MB."""
    draw = np.random.default_rng(1)
    weights = 1 / np.arange(1, objects + 1) ** 0.8
    keys = draw.choice(objects, size=gets, p=weights / weights.sum())
    times_us = np.sort(draw.integers(0, 30 * US_PER_DAY, gets))
    return Log(name, times_us.tolist(), keys.tolist(), _sizes(draw, objects, median_bytes, spread))


def of_a_stream(name: str, objects: int, again: float, median_bytes: float) -> Log:
    """Return a month in which new objects come all the time and are asked for again, with that chance, hours later."""
    draw = np.random.default_rng(2)
    born_us, gets = draw.integers(0, 30 * US_PER_DAY, objects), draw.geometric(1 - again, objects)
    keys = np.repeat(np.arange(objects), gets)
    first = np.repeat(np.cumsum(gets) - gets, gets)
    waits_us = np.cumsum(draw.exponential(2 * 3600e6, len(keys)).astype(np.int64))
    times_us = born_us[keys] + waits_us - waits_us[first]
    order = np.argsort(times_us, kind="stable")
    return Log(name, times_us[order].tolist(), keys[order].tolist(), _sizes(draw, objects, median_bytes, 1.0))


def _sizes(draw: np.random.Generator, objects: int, median_bytes: float, spread: float) -> list[int]:
    drawn = np.exp(draw.normal(np.log(median_bytes), spread, objects))
    return [1 + int(size) for size in np.minimum(drawn, 4 << 20)]


def mixes() -> Iterator[Log]:
    """Return the made-up logs."""
    yield of_a_set("10,000 objects of 4 KB", 10_000, 100_000, 4_000, 1.0)
    yield of_a_set("10,000 objects of 100 KB", 10_000, 100_000, 100_000, 1.5)
    yield of_a_set("10,000 objects of 1 MB", 10_000, 100_000, 1_000_000, 1.0)
    yield of_a_set("100,000 objects of 100 KB", 100_000, 100_000, 100_000, 1.5)
    yield of_a_stream("one in ten comes again, 100 KB", 60_000, 0.1, 100_000)
    yield of_a_stream("each second one comes again, 16 KB", 30_000, 0.5, 16_000)
    yield of_a_stream("each second one comes again, 1 MB", 30_000, 0.5, 1_000_000)


def live(log: Log, rule: ExpressRule) -> tuple[Origin, Bucket]:
    """Replay a log through a live reader."""
    clock = JumpingClock()
    names = [str(key) for key in range(len(log.sizes_bytes))]
    hashes = [key_hash(name) for name in names]
    origin, bucket = Origin(dict(zip(names, log.sizes_bytes, strict=True))), Bucket(clock, rule)
    tier = ExpressTier(bucket, rule, clock, max_object_bytes=1 << 26)  # type: ignore[arg-type]
    reader = Reader(None, origin, lambda _: tier, clock, has_express=True, max_stale_s=IMMUTABLE_S)  # type: ignore[arg-type]
    for at_us, key in zip(log.times_us, log.keys, strict=True):
        clock.at_us = at_us
        reader.read(Request("GET", names[key], hashes[key], {}, None, "", at_us))
    bucket.close(log.times_us[-1])
    return origin, bucket


def clairvoyant_usd(log: Log, rule: ExpressRule, s3_usd: float) -> float:
    """Return the least that the log's reads cost, waits for S3 included [USD]."""
    held: dict[int, tuple[float, float, int]] = {}  # cost so far with a copy, and without; time
    for at_us, key in zip(log.times_us, log.keys, strict=True):
        size_bytes = log.sizes_bytes[key]
        copy_usd, read_usd = rule.copy_usd(size_bytes), s3_usd - rule.saved_usd(size_bytes)
        with_usd, without_usd, last_us = held.get(key, (float("inf"), 0.0, at_us))
        hit_usd = with_usd + rule.rent_usd_per_us(size_bytes) * (at_us - last_us) + read_usd
        missed_usd = without_usd + s3_usd
        held[key] = (min(hit_usd, missed_usd + copy_usd), min(hit_usd, missed_usd), at_us)
    return sum(min(with_usd, without_usd) for with_usd, without_usd, _ in held.values())


def bill(gets: int, asks: int, read_bytes: int, puts: int, put_bytes: int, gb_h: float) -> list[float]:
    """Return the bill by item [USD]."""
    amounts = (gets, asks, read_bytes / _GB, puts, put_bytes / _GB, gb_h)
    return [float(PRICES.usd(item)) * amount for item, amount in zip(_ITEMS, amounts, strict=True)]


def compare(log: Log, usd_per_million: float) -> None:
    """Print a log's table for one value of a hit."""
    rule = express_rule(PRICES, hit_value_usd=usd_per_million / 1_000_000)
    origin, bucket = live(log, rule)
    alone = Express(rule)
    served = sum(
        alone.serves(key, at_us, log.sizes_bytes[key]) for at_us, key in zip(log.times_us, log.keys, strict=True)
    )
    use = alone.close(log.times_us[-1])
    s3_usd = float(PRICES.usd("s3-get")) + 0.9 * usd_per_million / 1_000_000
    sides = {
        "live": bill(
            origin.gets, bucket.asked, bucket.read_bytes, bucket.puts, bucket.put_bytes, bucket.byte_us / _GB / 3.6e9
        ),
        "rule alone": bill(
            len(log.keys) - served,
            use.asks,
            use.read_bytes,
            use.copies,
            use.copied_bytes,
            use.byte_s / _GB / 3600,
        ),
    }
    best_usd = clairvoyant_usd(log, rule, s3_usd)
    print(f"\n{log.name}, a million hits worth {usd_per_million:g} USD:")
    print(f"  {len(log.keys):,} GETs of {len(log.sizes_bytes):,} objects")
    print(f"  live: {bucket.puts:,} copies made, {bucket.expired:,} deleted and asked for again,")
    reads = len(log.keys) - origin.gets
    print(f"  {reads:,} reads from copies; the rule alone: {use.copies:,} puts, {served:,} reads")
    print("  [USD]      " + "".join(f"{item.removeprefix('s3-'):>18}" for item in _ITEMS) + f"{'sum':>12}{'best':>8}")
    asks_usd = float(PRICES.usd("s3-express-get")) * len(log.keys)
    for name, items in sides.items():
        waits_usd = items[0] / float(PRICES.usd("s3-get")) * (s3_usd - float(PRICES.usd("s3-get")))
        # What is asked in vain is a price of not knowing, and counted; the clairvoyant asks for what is there.
        ratio = (sum(items) + waits_usd) / best_usd
        print(f"  {name:11}" + "".join(f"{usd:18.6f}" for usd in items) + f"{sum(items):12.6f}{ratio:8.2f}")
    all_usd = len(log.keys) * float(PRICES.usd("s3-get"))
    none = len(log.keys) * s3_usd / best_usd
    print(f"  all from S3: {all_usd:.6f}, {none:.2f}; asking Express for all: {asks_usd:.6f}")


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("logs", nargs="*")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--values", type=float, nargs="+", default=[0, 1, 10, 100], help="USD per million hits")
    options = parser.parse_args()
    print(environment())
    logs = (Log.read(path, options.repeats) for path in options.logs) if options.logs else mixes()
    for log in logs:
        for usd_per_million in options.values:
            compare(log, usd_per_million)


if __name__ == "__main__":
    main()
