"""How fast access logs are read next to `zcat | wc -l`, which only unpacks them and counts their lines.

Every format is written to a temporary folder as gzip files, unsorted, with keys of Zipf popularity, and read in a
process of its own: by one process, and by as many as there are cores. Processor time, with that of the processes that
help, and time on the clock are divided by those of `zcat | wc -l` on the same files in the same run; peak memory is
that of the process that has the trace. Another checkout of this project can be measured next to it.

    python -m benchmarks.log_reading [--lines 1000000] [--keys 50000] [--files 100] [--only s3] [--former CHECKOUT]
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

from benchmarks.support.common import PROJECT, environment

_RANDOM = Random(2)  # of what differs from line to line, as in real logs: gzip must not have it too easy
_START = datetime(2026, 1, 1, tzinfo=UTC)
_AGENT = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0 Safari/537.36"
_CLOUDFRONT_FIELDS = (
    "date time x-edge-location sc-bytes c-ip cs-method cs(Host) cs-uri-stem sc-status cs(Referer) cs(User-Agent) "
    "x-edge-request-id"
)


def _hex(digits: int) -> str:
    return f"{_RANDOM.getrandbits(4 * digits):0{digits}x}"


def _address() -> str:
    return f"192.0.{_RANDOM.randrange(256)}.{_RANDOM.randrange(256)}"


def _s3(at: datetime, key: str) -> str:
    return (
        f"{'a' * 64} media [{at:%d/%b/%Y:%H:%M:%S} +0000] {_address()} {'b' * 64} {_hex(16).upper()} "
        f"REST.GET.OBJECT {key} "
        f'"GET /media/{key} HTTP/1.1" 200 - 48211 48211 {_RANDOM.randrange(99)} 12 "-" "{_AGENT}" - {_hex(76)} SigV4 '
        "ECDHE-RSA-AES128-GCM-SHA256 AuthHeader media.s3.eu-central-1.amazonaws.com TLSV1.2 - -\n"
    )


def _cloudfront(at: datetime, key: str) -> str:
    fields = (at.strftime("%Y-%m-%d\t%H:%M:%S"), "FRA6-C1", "48511", _address(), "GET", "d1.cloudfront.net", f"/{key}")
    return "\t".join((*fields, "200", "-", _AGENT.replace(" ", "%20"), _hex(56))) + "\n"


def _alb(at: datetime, key: str) -> str:
    return (
        f"h2 {at:%Y-%m-%dT%H:%M:%S.%f}Z app/web/50dc6c495c0c9188 {_address()}:2817 10.0.0.1:80 0.000 0.001 0.000 200 "
        f'200 34 48511 "GET https://www.example.com:443/{key} HTTP/2.0" "{_AGENT}" ECDHE-RSA-AES128-GCM-SHA256 TLSv1.2 '
        f"arn:aws:elasticloadbalancing:eu-central-1:123456789012:targetgroup/web/73e2d6bc24d8a067 "
        f'"Root=1-58337262-{_hex(24)}" '
        f'"www.example.com" "session-reused" 0 {at:%Y-%m-%dT%H:%M:%S.%f}Z "forward" "-" "-" "10.0.0.1:80" '
        '"200" "-" "-"\n'
    )


def _combined(at: datetime, key: str) -> str:
    time_ = f"{at:%d/%b/%Y:%H:%M:%S} +0000"
    return f'{_address()} - - [{time_}] "GET /{key} HTTP/1.1" 200 48211 "https://www.example.com/" "{_AGENT}"\n'


def _csv(at: datetime, key: str) -> str:
    return f"{(at - _START).total_seconds():.6f},{key},48211,GET,7,200\n"


def _arrival(at: datetime, key: str) -> str:
    return f"{(at - _START).total_seconds():.6f}\n"


def _s3_encoded(at: datetime, key: str) -> str:
    return _s3(at, key.replace("/", "%252F").replace(".", "%2520of%2520us."))


def _cloudfront_json(at: datetime, key: str) -> str:
    times = {"date": f"{at:%Y-%m-%d}", "time": f"{at:%H:%M:%S}", "x-edge-location": "FRA6-C1", "sc-bytes": "48511"}
    asked = {"c-ip": _address(), "cs-method": "GET", "cs-uri-stem": f"/{key}", "sc-status": "200"}
    return json.dumps(times | asked | {"cs(User-Agent)": _AGENT, "x-edge-request-id": _hex(56)}) + "\n"


FORMATS: dict[str, tuple[str, Callable[[datetime, str], str]]] = {
    "s3": ("", _s3),
    "s3, %2520": ("", _s3_encoded),
    "cloudfront": (f"#Version: 1.0\n#Fields: {_CLOUDFRONT_FIELDS}\n", _cloudfront),
    "cloudfront-json": ("", _cloudfront_json),
    "alb": ("", _alb),
    "combined": ("", _combined),
    "csv": ("t,key,size,op,client,status\n", _csv),
    "arrival": ("arrival_s\n", _arrival),
}


@dataclass(frozen=True, slots=True)
class Took:
    """What a process and those that it started took."""

    cpu_s: float
    wall_s: float
    memory_mb: float = 0.0

    def over(self, other: Took) -> str:
        """Return processor time and time on the clock as multiples of another's."""
        return f"{self.cpu_s / other.cpu_s:>9.2f}{self.wall_s / other.wall_s:>9.2f}"


def _requests(lines: int, keys: int, is_sorted: bool) -> Iterator[tuple[datetime, str]]:
    random = Random(1)
    ranks = random.choices(range(keys), weights=[1 / rank for rank in range(1, keys + 1)], k=lines)
    for number, rank in enumerate(ranks):
        late_s = 0.0 if is_sorted else random.expovariate(1 / 600)
        yield _START + timedelta(seconds=number * 0.1 + late_s), f"photos/2026/{rank:06d}.jpg"


def _write(folder: Path, name: str, lines: int, keys: int, files: int) -> None:
    header, line = FORMATS[name]
    requests = _requests(lines, keys, is_sorted=name == "arrival")
    for number in range(files):
        with gzip.open(folder / f"{number:05d}.gz", "wt", compresslevel=6) as file:
            file.write(header)
            file.writelines(line(*next(requests)) for _ in range(lines // files))


def _measured(command: list[str], lines: int, cwd: Path = PROJECT) -> Took:
    """Run a command that prints how many lines or requests it found, and perhaps its peak memory [MB]."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started_s = time.perf_counter()
    done = subprocess.run(command, cwd=cwd, check=True, capture_output=True, text=True)
    wall_s = time.perf_counter() - started_s
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    found, *memory_mb = done.stdout.split()
    if int(found) < lines:
        sys.exit(f"{' '.join(command)}: {found} of {lines} lines were read")
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Took(cpu_s, wall_s, float(memory_mb[0]) if memory_mb else 0.0)


def _measure_here(folder: str, processes: int) -> None:
    """Read a folder and print the number of requests and the peak memory [MB]; run in a process of its own."""
    from burstcache_sim.traces.read import read_log

    log = read_log(folder, processes=processes)
    print(len(log.trace), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def _former(checkout: Path, folder: Path) -> list[str]:
    """Return the command that reads a folder by another checkout's reader, in one process."""
    paths = [str(checkout / root) for root in ("src", "tools")]
    program = (
        f"import sys; sys.path[:0] = {paths}; from burstcache_sim.traces.read import read_trace; "
        f"print(len(read_trace({str(folder)!r})))"
    )
    return [sys.executable, "-c", program]


def _measure(folder: Path, name: str, lines: int, former: Path | None) -> None:
    unpacked = _measured(["sh", "-c", f"zcat {folder}/*.gz | wc -l"], lines)
    by_one, by_all = (
        _measured([sys.executable, "-m", "benchmarks.log_reading", "--measure", str(folder), str(processes)], lines)
        for processes in (1, os.cpu_count() or 1)
    )
    row = f"{name:<16}{unpacked.cpu_s:>8.2f}{by_one.over(unpacked)}{by_all.over(unpacked)}{by_one.memory_mb:>9.0f}"
    if former:
        row += _measured(_former(former, folder), lines, former).over(unpacked)
    print(row, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--lines", type=int, default=1_000_000)
    add("--keys", type=int, default=50_000)
    add("--files", type=int, default=100)
    add("--only", action="append", choices=FORMATS, help="a format (repeatable; default: all)")
    add("--former", type=Path, help="a checkout of this project, for formats that it reads")
    add("--measure", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        _measure_here(args.measure[0], int(args.measure[1]))
        return
    lines = args.lines // args.files * args.files
    print(f"{environment()}; {lines:,} lines in {args.files} files, {args.keys:,} keys; multiples of `zcat | wc -l`")
    print(f"{'':<16}{'zcat':>8}{'one process':>18}{'all cores':>18}{'':>9}{'former' if args.former else '':>18}")
    names = ("CPU [s]", *("CPU", "clock") * 2, "[MB]", *(("CPU", "clock") if args.former else ()))
    print(f"{'format':<16}{names[0]:>8}" + "".join(f"{name:>9}" for name in names[1:]))
    for name in args.only or FORMATS:
        with tempfile.TemporaryDirectory() as folder:
            files = 1 if name == "arrival" else args.files  # of one key there is one file
            _write(Path(folder), name, lines, args.keys, files)
            _measure(Path(folder), name, lines, args.former if "json" not in name else None)


if __name__ == "__main__":
    main()
