"""GETs through the gateway next to its peers: nginx, rclone's S3 server, moto, and the S3 behind it.

wrk sends boto3's signed GETs on one connection and on sixteen, in turns to all servers. The server under load has one
processor, wrk and the S3 behind the gateway the other one. Of several rounds the least disturbed one counts: the lowest
median, the highest rate, the least processor time per request.

    python -m benchmarks.gateway [--sizes 100 10000 …] [--rounds 3] [--seconds 1] [--clients 1000] [--rclone FILE]
        [--parts hits misses slow]

It needs Linux and Debian's `wrk`. A peer that is not installed is left out, and named.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from benchmarks.client.common import print_table
from benchmarks.read_path import free_port
from benchmarks.support.common import environment
from benchmarks.support.delayed_s3 import DELAY_MS, MB_PER_S
from benchmarks.support.gateway_peers import (
    ACCESS_KEY,
    BUCKET,
    FOLDER,
    RCLONE,
    REGION,
    SECRET_KEY,
    Server,
    contents,
    generated_server,
    moto_server,
    nginx_binary,
    nginx_server,
    rclone_server,
    running_server,
)
from benchmarks.support.http_load import LOAD_CORE, LoadFigures, Request, has_wrk, run_load
from benchmarks.support.slow_clients import measure_slow_clients

SIZES = {100: "100 B", 10_000: "10 KB", 1_000_000: "1 MB", 8_000_000: "8 MB", 100_000_000: "100 MB"}
CONNECTIONS = (1, 16)
_LARGE_BYTES, _LARGE_SECONDS = 50_000_000, 4  # these take so long that a second has too few of them
# Keys for each second of misses, none of which is read twice: more than a server of that size answers.
_COLD_PER_S = {100: 9_000, 10_000: 9_000, 1_000_000: 2_000, 8_000_000: 300, 100_000_000: 30}
_SLOW_BYTES, _SLOW_BYTES_PER_S, _SLOW_S = 8_000_000, 10_000, 8.0
# aws-samples/sample-s3-hybrid-cache 2.6.0 (Rust), RAM hit by its forward proxy: medians of one connection relative to
# nginx's in the same run, on another day on a machine of this kind. Not measured here.
RUST_SAMPLE = {100: 5.6, 10_000: 4.3, 1_000_000: 8.3, 8_000_000: 3.8}
_NGINX, _MOTO = "nginx", "moto"


@dataclass(slots=True)
class Side:
    """One way to get objects: a server, and which of its objects are read.

    Attributes:
        make_requests: Returns the requests for a size and a duration [s]; none of a miss may come twice.
        cache: The `x-cache` that responses must have, if any: hit or miss.
    """

    name: str
    server: Server
    make_requests: Callable[[int, int], list[Request]]
    cache: str = ""
    rounds: dict[tuple[int, int], list[LoadFigures]] = field(default_factory=dict)  # by size and connections

    def run(self, size: int, connections: int, seconds: int) -> None:
        """Measure a round.

        Raises:
            RuntimeError: A response is wrong, or a request was sent twice that must not be.
        """
        requests = self.make_requests(size, seconds)
        check_response(self, requests[-1], size)
        figures = run_load(
            self.server.url,
            requests if len(requests) == 1 else requests[:-1],
            process_id=self.server.process_id,
            connections=connections,
            duration_s=seconds,
        )
        if self.cache and len(requests) > 1 and figures.requests >= len(requests):
            raise RuntimeError(f"{self.name}: {figures.requests} requests for {len(requests)} objects")
        self.rounds.setdefault((size, connections), []).append(figures)

    def best(self, size: int, connections: int, of: Callable[[LoadFigures], float]) -> float | None:
        """Return the least of a figure in all rounds. None: it was not measured."""
        rounds = self.rounds.get((size, connections))
        return min(map(of, rounds)) if rounds else None


@contextlib.contextmanager
def gateway_server(folder: Path, name: str, origin: Server, *options: str) -> Iterator[Server]:
    """Run the gateway over another S3."""
    port, file_name = free_port(), name.replace(" ", "-").replace(",", "")
    command = [sys.executable, "-m", "burstcache.gateway", "--bucket", BUCKET, "--port", str(port)]
    command += ["--origin-endpoint", origin.url, "--region", REGION, "--drain-s", "1", *options]
    variables = {
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    log = folder / f"{file_name}.log"
    with running_server(command, port, log=log, variables=variables) as process_id:
        yield Server(name, f"http://127.0.0.1:{port}", process_id)


def hits(name: str, server: Server, cache: str = "") -> Side:
    """Return a side that reads one object again and again."""
    return Side(name, server, lambda size, _: server.requests([f"{FOLDER}/{size}"]), cache)


def misses(name: str, server: Server, cache: str = "") -> Side:
    """Return a side that reads each object once."""
    numbers = count()

    def requests(size: int, seconds: int) -> list[Request]:
        count_ = _COLD_PER_S[size] * seconds
        return server.requests([f"cold/{next(numbers)}/{size}" for _ in range(count_)])

    return Side(name, server, requests, cache)


def passed_through(name: str, server: Server) -> Side:
    """Return a side that reads a version by its id, which no cache answers."""
    return Side(name, server, lambda size, _: server.requests([f"{FOLDER}/{size}"], VersionId="null"))


def check_response(side: Side, request: Request, size: int) -> None:
    """Check one response.

    Raises:
        RuntimeError: Its bytes or its source are not the expected ones.
    """
    connection = http.client.HTTPConnection(request.headers["Host"], timeout=60)
    try:
        connection.request("GET", request.path, headers=dict(request.headers))
        response = connection.getresponse()
        body, cache = response.read(), response.headers.get("x-cache", "")
    finally:
        connection.close()
    if response.status != 200 or body != contents(size):
        raise RuntimeError(f"{side.name}: status {response.status} with {len(body)} of {size} bytes: {body[:300]!r}")
    if side.cache and cache != side.cache:
        raise RuntimeError(f"{side.name}: a {cache or 'bypass'}, expected a {side.cache}")


def measure(sides: Sequence[Side], sizes: Sequence[int], connections: Sequence[int], rounds: int, seconds: int) -> None:
    """Measure all sides in turns."""
    for size in sizes:
        for side in sides:  # brings the object into caches
            for request in side.make_requests(size, 0)[:1] * 3:
                with contextlib.suppress(RuntimeError):
                    check_response(side, request, size)
        for at_once in connections:
            for _ in range(rounds):
                for side in sides:
                    side.run(size, at_once, seconds if size < _LARGE_BYTES else max(seconds, _LARGE_SECONDS))
        print(f"measured {SIZES[size]}", file=sys.stderr, flush=True)


def print_figures(sides: Sequence[Side], sizes: Sequence[int]) -> None:
    """Print the tables of sides that were measured together."""
    names = [side.name for side in sides]
    one, many = CONNECTIONS

    def cells(of: Callable[[Side, int], str]) -> Iterator[list[str]]:
        return ([SIZES[size], *(of(side, size) for side in sides)] for size in sizes)

    print("\nOne connection, median and 99th percentile in ms:\n")
    print_table(["object", *names], cells(lambda side, size: _latency(side, size, one)))
    print(f"\n{many} connections, requests per second:\n")
    print_table(["object", *names], cells(lambda side, size: _rate(side, size, many)))
    print("\nProcessor time of the server per request, one connection and sixteen, in µs:\n")
    print_table(["object", *names], cells(lambda side, size: f"{_cpu(side, size, one)}, {_cpu(side, size, many)}"))


def print_ratios(sides: Sequence[Side], sizes: Sequence[int]) -> None:
    """Print medians relative to nginx's, next to the ratios of the Rust sample."""
    reference = next((side for side in sides if side.name == _NGINX), None)
    if reference is None:
        return
    others = [side for side in sides if side is not reference]
    print("\nMedian of one connection relative to nginx's. *sample-s3-hybrid-cache 2.6.0*: another run, RAM hits:\n")
    rows = []
    for size in sizes:
        base_us = reference.best(size, 1, _p50_us)
        ratios = [_ratio(side.best(size, 1, _p50_us), base_us) for side in others]
        rows.append([SIZES[size], *ratios, str(RUST_SAMPLE.get(size, "–"))])
    print_table(["object", *(side.name for side in others), "sample-s3-hybrid-cache"], rows)


def _p50_us(figures: LoadFigures) -> float:
    return figures.p50_us


def _latency(side: Side, size: int, connections: int) -> str:
    rounds = side.rounds.get((size, connections))
    if not rounds:
        return "–"
    best = min(rounds, key=_p50_us)
    return f"{_milliseconds(best.p50_us)}, {_milliseconds(best.p99_us)}"


def _rate(side: Side, size: int, connections: int) -> str:
    least = side.best(size, connections, lambda figures: -figures.per_s)
    return "–" if least is None else f"{-least:,.0f}" if least < -10 else f"{-least:.1f}"


def _cpu(side: Side, size: int, connections: int) -> str:
    least = side.best(size, connections, lambda figures: figures.cpu_us)
    return "–" if least is None else f"{least:,.0f}"


def _ratio(value: float | None, base: float | None) -> str:
    return "–" if value is None or base is None else f"{value / base:.1f}"


def _milliseconds(value_us: float) -> str:
    return f"{value_us / 1000:.3f}" if value_us < 1_000 else f"{value_us / 1000:.2f}"


def print_added(straight: Side, others: Sequence[Side], sizes: Sequence[int]) -> None:
    """Print the medians of one connection, and what each way adds to S3's own."""
    rows = []
    for size in sizes:
        base_us = straight.best(size, 1, _p50_us)
        cells = [_latency(straight, size, 1)]
        for side in others:
            own_us = side.best(size, 1, _p50_us)
            added = "–" if own_us is None or base_us is None else f"{(own_us - base_us) / 1000:+.2f}"
            cells += [_latency(side, size, 1), added]
        rows.append([SIZES[size], *cells])
    columns = [straight.name, *(title for side in others for title in (side.name, "added"))]
    print("\nOne connection, median and 99th percentile, and the medians' difference from S3's, in ms:\n")
    print_table(["object", *columns], rows)


def print_slow_clients(sides: Sequence[Side], clients: int) -> None:
    """Print the memory of servers whose clients read slowly."""
    print(f"\n{clients:,} clients, each of which reads 8 MB at 10 KB/s for {_SLOW_S:.0f} s: resident memory in MiB:\n")
    rows = []
    for side in sides:
        figures = measure_slow_clients(
            side.server.url,
            side.make_requests(_SLOW_BYTES, 0),
            side.server.process_id,
            clients=clients,
            bytes_per_s=_SLOW_BYTES_PER_S,
            duration_s=_SLOW_S,
        )
        row = (figures.before_mib, figures.peak_mib, figures.after_mib, figures.unanswered)
        rows.append([side.name, *map(str, row)])
    print_table(["server", "before", "peak", "after", "clients without a byte"], rows)


def peers(
    ends: contextlib.ExitStack, folder: Path, behind: Server, sizes: Sequence[int], rclone: Path | None
) -> list[Side]:
    """Start all peers that are installed, and name the others."""
    sides = []
    if nginx_binary():
        sides.append(hits(_NGINX, ends.enter_context(nginx_server(folder, sizes))))
    else:
        print("left out: nginx (install Debian's nginx-core)")
    if rclone is not None and can_serve_s3(rclone):
        for has_keys in (False, True):
            server = ends.enter_context(rclone_server(folder, rclone, behind, has_keys=has_keys))
            sides.append(hits(server.name, server))
    else:
        print(f"left out: rclone (go install {RCLONE}, then --rclone FILE)")
    sides.append(hits(_MOTO, ends.enter_context(moto_server(folder, sizes))))
    sides.append(hits("generated S3", ends.enter_context(generated_server(folder, sizes))))
    return sides


def can_serve_s3(rclone: Path) -> bool:
    """Return True if this version of rclone has an S3 server."""
    return subprocess.run([rclone, "serve", "s3", "--help"], capture_output=True, check=False).returncode == 0


def measure_hits(folder: Path, arguments: argparse.Namespace) -> None:
    """Measure hits."""
    sizes = arguments.sizes
    with contextlib.ExitStack() as ends:
        sides = gateways_and_peers(ends, folder, sizes, arguments.rclone)
        measure(sides, sizes, CONNECTIONS, arguments.rounds, arguments.seconds)
        print("\n## Hits")
        print_figures(sides, sizes)
        print_ratios(sides, sizes)


def measure_slow(folder: Path, arguments: argparse.Namespace) -> None:
    """Measure memory with slow clients."""
    with contextlib.ExitStack() as ends:
        sides = gateways_and_peers(ends, folder, [_SLOW_BYTES], arguments.rclone)
        memory = sides[0].server
        sides.insert(2, passed_through("gateway, through", memory))
        sides = [side for side in sides if side.name != _MOTO]  # it takes gigabytes
        for side in sides:  # brings the object into caches
            for request in side.make_requests(_SLOW_BYTES, 0) * 3:
                check_response(Side(side.name, side.server, side.make_requests), request, _SLOW_BYTES)
        print_slow_clients(sides, arguments.clients)


def gateways_and_peers(
    ends: contextlib.ExitStack, folder: Path, sizes: Sequence[int], rclone: Path | None
) -> list[Side]:
    """Start the gateway with the objects in memory, once more with the objects on disk, and all peers."""
    behind = ends.enter_context(generated_server(folder, sizes, core=LOAD_CORE))
    # With a bound on staleness, S3 confirms each small object from disk.
    disk = ("--memory-mib", "0", "--disk", str(folder / "disk"), "--freshness", "immutable")
    memory = ends.enter_context(gateway_server(folder, "gateway, memory", behind, "--memory-mib", "1024"))
    on_disk = ends.enter_context(gateway_server(folder, "gateway, disk", behind, *disk))
    ours = [hits(memory.name, memory, "hit"), hits(on_disk.name, on_disk, "hit")]
    return [*ours, *peers(ends, folder, behind, sizes, rclone)]


def measure_misses(folder: Path, arguments: argparse.Namespace) -> None:
    """Measure reads that S3 serves, straight and through the gateway: from a quick S3, and from one as slow as S3."""
    for title, delay_ms, mb_per_s in (("a quick S3", 0.0, 0.0), ("S3's latency and bandwidth", DELAY_MS, MB_PER_S)):
        is_quick = not delay_ms
        sizes = [size for size in arguments.sizes if is_quick or size < _LARGE_BYTES]
        with contextlib.ExitStack() as ends:
            origin = ends.enter_context(
                generated_server(folder, sizes, delay_ms=delay_ms, mb_per_s=mb_per_s, core=LOAD_CORE)
            )
            gateway = ends.enter_context(gateway_server(folder, f"gateway, {title}", origin))
            straight = misses("S3", origin)
            ours = [misses("gateway, miss", gateway, "miss"), passed_through("gateway, through", gateway)]
            sides = [straight, *ours]
            measure(sides, sizes, CONNECTIONS if is_quick else (1,), arguments.rounds, arguments.seconds)
            print(f"\n## Misses: {title}")
            if is_quick:
                print_figures(sides, sizes)
            print_added(straight, ours, sizes)


_PARTS = {"hits": measure_hits, "misses": measure_misses, "slow": measure_slow}


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser("python -m benchmarks.gateway", description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", choices=SIZES, default=list(SIZES), metavar="BYTES")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=1, help="of a round (default: %(default)s)")
    parser.add_argument("--clients", type=int, default=1_000, help="that read slowly (default: %(default)s)")
    parser.add_argument("--parts", nargs="+", choices=_PARTS, default=list(_PARTS), metavar="NAME")
    parser.add_argument("--rclone", type=Path, default=shutil.which("rclone"), help="rclone's binary")
    arguments = parser.parse_args()
    print(f"{environment()}, load {os.getloadavg()[0]:.1f}")
    if not has_wrk():
        print("left out: everything (install Debian's wrk)")
        return
    with tempfile.TemporaryDirectory(prefix="gateway-") as folder:
        for part in arguments.parts:
            place = Path(folder, part)
            place.mkdir()
            _PARTS[part](place, arguments)


if __name__ == "__main__":
    main()
