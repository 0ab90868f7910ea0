"""What a guest costs a reader: its hit next to a leased key's and to bare redis-py, its miss next to bare boto3.

A real Redis and moto's S3 answer on loopback: a miss is shorter than on AWS by S3's own time, what bringing the object
adds is not. The sides take turns, so that a noisy machine disturbs all of them.

    python -m benchmarks.guests [--rounds 1000]
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import redis

from benchmarks.read_path import SIZES_BYTES, entry, free_port, in_turns, start_redis
from benchmarks.support.common import environment
from burstcache.access import RedisAccess, RedisNode
from burstcache.adapters.clients import Clients
from burstcache.adapters.clock import SystemClock
from burstcache.adapters.digest_reader import DigestReader
from burstcache.adapters.object_store import ObjectStore
from burstcache.adapters.redis_objects import RedisObjects, object_key
from burstcache.core.digest import Digest, RoutedKey, RunningNode
from burstcache.core.keys import key_hash
from burstcache.serve.reader import Reader
from burstcache.serve.redis_tier import RedisGuestTier, RedisNodeTier
from burstcache.serve.s3_tier import S3Tier
from burstcache.web.entry import encode_meta
from burstcache.web.request import Request
from burstcache_local.moto.server import moto_server

_BUCKET, _NODE = "bucket", "node-1"
_MAX_OBJECT_BYTES = 4 << 20
_NO_SECRETS: Any = None


class Sides:
    """Readers of one node and one bucket, and what they are compared with."""

    def __init__(self, s3: Any, port: int) -> None:
        self.s3, self.redis, self.clock = s3, redis.Redis(port=port), SystemClock()
        self.node = RedisNode(_NODE, "i-1", "127.0.0.1", port)
        running, guests = RunningNode(1, 2, True), RunningNode(1, 2, True, (_NODE,))
        routed = {key_hash(key): RoutedKey(1, 3, "redis", _NODE, 1, 2**62) for key in SIZES_BYTES}
        self.leased = self._reader(Digest(routes=routed, nodes={_NODE: running}))
        self.guests = self._reader(Digest(nodes={_NODE: guests}))

    def _reader(self, digest: Digest) -> Reader:
        origin = S3Tier(ObjectStore(_BUCKET, self.s3), None, self.clock, max_object_bytes=_MAX_OBJECT_BYTES)
        objects = RedisObjects(self.node, _NO_SECRETS, RedisAccess())
        return Reader(
            DigestReader(lambda: digest, self.clock),
            origin,
            lambda route: RedisGuestTier(objects, _MAX_OBJECT_BYTES) if route.is_guest else RedisNodeTier(objects),
            self.clock,
        )

    def read(self, reader: Reader, key: str, tier: str) -> Callable[[], object]:
        """Return a read that must be served by a tier."""

        def get() -> object:
            answer = reader.read(Request("GET", key, key_hash(key), {}, None, "r", self.clock.now_us()))
            if answer.headers["x-cache-tier"] != tier:
                raise RuntimeError(f"{key} came from {answer.headers['x-cache-tier']}, not from {tier}")
            return answer

        return get

    def bare_hit(self, key: str) -> Callable[[], object]:
        """Return a read of the same fields by redis-py alone."""
        return lambda: self.redis.hmget(object_key(key_hash(key)), ["meta", "body"])

    def bare_miss(self, key: str) -> Callable[[], object]:
        """Return a read of S3 by boto3 alone."""
        return lambda: self.s3.get_object(Bucket=_BUCKET, Key=key)["Body"].read()

    def brought(self, key: str) -> Callable[[], object]:
        """Return a read that misses and brings the object; what was brought before is removed first."""
        read = self.read(self.guests, key, "s3")

        def get() -> object:
            self.redis.delete(object_key(key_hash(key)))
            return read()

        return get


def measure(sides: Sides, key: str, size_bytes: int, rounds: int) -> None:
    """Print one row."""
    held = entry(size_bytes)
    sides.s3.put_object(Bucket=_BUCKET, Key=key, Body=held.body)
    fields: dict[Any, bytes] = {"meta": encode_meta(held.meta), "body": held.body}
    sides.redis.hset(object_key(key_hash(key)), mapping=fields)
    hits = (sides.bare_hit(key), sides.read(sides.leased, key, "redis"), sides.read(sides.guests, key, "redis"))
    bare, leased, guest = (times.median_ms for times in in_turns(rounds, *hits))
    misses = (sides.bare_miss(key), sides.brought(key))
    s3, brought = (times.median_ms for times in in_turns(rounds // 5, *misses))
    row = (bare, leased, guest, guest / leased, s3, brought)
    print(f"{key:>6} {row[0]:11.3f} {row[1]:12.3f} {row[2]:10.3f} {row[3]:9.2f} {row[4]:10.3f} {row[5]:10.3f}")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=1000, help="hits per row and side, five times the misses")
    arguments = parser.parse_args()
    os.environ |= {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_DEFAULT_REGION": "us-east-1"}
    with ExitStack() as ends:
        port = free_port()
        server = start_redis(port)
        ends.callback(server.wait)
        ends.callback(server.kill)
        services = ends.enter_context(moto_server())
        s3 = Clients("caller", endpoint_urls={"": services.cloud_url}).s3
        s3.create_bucket(Bucket=_BUCKET)
        print(environment())
        print("object  bare hit ms  leased hit ms  guest hit ms  ratio  bare S3 ms  brought ms   (medians)")
        sides = Sides(s3, port)
        for key, size_bytes in SIZES_BYTES.items():
            measure(sides, key, size_bytes, arguments.rounds)


if __name__ == "__main__":
    main()
