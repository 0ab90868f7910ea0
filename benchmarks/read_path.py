"""What the proxy adds to a read: its handler against the bare client of the same tier, in the same run.

A Redis-tier GET is compared with redis-py's GET of the same bytes, a Lambda-tier GET with a bare NATS request that
brings the same entry. Redis, the NATS server and the process that stands for the cache function run on loopback; routes
are remembered, so no AWS call is made. The sides take turns, so that a noisy machine disturbs all of them.

    python benchmarks/read_path.py [--rounds 2000]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import time
from binascii import b2a_base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from burstcache_local.machines.redis_binary import redis_binary

if TYPE_CHECKING:
    from burstcache.core.phases import Tier
    from burstcache.serve.reader import Reader

SOURCES = Path(__file__).resolve().parents[1] / "src"
sys.path.insert(0, str(SOURCES))

SIZES_BYTES = {"100 B": 100, "10 KB": 10_000, "1 MB": 1_000_000}
_HASH_QUEUE = "holder"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for_port(port: int) -> None:
    for _ in range(500):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.01)
    raise TimeoutError(f"nothing listens on port {port}")


def start(command: list[str], port: int | None = None) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    if port is not None:
        wait_for_port(port)
    return process


def start_redis(port: int) -> subprocess.Popen[bytes]:
    return start([str(redis_binary()), "--port", str(port), "--bind", "127.0.0.1", "--save", ""], port)


def start_nats(port: int, folder: Path) -> subprocess.Popen[bytes]:
    config = folder / "nats.conf"
    config.write_text(f"listen: 127.0.0.1:{port}\nmax_payload: 8MB\n")
    installed = Path(sys.executable).parent / "nats-server"
    binary = str(installed) if installed.exists() else shutil.which("nats-server") or "nats-server"
    return start([binary, "-c", str(config)], port)


async def hold(port: int) -> None:
    """Stand in for the cache functions of all sizes until killed."""
    import nats

    from burstcache.core.keys import key_hash
    from burstcache.web.entry import encode

    client = await nats.connect(f"nats://127.0.0.1:{port}")
    for key, size_bytes in SIZES_BYTES.items():
        data = encode(entry(size_bytes))

        async def serve(message: Any, data: bytes = data) -> None:
            await message.respond(data)

        await client.subscribe(f"get.{key_hash(key)}", queue=_HASH_QUEUE, cb=serve)
    await asyncio.Event().wait()


def entry(size_bytes: int) -> Any:
    from burstcache.web.entry import entry_from_s3

    headers = {"etag": '"d41d8cd98f00b204e9800998ecf8427e"', "last-modified": "Sun, 06 Nov 1994 08:49:37 GMT"}
    return entry_from_s3({**headers, "content-type": "application/octet-stream"}, os.urandom(size_bytes))


@dataclass(frozen=True, slots=True)
class Times:
    """Sorted times of one side [ms]."""

    values_ms: list[float]

    @property
    def median_ms(self) -> float:
        return statistics.median(self.values_ms)

    @property
    def p95_ms(self) -> float:
        return self.values_ms[int(len(self.values_ms) * 0.95)]


def in_turns(rounds: int, *sides: Callable[[], object]) -> list[Times]:
    values_ms: list[list[float]] = [[] for _ in sides]
    for number in range(rounds + rounds // 10):
        for side, values in zip(sides, values_ms, strict=True):
            started_ns = time.perf_counter_ns()
            side()
            if number >= rounds // 10:  # the first tenth warms up
                values.append((time.perf_counter_ns() - started_ns) / 1e6)
    return [Times(sorted(values)) for values in values_ms]


def reader_of(tier: Tier, redis_port: int, nats_port: int) -> Reader:
    """Return the proxy's reader of a stack that has every object in one tier; the digest's Query is measured apart."""
    from burstcache.access import RedisAccess, RedisNode, RelayAccess
    from burstcache.adapters.clients import Clients
    from burstcache.adapters.clock import SystemClock
    from burstcache.adapters.digest_reader import DigestReader
    from burstcache.adapters.event_publisher import EventPublisher
    from burstcache.adapters.object_store import ObjectStore
    from burstcache.adapters.redis_objects import RedisObjects
    from burstcache.adapters.relay_requests import RelayRequests
    from burstcache.adapters.secrets import Secrets
    from burstcache.core.digest import Digest, RoutedKey, RunningNode
    from burstcache.core.keys import key_hash
    from burstcache.serve.cache_function_tier import LambdaTier
    from burstcache.serve.reader import Reader
    from burstcache.serve.redis_tier import RedisNodeTier
    from burstcache.serve.s3_tier import S3Tier

    clients, clock = Clients("read"), SystemClock()
    secrets = Secrets(clients.secrets)
    routed = RoutedKey(1, 3, tier, "node-1", 1, deadline_at_us=2**62)
    digest = Digest(
        routes={key_hash(key): routed for key in SIZES_BYTES}, nodes={"node-1": RunningNode(1, 2, is_running=True)}
    )
    node, access = RedisNode("node-1", "i-1", "127.0.0.1", redis_port), RelayAccess(f"nats://127.0.0.1:{nats_port}")
    store, publisher = ObjectStore("bucket", clients.s3), EventPublisher("bus", clients.events, clock)
    return Reader(
        DigestReader(lambda: digest, clock),
        S3Tier(store, publisher, clock, max_object_bytes=4 << 20),
        lambda route: (
            RedisNodeTier(RedisObjects(node, secrets, RedisAccess()))
            if route.tier == "redis"
            else LambdaTier(RelayRequests(access, secrets, clock))
        ),
        clock,
    )


def handler_of(reader: Reader, tier: Tier, key: str) -> Callable[[], object]:
    from burstcache.adapters.clock import SystemClock
    from burstcache.handlers.proxy import Proxy
    from burstcache.serve.read_meter import ReadMeter

    context = {"http": {"method": "GET"}, "requestId": "JKJaXmPLvHcESHA=", "stage": "$default"}
    headers = {"host": "abc.execute-api.eu-central-1.amazonaws.com", "user-agent": "bench", "accept": "*/*"}
    event = {"version": "2.0", "rawPath": f"/objects/{key}", "rawQueryString": "", "headers": headers}
    event |= {"requestContext": context}
    clock = SystemClock()
    proxy = Proxy(reader, clock, ReadMeter(clock))

    def get() -> object:
        answer = proxy.handle(event, None)
        if answer["headers"]["x-cache-tier"] != tier:
            raise RuntimeError(f"{key} came from {answer['headers']['x-cache-tier']}, not from {tier}")
        return answer

    return get


def bare_redis(port: int, key: str, data: bytes) -> Callable[[], object]:
    import redis

    client = redis.Redis(port=port)
    client.set(f"bare:{key}", data)
    return lambda: client.get(f"bare:{key}")


class BareNats:
    """A NATS client of its own, on an event loop of its own."""

    def __init__(self, port: int) -> None:
        import nats

        self._loop = asyncio.new_event_loop()
        self._client = self._loop.run_until_complete(nats.connect(f"nats://127.0.0.1:{port}"))

    def requesting(self, key: str) -> Callable[[], object]:
        from burstcache.core.keys import key_hash

        subject, payload = f"get.{key_hash(key)}", b'{"at_us":1795168800000000,"request_id":"a","method":"GET"}'
        return lambda: self._loop.run_until_complete(self._client.request(subject, payload, timeout=1))

    def close(self) -> None:
        self._loop.run_until_complete(self._client.close())
        self._loop.close()


def await_holder(nats: BareNats) -> None:
    """Wait until the holder has subscribed its last subject."""
    from nats.errors import NoRespondersError

    for _ in range(1000):
        try:
            nats.requesting(list(SIZES_BYTES)[-1])()
            return
        except NoRespondersError:
            time.sleep(0.01)
    raise TimeoutError("nobody holds the objects")


def as_base64(body: bytes) -> str:
    """Encode a body as every binary answer of a Lambda function must be."""
    return b2a_base64(body, newline=False).decode("ascii")


def measure(
    redis_port: int, nats: BareNats, readers: Mapping[Tier, Reader], rounds: int
) -> list[tuple[str, str, Times, Times, Times]]:
    import redis

    from burstcache.adapters.redis_objects import object_key
    from burstcache.core.keys import key_hash
    from burstcache.web.entry import encode_meta

    client = redis.Redis(port=redis_port)
    rows: list[tuple[str, str, Times, Times, Times]] = []
    for key, size_bytes in SIZES_BYTES.items():
        held = entry(size_bytes)
        fields: dict[Any, bytes] = {"meta": encode_meta(held.meta), "body": held.body}
        client.hset(object_key(key_hash(key)), mapping=fields)
        sides: dict[Tier, Callable[[], object]] = {
            "redis": bare_redis(redis_port, key, held.body),
            "lambda": nats.requesting(key),
        }
        for tier, bare in sides.items():
            times = in_turns(rounds, bare, handler_of(readers[tier], tier, key), partial(as_base64, held.body))
            rows.append((tier, key, times[0], times[1], times[2]))
    return rows


def print_table(rows: list[tuple[str, str, Times, Times, Times]]) -> None:
    print("tier    object   bare ms        handler ms     on top ms      ratio  base64 alone ms")
    print("                 median    p95  median    p95  median    p95  median          median")
    for tier, key, bare, handler, base64 in rows:
        top_ms, top_p95_ms = handler.median_ms - bare.median_ms, handler.p95_ms - bare.p95_ms
        print(
            f"{tier:7} {key:>6} {bare.median_ms:8.3f} {bare.p95_ms:6.3f} {handler.median_ms:7.3f} {handler.p95_ms:6.3f}"
            f" {top_ms:7.3f} {top_p95_ms:6.3f} {handler.median_ms / bare.median_ms:7.2f} {base64.median_ms:15.3f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=2000, help="reads per row and side (default 2000)")
    parser.add_argument("--hold", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    arguments = parser.parse_args()
    if arguments.hold:
        asyncio.run(hold(arguments.hold))
    else:
        run(arguments.rounds, as_json=arguments.json)


def run(rounds: int, *, as_json: bool) -> None:
    import tempfile
    from contextlib import ExitStack

    redis_port, nats_port = free_port(), free_port()
    os.environ |= {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_DEFAULT_REGION": "us-east-1"}
    with ExitStack() as ends:
        folder = Path(ends.enter_context(tempfile.TemporaryDirectory()))
        for process in (
            start_redis(redis_port),
            start_nats(nats_port, folder),
            start([sys.executable, __file__, "--hold", str(nats_port)]),
        ):
            ends.callback(process.wait)
            ends.callback(process.kill)
        nats = BareNats(nats_port)
        ends.callback(nats.close)
        await_holder(nats)
        tiers: tuple[Tier, ...] = ("redis", "lambda")
        readers = {tier: reader_of(tier, redis_port, nats_port) for tier in tiers}
        for reader in readers.values():
            ends.callback(reader.close)
        rows = measure(redis_port, nats, readers, rounds)
    if as_json:
        names = ("bare_ms", "handler_ms", "base64_ms")
        print(json.dumps([{"tier": t, "object": k} | figures(dict(zip(names, s, strict=True))) for t, k, *s in rows]))
    else:
        print_table(rows)


def figures(sides: dict[str, Times]) -> dict[str, dict[str, float]]:
    return {name: {"median": times.median_ms, "p95": times.p95_ms} for name, times in sides.items()}


if __name__ == "__main__":
    main()
