"""Stages for the tiers, one each: S3 and S3 Express by moto, a real Redis, a cache function behind a real relay."""

from __future__ import annotations

import asyncio
import json
import threading
from abc import ABC, abstractmethod
from collections.abc import Coroutine
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any, ClassVar, TypeVar

from burstcache.access import RedisAccess, RedisNode, RelayAccess
from burstcache.adapters.adaptive_timeout import AdaptiveTimeout
from burstcache.adapters.clients import Clients
from burstcache.adapters.clock import instant
from burstcache.adapters.digest_reader import DigestReader
from burstcache.adapters.event_publisher import EventPublisher
from burstcache.adapters.express_copies import ExpressCopies
from burstcache.adapters.object_store import ObjectStore
from burstcache.adapters.redis_objects import RedisObjects
from burstcache.adapters.relay_listener import RelayListener, Respond
from burstcache.adapters.relay_requests import RelayRequests
from burstcache.adapters.secrets import Secrets
from burstcache.core.digest import Digest, Route
from burstcache.core.errors import ServiceTransientError
from burstcache.core.express import express_rule
from burstcache.core.keys import key_hash
from burstcache.core.prices import price_sheet
from burstcache.serve.cache_function_tier import LambdaTier
from burstcache.serve.express_tier import ExpressTier
from burstcache.serve.memory_tier import MemoryTier, Ticket
from burstcache.serve.reader import Reader
from burstcache.serve.redis_tier import RedisGuestTier, RedisNodeTier
from burstcache.serve.s3_tier import S3Tier
from burstcache.serve.tier import Tier
from burstcache.web.entry import Entry, encode
from burstcache.web.front_door import Arrival
from burstcache.web.reading import read_request
from burstcache.web.response import Response
from support.clock import ManualClock
from support.express import COPIES, URLS, make_copies
from support.servers import RedisServer, serve_nats
from support.waiting import LIMIT_S, free_port

T = TypeVar("T")

BUCKET = "origin"
MAX_OBJECT_BYTES = 4 << 20


class FixedRoutes:
    """Routes that send every key to one tier, and know all writes."""

    backlog_s, is_behind = 0.0, False

    def __init__(self, route: Route | None, *, home: Route | None = None) -> None:
        self._route, self._home = route, home

    def route(self, _: str) -> Route | None:
        return self._route

    def home(self, _: str) -> Route | None:
        return self._home

    def forget(self, _: str) -> None:
        """Do nothing, as the routes are fixed."""


class Stage(ABC):
    """One tier and the reader in front of it. Needs an active moto."""

    name: ClassVar[str]

    def __init__(self) -> None:
        self.clock, self.clients = ManualClock(), Clients("read", endpoint_urls=URLS)
        self.clients.s3.create_bucket(Bucket=BUCKET)
        self.clients.s3.meta.events.register("after-call.s3", self._date)
        self.store = ObjectStore(BUCKET, self.clients.s3)
        self.secrets = Secrets(self.clients.secrets)
        self.reader = self._reader()
        self._held: set[str] = set()

    def _date(self, parsed: dict[str, Any], **_: object) -> None:
        """Add the Date header, which S3 sends and in-process moto does not."""
        date = format_datetime(datetime.fromtimestamp(self.clock.now_s, UTC), usegmt=True)
        parsed["ResponseMetadata"]["HTTPHeaders"].setdefault("date", date)

    def holds(self, key: str, body: bytes, **metadata: str) -> None:
        """Write an object to S3 and store S3's answer in the tier."""
        self.clients.s3.put_object(Bucket=BUCKET, Key=key, Body=body, ContentType="text/x-burst", Metadata=metadata)
        self.take(key_hash(key), self.store.fetch(key, max_bytes=MAX_OBJECT_BYTES))
        if key in self._held:
            self.read(key, "HEAD")  # S3 confirms any version other than the last one served
        self._held.add(key)

    def read(self, key: str, method: str = "GET", **headers: str) -> Response:
        """Send one request and return the answer."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        arrival = Arrival(method, f"/objects/{key}", (), named, "request-1")
        return self.reader.read(read_request(arrival, request_id="request-1", at_us=self.clock.now_us()))

    def _routes(self) -> FixedRoutes:
        return FixedRoutes(None if self.name == "s3" else Route(self.name, "node-1"))

    def _reader(self) -> Reader:
        routes = self._routes()
        return Reader(routes, self._origin(), lambda _: self.tier(), self.clock)  # type: ignore[arg-type]

    def _origin(self) -> S3Tier:
        publisher = EventPublisher("default", self.clients.events, self.clock)
        return S3Tier(self.store, publisher, self.clock, max_object_bytes=MAX_OBJECT_BYTES)

    @abstractmethod
    def tier(self) -> Tier:
        """Return the tier that the reader uses."""

    @abstractmethod
    def take(self, hash_: str, entry: Entry) -> None:
        """Store an entry in the tier."""

    @abstractmethod
    def lets_go(self, key: str) -> None:
        """Remove a key from the tier."""

    @abstractmethod
    def dies(self) -> None:
        """Kill the tier before its first read."""

    @abstractmethod
    def close(self) -> None:
        """Close connections and servers."""


class S3Stage(Stage):
    """Stage of the origin itself."""

    name = "s3"

    def tier(self) -> Tier:
        raise AssertionError("without a route the reader uses S3")

    def take(self, hash_: str, entry: Entry) -> None:
        """Do nothing, as S3 already has the object."""

    def lets_go(self, key: str) -> None:
        self.clients.s3.delete_object(Bucket=BUCKET, Key=key)

    def dies(self) -> None:
        nobody = Clients("read", endpoint_urls={"s3": f"http://127.0.0.1:{free_port()}"})
        self.store = ObjectStore(BUCKET, nobody.s3)
        self.reader = self._reader()

    def close(self) -> None:
        """Do nothing: moto keeps no connection."""


class RedisStage(Stage):
    """Stage of a node's Redis."""

    name = "redis"

    def __init__(self) -> None:
        super().__init__()
        self._server = RedisServer(free_port())
        self._server.start()
        node = RedisNode("node-1", "i-1", "127.0.0.1", self._server.port)
        self._objects = RedisObjects(node, self.secrets, RedisAccess(), timeout_s=LIMIT_S)

    def tier(self) -> Tier:
        return RedisNodeTier(self._objects)

    def take(self, hash_: str, entry: Entry) -> None:
        assert self._objects.put(hash_, entry, self._objects.take_lease(hash_))

    def lets_go(self, key: str) -> None:
        self._objects.remove(key_hash(key))

    def dies(self) -> None:
        self._server.kill()

    def close(self) -> None:
        self._objects.close()
        self._server.kill()


class GuestStage(RedisStage):
    """Stage of a node's Redis with a guest (read-through entry)."""

    def _routes(self) -> FixedRoutes:
        return FixedRoutes(None, home=Route("redis", "node-1", is_guest=True))

    def tier(self) -> Tier:
        return RedisGuestTier(self._objects, MAX_OBJECT_BYTES)

    def lets_go(self, key: str) -> None:
        self._objects.drop([key_hash(key)])


class ExpressStage(Stage):
    """Stage of a directory bucket with copies."""

    name = "express"

    def __init__(self) -> None:
        super().__init__()
        self._copies = make_copies(self.clients)

    def _reader(self) -> Reader:
        return Reader(None, self._origin(), lambda _: self.tier(), self.clock, has_express=True)

    def tier(self) -> Tier:
        rule = express_rule(price_sheet("today-us-east-1"), hit_value_usd=0)
        return ExpressTier(self._copies, rule, self.clock, max_object_bytes=MAX_OBJECT_BYTES)

    def take(self, hash_: str, entry: Entry) -> None:
        current = self._copies.read(hash_)
        assert self._copies.put(hash_, encode(entry), replaces=current.etag if current is not None else "")

    def lets_go(self, key: str) -> None:
        self._copies.put_tombstone(key_hash(key))

    def dies(self) -> None:
        nobody = Clients("read", endpoint_urls={"express": f"http://127.0.0.1:{free_port()}"})
        self._copies = ExpressCopies(COPIES, nobody.express)

    def close(self) -> None:
        """Do nothing: moto keeps no connection."""


class LambdaStage(Stage):
    """Stage of a cache function, which listens in its own thread."""

    name = "lambda"

    def __init__(self) -> None:
        super().__init__()
        port = free_port()
        self._server = serve_nats(port)
        access = RelayAccess(f"nats://127.0.0.1:{port}")
        self._requests = RelayRequests(access, self.secrets, self.clock, connect_timeout_s=LIMIT_S)
        self._listener = RelayListener(access, self.secrets)
        self._entries: dict[str, Entry] = {}
        self._subscriptions: dict[str, Any] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self._run(self._listener.open())

    def tier(self) -> Tier:
        return LambdaTier(self._requests, AdaptiveTimeout(least_s=LIMIT_S, most_s=LIMIT_S))

    def take(self, hash_: str, entry: Entry) -> None:
        async def answer(message: bytes, respond: Respond, _: float) -> None:
            entry = self._entries[hash_]
            is_head = json.loads(message)["method"] == "HEAD"
            await respond(encode(entry.without_body() if is_head else entry))

        self._entries[hash_] = entry
        if hash_ not in self._subscriptions:
            self._subscriptions[hash_] = self._run(self._listener.listen(f"get.{hash_}", queue=hash_, answer=answer))
            self._run(self._listener.flush())

    def lets_go(self, key: str) -> None:
        self._run(self._listener.drain(self._subscriptions.pop(key_hash(key))))

    def dies(self) -> None:
        self._server.kill()
        self._server.wait()

    def close(self) -> None:
        self._requests.close()
        self._run(self._listener.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self.dies()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(LIMIT_S)


class MemoryStage(Stage):
    """Stage of the reader's own memory, with an empty digest that never changes."""

    name = "memory"

    def __init__(self) -> None:
        self._memory = MemoryTier(16 * MAX_OBJECT_BYTES, max_object_bytes=MAX_OBJECT_BYTES)
        super().__init__()

    def _reader(self) -> Reader:
        self._is_dead = False
        digest = DigestReader(self._read_digest, self.clock)
        return Reader(digest, self._origin(), lambda _: self.tier(), self.clock, memory=self._memory)

    def _read_digest(self) -> Digest:
        if self._is_dead:
            raise ServiceTransientError("no answer")
        return Digest()

    def tier(self) -> Tier:
        raise AssertionError("the digest is empty")

    def take(self, hash_: str, entry: Entry) -> None:
        self._memory.put(hash_, entry, Ticket(0, instant(self.clock)))

    def lets_go(self, key: str) -> None:
        self._memory.drop(key_hash(key))

    def dies(self) -> None:
        """Make the digest unreadable once the staleness bound has passed, so that S3 has to confirm or to serve."""
        self._is_dead = True
        self._memory.drop(key_hash("key"))

    def close(self) -> None:
        """Do nothing, as there is no connection."""


STAGES: tuple[type[Stage], ...] = (S3Stage, ExpressStage, LambdaStage, RedisStage, GuestStage, MemoryStage)
