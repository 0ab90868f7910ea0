"""How fast access logs are read, and how much memory that takes: lines a minute on one core, bytes a request.

Every format is written to a temporary folder, unsorted, with keys of Zipf popularity, and read back in a process of
its own, whose processor time and peak memory are printed. The aim is 1 million lines a minute, and at most
32 bytes a request on top of 300 MB.

    python -m benchmarks.log_reading [--lines 1000000] [--keys 10000]
"""

from __future__ import annotations

import argparse
import gzip
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

from benchmarks.common import PROJECT, environment

_START = datetime(2026, 1, 1, tzinfo=UTC)
_AGENT = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0 Safari/537.36"
_CLOUDFRONT_FIELDS = (
    "date time x-edge-location sc-bytes c-ip cs-method cs(Host) cs-uri-stem sc-status cs(Referer) cs(User-Agent)"
)


def _s3(at: datetime, key: str) -> str:
    return (
        f"{'a' * 64} media [{at:%d/%b/%Y:%H:%M:%S} +0000] 192.0.2.3 {'b' * 64} 3E57427F3EXAMPLE REST.GET.OBJECT {key} "
        f'"GET /media/{key} HTTP/1.1" 200 - 48211 48211 17 12 "-" "{_AGENT}" - {"c" * 76} SigV4 '
        "ECDHE-RSA-AES128-GCM-SHA256 AuthHeader media.s3.eu-central-1.amazonaws.com TLSV1.2 - -\n"
    )


def _cloudfront(at: datetime, key: str) -> str:
    fields = (at.strftime("%Y-%m-%d\t%H:%M:%S"), "FRA6-C1", "48511", "192.0.2.3", "GET", "d1.cloudfront.net", f"/{key}")
    return "\t".join((*fields, "200", "-", _AGENT.replace(" ", "%20"))) + "\n"


def _alb(at: datetime, key: str) -> str:
    return (
        f"h2 {at:%Y-%m-%dT%H:%M:%S.%f}Z app/web/50dc6c495c0c9188 192.0.2.3:2817 10.0.0.1:80 0.000 0.001 0.000 200 200 "
        f'34 48511 "GET https://www.example.com:443/{key} HTTP/2.0" "{_AGENT}" ECDHE-RSA-AES128-GCM-SHA256 TLSv1.2 '
        f'arn:aws:elasticloadbalancing:eu-central-1:123456789012:targetgroup/web/73e2d6bc24d8a067 "Root=1-58337262-0" '
        f'"www.example.com" "session-reused" 0 {at:%Y-%m-%dT%H:%M:%S.%f}Z "forward" "-" "-" "10.0.0.1:80" '
        '"200" "-" "-"\n'
    )


def _combined(at: datetime, key: str) -> str:
    time_ = f"{at:%d/%b/%Y:%H:%M:%S} +0000"
    return f'192.0.2.3 - - [{time_}] "GET /{key} HTTP/1.1" 200 48211 "https://www.example.com/" "{_AGENT}"\n'


def _csv(at: datetime, key: str) -> str:
    return f"{(at - _START).total_seconds():.6f},{key},48211,GET,7,200\n"


def _arrival(at: datetime, key: str) -> str:
    return f"{(at - _START).total_seconds():.6f}\n"


FORMATS: dict[str, tuple[str, Callable[[datetime, str], str]]] = {
    "s3": ("", _s3),
    "cloudfront": (f"#Version: 1.0\n#Fields: {_CLOUDFRONT_FIELDS}\n", _cloudfront),
    "alb": ("", _alb),
    "combined": ("", _combined),
    "csv": ("t,key,size,op,client,status\n", _csv),
    "arrival": ("arrival_s\n", _arrival),
}


def _requests(lines: int, keys: int, is_sorted: bool) -> Iterator[tuple[datetime, str]]:
    random = Random(1)
    ranks = random.choices(range(keys), weights=[1 / rank for rank in range(1, keys + 1)], k=lines)
    for number, rank in enumerate(ranks):
        late_s = 0.0 if is_sorted else random.expovariate(1 / 600)
        yield _START + timedelta(seconds=number * 0.1 + late_s), f"photos/2026/{rank:06d}.jpg"


def _write(path: Path, name: str, lines: int, keys: int) -> None:
    header, line = FORMATS[name]
    with gzip.open(path, "wt", compresslevel=1) if path.suffix == ".gz" else path.open("w") as file:
        file.write(header)
        file.writelines(line(at, key) for at, key in _requests(lines, keys, is_sorted=name == "arrival"))


def _measure_here(path: str) -> None:
    """Read one file and print the processor time [s] and the peak memory [MB]; run in a process of its own."""
    from burstcache_sim.traces.read import read_trace

    started_s = time.process_time()
    trace = read_trace(path)
    used_s = time.process_time() - started_s
    print(len(trace), used_s, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument("--keys", type=int, default=10_000)
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        _measure_here(args.measure)
        return
    print(f"{environment()}; {args.lines:,} lines, {args.keys:,} keys")
    print(f"{'format':<16}{'million lines/min':>20}{'memory [MB]':>14}{'allowed [MB]':>14}")
    allowed_mb = 300 + 32 * args.lines / 1e6
    with tempfile.TemporaryDirectory() as folder:
        for name in (*FORMATS, "combined.gz"):
            path = Path(folder) / name
            _write(path, name.removesuffix(".gz"), args.lines, args.keys)
            command = [sys.executable, "-m", "benchmarks.log_reading", "--measure", str(path)]
            done = subprocess.run(command, cwd=PROJECT, check=True, capture_output=True, text=True)
            requests, used_s, memory_mb = map(float, done.stdout.split())
            if requests != args.lines:
                sys.exit(f"{name}: {requests:.0f} of {args.lines} requests were read")
            print(f"{name:<16}{requests / used_s * 60 / 1e6:>20.1f}{memory_mb:>14.0f}{allowed_mb:>14.0f}", flush=True)
            path.unlink()


if __name__ == "__main__":
    main()
