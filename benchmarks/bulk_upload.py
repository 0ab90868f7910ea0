"""A bulk upload into the bucket of a new account, while the front door and a client read, in a local run.

    python -m benchmarks.bulk_upload [--per-s 50 500] [--seconds 25]

An account of ten units. Events of new objects reach the default bus at the stated rate, as S3 sends them. Meanwhile one
reader reads an object at the front door, and a client with a memory reads another one, which a third party overwrites
straight in S3 every half second. Each rate runs with `OriginEvents` = `direct` and `queue`.
"""

from __future__ import annotations

import argparse
import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import boto3

from benchmarks.support.common import environment
from burstcache.client import Client
from burstcache_local.cloud import LocalCloud, LocalOptions
from burstcache_local.lambdas.limits import LambdaLimits
from burstcache_terminal.text import table_text

UNITS = 10  # of a new account
_EVENTS_AT_ONCE = 10  # of PutEvents
_READ_EVERY_S, _OVERWRITE_EVERY_S, _CLIENT_EVERY_S = 0.25, 0.5, 0.05
_UNSAID_S = 1.0  # readers are not told of waits of up to half of it
_READ, _WATCHED = "read", "watched"


@dataclass
class Upload:
    """The observations of readers during an upload.

    Attributes:
        events: Events that were sent.
        served: Reads at the front door that were answered.
        refused: Reads at the front door that got a 503.
        stale_s: The greatest staleness that the client saw [s].
        bound_s: The greatest bound that came with an answer [s].
        beyond: Answers that were staler than their bound and the second of which readers are not told.
        client_reads: Reads by the client.
    """

    events: int = 0
    served: int = 0
    refused: int = 0
    stale_s: float = 0.0
    bound_s: float = 0.0
    beyond: int = 0
    client_reads: int = 0
    written_s: list[float] = field(default_factory=list)  # time of each version of the watched object


def measure(origin_events: str, per_s: float, lasts_s: float) -> Upload:
    """Run readers while events arrive at a rate, and return their observations."""
    upload = Upload()
    parameters = {"Relay": "none", "RedisNodeCount": "0", "OriginEvents": origin_events}
    limits = LambdaLimits(concurrency=UNITS, environments=UNITS + 2)
    with LocalCloud(LocalOptions(parameters=parameters, limits=limits)) as cloud:
        cloud.client("s3").put_object(Bucket=cloud.bucket_name, Key=_READ, Body=b"x" * 1_000)
        _overwrite(cloud, upload)
        end_s = time.monotonic() + lasts_s
        threads = [
            threading.Thread(target=_repeat, args=(every_s, end_s, work))
            for every_s, work in (
                (_EVENTS_AT_ONCE / per_s, lambda: _announce_objects(cloud, upload)),
                (_READ_EVERY_S, lambda: _read_at_the_front_door(cloud, upload)),
                (_OVERWRITE_EVERY_S, lambda: _overwrite(cloud, upload)),
            )
        ]
        where: dict[str, Any] = {
            "stack_name": cloud.stack_name,
            "session": boto3.Session("local", "local", region_name=cloud.region),
            "endpoint_urls": {"": cloud.endpoint_url},
        }
        with Client(**where, memory_bytes=1 << 20) as client:
            client.get(_WATCHED)
            for thread in threads:
                thread.start()
            _repeat(_CLIENT_EVERY_S, end_s, lambda: _read_by_the_client(client, upload))
            for thread in threads:
                thread.join()
    return upload


def _repeat(every_s: float, end_s: float, work: Callable[[], None]) -> None:
    """Do work at a rate, or as fast as it goes, until the end."""
    due_s = time.monotonic()
    while (now_s := time.monotonic()) < end_s:
        if now_s < due_s:
            time.sleep(min(due_s, end_s) - now_s)
            continue
        work()
        due_s += every_s


def _announce_objects(cloud: LocalCloud, upload: Upload) -> None:
    entries = [
        {
            "Source": "aws.s3",
            "DetailType": "Object Created",
            "Detail": json.dumps(
                {"bucket": {"name": cloud.bucket_name}, "object": {"key": f"new/{upload.events + at}"}}
            ),
        }
        for at in range(_EVENTS_AT_ONCE)
    ]
    cloud.client("events").put_events(Entries=entries)
    upload.events += _EVENTS_AT_ONCE


def _read_at_the_front_door(cloud: LocalCloud, upload: Upload) -> None:
    try:
        with urllib.request.urlopen(f"{cloud.front_url}/objects/{_READ}") as answer:
            answer.read()
        upload.served += 1
    except urllib.error.HTTPError as error:
        if error.code != 503:
            raise
        upload.refused += 1


def _overwrite(cloud: LocalCloud, upload: Upload) -> None:
    version = len(upload.written_s)
    cloud.client("s3").put_object(Bucket=cloud.bucket_name, Key=_WATCHED, Body=str(version).encode())
    upload.written_s.append(time.monotonic())


def _read_by_the_client(client: Client, upload: Upload) -> None:
    began_s = time.monotonic()
    answer = client.get(_WATCHED)
    version, bound_s = int(answer.body), answer.bound_ms / 1_000
    newer_s = upload.written_s[version + 1 : version + 2]
    stale_s = max((began_s - at_s for at_s in newer_s), default=0.0)
    upload.client_reads += 1
    upload.stale_s, upload.bound_s = max(upload.stale_s, stale_s), max(upload.bound_s, bound_s)
    upload.beyond += stale_s > bound_s + _UNSAID_S


def main() -> None:
    """Upload at each rate, with and without the queue, and print what readers saw."""
    parser = argparse.ArgumentParser("python -m benchmarks.bulk_upload", description=__doc__.splitlines()[0])
    parser.add_argument("--per-s", type=float, nargs="+", default=[50.0, 500.0], help="objects a second")
    parser.add_argument("--seconds", type=float, default=25.0, help="length of each upload")
    args = parser.parse_args()
    print(environment())
    rows = []
    for per_s in args.per_s:
        for origin_events in ("direct", "queue"):
            upload = measure(origin_events, per_s, args.seconds)
            rows.append(
                (
                    f"{per_s:g}",
                    origin_events,
                    f"{upload.events / args.seconds:.0f}",
                    str(upload.served),
                    str(upload.refused),
                    f"{upload.stale_s:.1f}",
                    f"{upload.bound_s:.1f}",
                    f"{upload.beyond} of {upload.client_reads}",
                )
            )
    titles = ("Objects/s", "Events", "Sent/s", "Served", "503", "Stalest [s]", "Greatest bound [s]", "Beyond its bound")
    print(table_text(titles, rows))


if __name__ == "__main__":
    main()
