"""Reads of slice files beside a plain open, pread and close of the same bytes, in one run.

The files are in the page cache. The sides take turns, and other work on the machine hardly changes the lower decile of
their durations. `limit` is 1.3 times the plain read and 30 us, and for the checksum the CRC-32 of the same bytes.

    python -m benchmarks.slice_files [--rounds 5000] [--folder FOLDER]
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.support.common import environment
from burstcache.adapters.slice_files import SliceFiles
from burstcache.adapters.slice_header import crc32, header_bytes

MB = 1 << 20
BLOCK = 64 << 10
SLICES = 32
Call = Callable[[int], object]


def names() -> list[str]:
    """Return the names of the slices."""
    return [f"{number * 8:02x}{number:030x}" for number in range(SLICES)]


def lower_deciles_us(rounds: int, calls: dict[str, Call]) -> dict[str, float]:
    """Return the lower decile of the durations of each call, of which each round makes one [us]."""
    taken: dict[str, list[float]] = {what: [] for what in calls}
    for number in range(rounds):
        for what, call in calls.items():
            begun = time.perf_counter()
            call(number % SLICES)
            taken[what].append((time.perf_counter() - begun) * 1e6)
    return {what: statistics.quantiles(durations, n=10)[0] for what, durations in taken.items()}


def reads(folder: Path, size_bytes: int) -> dict[str, Call]:
    """Return the ways to read as many bytes of a slice of 1 MiB."""
    files, slices = SliceFiles(folder / "slices", 1 << 30), names()
    body = os.urandom(MB)
    for name in slices:
        files.write(name, body)
    paths = [str(path) for name in slices for path in (folder / "slices").glob(f"??/{name}.slice")]
    header, start = header_bytes(MB), (MB - size_bytes) // 2 // BLOCK * BLOCK
    into = memoryview(bytearray(size_bytes))
    part = memoryview(body)[:size_bytes]

    def plain(which: int) -> None:
        file = os.open(paths[which], os.O_RDONLY)
        os.pread(file, size_bytes, header + start)
        os.close(file)

    def absent(which: int) -> None:
        assert files.read(f"{which:02x}{'f' * 30}") is None

    def read_into(which: int) -> None:
        assert files.read_into(slices[which], start, into)

    def read(which: int) -> None:
        assert files.read(slices[which]) is not None

    calls: dict[str, Call] = {"plain": plain, "crc": lambda _: crc32(part), "read_into": read_into, "absent": absent}
    return calls | {"read": read} if size_bytes == MB else calls


def writes(folder: Path) -> dict[str, Call]:
    """Return the ways to write a slice of 1 MiB."""
    files, body, written = SliceFiles(folder / "written", 1 << 30), os.urandom(MB), iter(range(1 << 60))

    def plain(_: int) -> None:
        file = os.open(folder / f"plain-{next(written)}", os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        os.write(file, body)
        os.close(file)

    def write(_: int) -> None:
        number = next(written)
        assert files.write(f"{number % 256:02x}{number:030x}", body)

    return {"plain": plain, "write": write}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5000, help="reads per row and side")
    parser.add_argument("--folder", type=Path, help="folder on the disk to measure (default: the temporary one)")
    arguments = parser.parse_args()
    print(f"{environment()}, CRC-32 of {crc32.__module__ or 'isal'}")
    print("           plain us    CRC us   read_into      read  limit us    absent   (lower deciles)")
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        for size_bytes in (300, BLOCK, MB):
            took = lower_deciles_us(arguments.rounds, reads(Path(folder), size_bytes))
            limit = 1.3 * took["plain"] + 30 + took["crc"]
            columns = (
                took["plain"],
                took["crc"],
                took["read_into"],
                took.get("read", float("nan")),
                limit,
                took["absent"],
            )
            print(f"{size_bytes:>9} " + " ".join(f"{column:9.1f}" for column in columns))
        took = lower_deciles_us(arguments.rounds // 10, writes(Path(folder)))
        print(f"write of 1 MiB: plain {took['plain']:.0f} us, slice {took['write']:.0f} us")


if __name__ == "__main__":
    main()
