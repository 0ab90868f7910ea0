"""The reader in the caller's process, next to what it is built on and to what it replaces.

    python -m benchmarks.client [hits misses tasks table staleness] [--gets 400] [--seconds 1] [--keys 100]
        [--writes 200]

Each part prints a Markdown table; without a name all of them run. The sides of a hit and of a miss take turns, so that
a noisy machine disturbs all of them; those of `tasks` follow one another.

    hits       each tier by the client and by a wrapped boto3 client, next to the bare client of the tier's server,
               boto3's GET from the local S3, and the local front door
    misses     objects that no tier has, by boto3 and by the wrapped client
    tasks      many keys by 1, 8 and 64 threads and tasks of the client and of the tier's own, and by the front door
    table      how often the digest is read from the table for a million GETs
    staleness  how long after a write to the bucket a reader sees it, and the digest has it
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial

from benchmarks.client.hits import hits
from benchmarks.client.misses import misses
from benchmarks.client.staleness import staleness
from benchmarks.client.table import table
from benchmarks.client.tasks import tasks
from benchmarks.support.common import environment


def main() -> None:
    """Print the tables that are asked for."""
    parser = argparse.ArgumentParser("python -m benchmarks.client", description=__doc__.splitlines()[0])
    parts = ("hits", "misses", "tasks", "table", "staleness")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(parts)} (default: all)")
    parser.add_argument("--gets", type=int, default=400, help="GETs of each side of a row (default: 400)")
    parser.add_argument("--seconds", type=float, default=1.0, help="of each row of the part `tasks` (default: 1)")
    parser.add_argument("--keys", type=int, default=100, help="keys of the part `tasks` (default: 100)")
    parser.add_argument(
        "--writes", type=int, default=200, help="writes per tier of the part `staleness` (default: 200)"
    )
    arguments = parser.parse_args()
    if unknown := set(arguments.parts) - set(parts):
        parser.error(f"{', '.join(sorted(unknown))}: accepted: {', '.join(parts)}")
    print(environment())
    run: dict[str, Callable[[], None]] = {
        "hits": partial(hits, gets=arguments.gets),
        "misses": partial(misses, gets=arguments.gets),
        "tasks": partial(tasks, lasts_s=arguments.seconds, keys=arguments.keys),
        "table": table,
        "staleness": partial(staleness, writes=arguments.writes),
    }
    for part in arguments.parts or parts:
        run[part]()


if __name__ == "__main__":
    main()
