"""Keys in a tier: objects are put, and read until the digest has all of them there."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from benchmarks.client.common import access_of
from benchmarks.hits import Cloud
from burstcache.adapters.digest_reader import read_digest
from burstcache.client import Client
from burstcache.client.configuration import configure
from burstcache.core.digest import Digest
from burstcache.core.keys import key_hash

_HEAT_EVERY_S = 0.5
_HOT_LIMIT_S = 150.0


def put_all(cloud: Cloud, names: Iterable[str], body: bytes) -> None:
    """Put an object under each name."""
    s3 = cloud.client("s3")
    for name in names:
        s3.put_object(Bucket=cloud.bucket_name, Key=name, Body=body)


def heat_all(cloud: Cloud, names: Sequence[str], tier: str) -> None:
    """Read keys by a client, whose reports are the lightest load, until the digest has all of them in `tier`."""
    digest_now = digest_of(cloud)
    left, end_s = list(names), time.perf_counter() + _HOT_LIMIT_S
    with Client(**access_of(cloud), memory_bytes=0) as client:
        while left:
            if time.perf_counter() > end_s:
                sys.exit(f"{len(left)} of {len(names)} keys are not in {tier} after {_HOT_LIMIT_S:.0f} s")
            client.get_many(left)
            time.sleep(_HEAT_EVERY_S)
            digest, now_us = digest_now(), time.time_ns() // 1000
            routes = {name: digest.route(key_hash(name), now_us=now_us) for name in left}
            left = [name for name, route in routes.items() if route is None or route.tier != tier]


def digest_of(cloud: Cloud) -> Callable[[], Digest]:
    """Return a way to read the digest of a cloud now."""
    table_name = configure(**access_of(cloud), bucket="").settings.table_name
    return partial(read_digest, cloud.client("dynamodb"), table_name)
