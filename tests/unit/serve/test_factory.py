"""A reader of a stack made of its parts: what it asks of the digest follows from what it keeps."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from burstcache.access import ExpressAccess, RedisAccess, RelayAccess
from burstcache.core.keys import key_hash
from burstcache.core.messages.events import ObjectRequested, RequestsServed
from burstcache.serve.factory import make_reader
from burstcache.serve.local_cache import IMMUTABLE_S
from burstcache.settings.reader import ReaderSettings
from burstcache.web.request import Request
from support.aws import BUCKET, TABLE, clients, make_stack, mocked_aws
from support.clock import ManualClock

_SETTINGS = ReaderSettings(
    table_name=TABLE,
    bucket_name=BUCKET,
    origin_prefix="",
    bus_name="",
    relay=RelayAccess(""),
    redis=RedisAccess(),
    redis_nodes=(),
    max_object_bytes=100,
    express=ExpressAccess(),
    takes_guests=False,
    origin_function_name="",
)


@pytest.mark.parametrize(
    ("memory_bytes", "max_stale_s", "is_consistent"), [(0, 2.0, False), (1_000, 2.0, True), (1_000, IMMUTABLE_S, False)]
)
def test_the_digest_is_read_strongly_where_it_vouches_for_what_memory_serves(
    memory_bytes: int, max_stale_s: float, is_consistent: bool
) -> None:
    asked: list[dict[str, Any]] = []
    with mocked_aws():
        make_stack()
        made = clients()
        made.dynamodb.meta.events.register(
            "provide-client-params.dynamodb.Query", lambda params, **_: asked.append(params)
        )
        reader = make_reader(_SETTINGS, made, ManualClock(), memory_bytes=memory_bytes, max_stale_s=max_stale_s)
        reader.read(Request("GET", "a", key_hash("a"), {}, None, "", 0))

    assert [query["ConsistentRead"] for query in asked] == [is_consistent]


@dataclass
class Bus:
    """Keeps what a reader reports."""

    events: list[ObjectRequested | RequestsServed] = field(default_factory=list)

    def start(self, event: ObjectRequested | RequestsServed) -> None:
        self.events.append(event)

    def finish(self, report: None) -> None:
        """Nobody waits."""

    def close(self) -> None:
        """Nothing is open."""


@pytest.mark.parametrize(("takes_guests", "hits_reported"), [(False, 3), (True, 0)])
def test_hits_of_memory_are_reported_unless_nodes_hold_read_through_entries(
    takes_guests: bool, hits_reported: int
) -> None:
    settings, bus = replace(_SETTINGS, bus_name="bus", takes_guests=takes_guests), Bus()
    with mocked_aws():
        make_stack()
        made = clients()
        made.s3.put_object(Bucket=BUCKET, Key="a", Body=b"1")
        reader = make_reader(settings, made, ManualClock(), publisher=bus, memory_bytes=1 << 20)
        request = Request("GET", "a", key_hash("a"), {}, None, "", 0)
        tiers = [reader.read(request).headers["x-cache-tier"] for _ in range(4)]
        reader.close()

    assert tiers == ["s3", "memory", "memory", "memory"]
    assert [event["key"] for event in bus.events if "key" in event] == ["a"]
    told = [served for event in bus.events if "keys" in event for served in event["keys"]]
    assert sum(len(served["requests"]) for served in told) == hits_reported
