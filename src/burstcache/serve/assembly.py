"""A reader made of its parts: what the proxy and a client in the caller's process share."""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING

from burstcache.access import ExpressAccess, node_named
from burstcache.adapters.clock import Clock
from burstcache.adapters.digest_reader import DigestReader, at_once, in_thread, read_digest
from burstcache.adapters.event_publisher import EventPublisher, GatheredReports
from burstcache.adapters.object_store import ObjectStore
from burstcache.adapters.patience import Patience, in_time
from burstcache.adapters.secrets import Secrets
from burstcache.adapters.single_flight import NEXT_AFTER_S, PATIENT_NEXT_AFTER_S
from burstcache.core.digest import MAX_AGE_S, Route
from burstcache.core.parameters import US_PER_S
from burstcache.serve.memory_tier import Heads, Memory
from burstcache.serve.own_copies import IMMUTABLE_S, MAX_STALE_S, STRONG_S
from burstcache.serve.reader import EXPRESS, Reader, ignored
from burstcache.serve.s3_tier import Larger, Reports, S3Tier
from burstcache.serve.tier import Tier
from burstcache.serve.tiers import FellBack
from burstcache.settings.reader import ReaderSettings

if TYPE_CHECKING:
    from burstcache.adapters.clients import Clients
    from burstcache.adapters.event_batches import EventBatches
    from burstcache.core.gathering import GatherRule
    from burstcache.core.messages.operations import FollowWrite
    from burstcache.serve.writer import Writer

_HEADS_BYTES = 4 << 20  # of some three thousand large objects


def make_reader(
    settings: ReaderSettings,
    clients: Clients,
    clock: Clock,
    *,
    publisher: Reports | None = None,
    larger: Larger = "redirect",
    memory_bytes: int = 0,
    max_stale_s: float = MAX_STALE_S,
    reads_ahead: bool = True,
    fell_back: FellBack = ignored,
) -> Reader:
    """Return a reader of a stack's objects, or without a table and a bus in the settings of a bucket's alone.

    Its clients of S3, the table and the bus are made now, what only keys in a tier need at the first of them.

    Args:
        settings: Names and addresses of the stack's parts.
        clients: Makes the clients of AWS's services.
        clock: The time that tiers, breakers and what is remembered go by.
        publisher: Where reads are reported; None for a publisher whose reads wait for their reports, as a function
            must that is frozen after its answer. Where nodes take guests it gathers them over several reads.
        larger: How objects are answered that are too large to be cached. Of those that are left to the caller, what S3
            says is remembered.
        memory_bytes: What the memory tier takes at most [bytes]; 0: there is none.
        max_stale_s: As for `Reader` [s].
        reads_ahead: Whether a thread reads the digest anew while reads go on with what is known. In a function that is
            frozen after its answer the Query would be frozen with it, and the next read would wait for its time-out.
        fell_back: As for `Reader`.
    """

    patience = Patience(clock=clock)

    @cache
    def secrets() -> Secrets:
        return Secrets(clients.secrets)

    def fence_us() -> int:
        return 0 if digest is None else digest.fence_us

    def make_tier(route: Route) -> Tier:
        # redis and nats cost more to import than all the rest, and most processes never meet a hot key.
        if route.tier == "redis":
            from burstcache.adapters.redis_objects import RedisObjects
            from burstcache.serve.redis_tier import RedisGuestTier, RedisNodeTier

            node = node_named(route.node, settings.redis_nodes)
            objects = RedisObjects(node, secrets(), settings.redis, patience=patience)
            return RedisGuestTier(objects, settings.max_object_bytes) if route.is_guest else RedisNodeTier(objects)
        if express is not None and route == EXPRESS:
            return express
        from burstcache.adapters.relay_requests import RelayRequests
        from burstcache.serve.cache_function_tier import LambdaTier

        return LambdaTier(RelayRequests(settings.relay, secrets(), clock), patience, fence_us)

    if not settings.bus_name or max_stale_s == STRONG_S:  # no key gets hot for a reader that asks no tier
        publisher = None
    elif publisher is None:
        publisher = EventPublisher(settings.bus_name, clients.events, clock)
        if settings.takes_guests:
            publisher = GatheredReports(publisher, clock, _gather_rule(settings.express))
    digest = None
    if settings.table_name:
        vouches = (
            bool(memory_bytes) or larger == "leave"
        ) and STRONG_S < max_stale_s < IMMUTABLE_S  # for what memory serves
        read = partial(read_digest, clients.dynamodb, settings.table_name, is_consistent=vouches)
        digest = DigestReader(
            in_time(read, patience),
            clock,
            max_age_s=MAX_AGE_S if max_stale_s == STRONG_S else min(MAX_AGE_S, max_stale_s),
            start=in_thread if reads_ahead else at_once,
            patience=patience,
        )
    # Without a stack nobody takes the copy of a written object away: only objects that never change have copies.
    has_express = bool(settings.express.bucket_name) and (digest is not None or max_stale_s == IMMUTABLE_S)
    store = ObjectStore(settings.bucket_name, clients.s3)
    express = _express_tier(settings, clients, patience, clock) if has_express and max_stale_s != STRONG_S else None
    origin = S3Tier(store, publisher, clock, max_object_bytes=settings.max_object_bytes, larger=larger)
    return Reader(
        digest,
        origin,
        make_tier,
        clock,
        memory=Memory(memory_bytes, max_object_bytes=settings.max_object_bytes) if memory_bytes else None,
        heads=Heads(_HEADS_BYTES, above_bytes=settings.max_object_bytes) if larger == "leave" else None,
        has_express=express is not None,
        max_stale_s=max_stale_s,
        fell_back=fell_back,
        patience=patience,
        prefix=settings.origin_prefix,
        next_after_s=NEXT_AFTER_S if larger == "redirect" else PATIENT_NEXT_AFTER_S,
    )


def make_writer(settings: ReaderSettings, clients: Clients, reader: Reader) -> Writer:
    """Return a writer of a stack's objects, or of a bucket's alone, in the process of this reader."""
    # A reader that never writes need not import this.
    from burstcache.adapters.functions import invoke_by_name
    from burstcache.serve.writer import Writer

    def drop_copies(written: FollowWrite) -> object:
        return invoke_by_name(clients.functions, settings.origin_function_name)(written)

    return Writer(
        store=ObjectStore(settings.bucket_name, clients.s3),
        prefix=settings.origin_prefix,
        drop_copies=drop_copies if settings.origin_function_name else None,
        forget=reader.forget,
    )


def make_batches(settings: ReaderSettings, clients: Clients, clock: Clock) -> EventBatches:
    """Return what reports a reader's reads in a process that goes on."""
    from burstcache.adapters.event_batches import EventBatches
    from burstcache.core.gathering import AT_LEAST_US

    bus, events = settings.bus_name, clients.events
    if not settings.takes_guests:
        return EventBatches(bus, events, clock)
    return EventBatches(bus, events, clock, every_s=AT_LEAST_US / US_PER_S, rule=_gather_rule(settings.express))


def _gather_rule(access: ExpressAccess) -> GatherRule:
    # Prices of three regions: only readers of nodes that take guests need them.
    from burstcache.core.gathering import gather_rule
    from burstcache.core.worth import Worth, reading_prices, sheet_of_region, wait_usd_from_text

    prices = reading_prices(sheet_of_region(access.region), has_express=bool(access.bucket_name))
    return gather_rule(Worth(wait_usd_from_text(access.hit_value_usd_per_million), prices))


def _express_tier(settings: ReaderSettings, clients: Clients, patience: Patience, clock: Clock) -> Tier:
    # A process without a directory bucket need not import this.
    from burstcache.adapters.express_copies import ExpressCopies
    from burstcache.core.express import express_rule
    from burstcache.core.worth import sheet_of_region, wait_usd_from_text
    from burstcache.serve.express_tier import ExpressTier

    express = settings.express
    rule = express_rule(
        sheet_of_region(express.region), hit_value_usd=float(wait_usd_from_text(express.hit_value_usd_per_million))
    )
    copies = ExpressCopies(express.bucket_name, clients.express)
    return ExpressTier(copies, rule, clock, max_object_bytes=settings.max_object_bytes, patience=patience)
