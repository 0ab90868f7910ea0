"""Factory of readers and writers, for the proxy and for a client in the caller's process."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import TYPE_CHECKING

from burstcache.access import ExpressAccess, node_named
from burstcache.adapters.adaptive_timeout import AdaptiveTimeout, with_timeout
from burstcache.adapters.clock import Clock
from burstcache.adapters.digest_reader import DigestReader, at_once, in_thread, read_digest
from burstcache.adapters.event_publisher import BatchedReports, EventPublisher
from burstcache.adapters.object_store import ObjectStore, ignore_request
from burstcache.adapters.secrets import Secrets
from burstcache.adapters.single_flight import NEXT_AFTER_S, PATIENT_NEXT_AFTER_S
from burstcache.core.digest import MAX_AGE_S, Route
from burstcache.core.parameters import US_PER_S
from burstcache.serve.local_cache import IMMUTABLE_S, MAX_STALE_S, STRONG_S
from burstcache.serve.memory_tier import HeadCache, MemoryTier
from burstcache.serve.reader import EXPRESS, Reader, ignore_fallback
from burstcache.serve.s3_tier import Larger, ReportPublisher, S3Tier
from burstcache.serve.tier import Tier
from burstcache.serve.tiers import FellBack
from burstcache.settings.reader import ReaderSettings

if TYPE_CHECKING:
    from burstcache.adapters.clients import Clients
    from burstcache.adapters.event_batches import EventBatches
    from burstcache.core.batching import BatchRule
    from burstcache.core.messages.operations import FollowWrite
    from burstcache.serve.writer import Writer

_HEADS_BYTES = 4 << 20  # about 3,000 large objects


def make_reader(
    settings: ReaderSettings,
    clients: Clients,
    clock: Clock,
    *,
    publisher: ReportPublisher | None = None,
    larger: Larger = "redirect",
    most_body_bytes: int = 0,
    memory_bytes: int = 0,
    max_stale_s: float = MAX_STALE_S,
    reads_ahead: bool = True,
    fell_back: FellBack = ignore_fallback,
    requested: Callable[[], None] = ignore_request,
) -> Reader:
    """Return a reader of a stack's objects, or of a plain bucket if the settings name no table and no bus.

    The clients for S3, the table and the bus are created immediately, those for the tiers on first use.

    Args:
        settings: Names and addresses of the stack's parts.
        clients: Creates the AWS clients.
        clock: Clock for timeouts, circuit breakers and the age of copies.
        publisher: Publishes reports of reads. None: each read waits for its report, since a Lambda function is frozen
            after its response. With read-through entries, reports are batched across reads.
        larger: How to respond to reads of objects too large to cache. With `leave`, HEAD responses are cached, since
            the caller reads such objects in parts.
        most_body_bytes: As for `S3Tier` [bytes].
        memory_bytes: Size limit of the memory tier [bytes]. 0: no memory tier.
        max_stale_s: As for `Reader` [s].
        reads_ahead: Whether to refresh the digest in a background thread. Not in a Lambda function: it is frozen after
            its response, in the middle of DynamoDB's Query, and the next read would wait for its timeout.
        fell_back: As for `Reader`.
        requested: As for `ObjectStore`.
    """

    adaptive_timeout = AdaptiveTimeout(clock=clock)

    @cache
    def secrets() -> Secrets:
        return Secrets(clients.secrets)

    def fence_us() -> int:
        return 0 if digest is None else digest.fence_us

    def make_tier(route: Route) -> Tier:
        # Importing redis and nats takes longer than everything else, and most processes never read a hot key.
        if route.tier == "redis":
            from burstcache.adapters.redis_objects import RedisObjects
            from burstcache.serve.redis_tier import RedisGuestTier, RedisNodeTier

            node = node_named(route.node, settings.redis_nodes, host=route.host)
            objects = RedisObjects(node, secrets(), settings.redis, adaptive_timeout=adaptive_timeout)
            return RedisGuestTier(objects, settings.max_object_bytes) if route.is_guest else RedisNodeTier(objects)
        if express is not None and route == EXPRESS:
            return express
        from burstcache.adapters.relay_requests import RelayRequests
        from burstcache.serve.cache_function_tier import LambdaTier

        return LambdaTier(RelayRequests(settings.relay, secrets(), clock), adaptive_timeout, fence_us)

    if not settings.bus_name or max_stale_s == STRONG_S:  # a reader that skips all tiers needs no hot keys
        publisher = None
    elif publisher is None:
        publisher = EventPublisher(settings.bus_name, clients.events, clock)
        if settings.takes_guests:
            publisher = BatchedReports(publisher, clock, _gather_rule(settings.express))
    digest = None
    if settings.table_name:
        invalidates = (bool(memory_bytes) or larger == "leave") and STRONG_S < max_stale_s < IMMUTABLE_S
        read = partial(read_digest, clients.dynamodb, settings.table_name, is_consistent=invalidates)
        digest = DigestReader(
            with_timeout(read, adaptive_timeout),
            clock,
            max_age_s=MAX_AGE_S if max_stale_s == STRONG_S else min(MAX_AGE_S, max_stale_s),
            max_backlog_s=max_stale_s,
            start=in_thread if reads_ahead else at_once,
            adaptive_timeout=adaptive_timeout,
        )
    # Without a stack, writes do not invalidate copies in S3 Express, so only immutable objects are copied there.
    has_express = bool(settings.express.bucket_name) and (digest is not None or max_stale_s == IMMUTABLE_S)
    store = ObjectStore(settings.bucket_name, clients.s3, requested=requested)
    express = (
        _express_tier(settings, clients, adaptive_timeout, clock) if has_express and max_stale_s != STRONG_S else None
    )
    origin = S3Tier(
        store,
        publisher,
        clock,
        max_object_bytes=settings.max_object_bytes,
        larger=larger,
        most_body_bytes=most_body_bytes,
    )
    return Reader(
        digest,
        origin,
        make_tier,
        clock,
        memory=MemoryTier(memory_bytes, max_object_bytes=settings.max_object_bytes) if memory_bytes else None,
        heads=HeadCache(_HEADS_BYTES, above_bytes=settings.max_object_bytes) if larger == "leave" else None,
        has_express=express is not None,
        counts_memory_hits=not settings.takes_guests,
        max_stale_s=max_stale_s,
        fell_back=fell_back,
        adaptive_timeout=adaptive_timeout,
        prefix=settings.origin_prefix,
        next_after_s=NEXT_AFTER_S if larger == "redirect" else PATIENT_NEXT_AFTER_S,
    )


def make_writer(
    settings: ReaderSettings, clients: Clients, reader: Reader, *, requested: Callable[[], None] = ignore_request
) -> Writer:
    """Return a writer for a stack or a plain bucket. Its writes also invalidate the reader's local copies."""
    # Lazy imports: most processes only read.
    from burstcache.adapters.functions import invoke_by_name
    from burstcache.serve.writer import Writer

    def drop_copies(written: FollowWrite) -> object:
        return invoke_by_name(clients.functions, settings.origin_function_name)(written)

    return Writer(
        store=ObjectStore(settings.bucket_name, clients.s3, requested=requested),
        prefix=settings.origin_prefix,
        drop_copies=drop_copies if settings.origin_function_name else None,
        forget=reader.forget,
    )


def make_batches(settings: ReaderSettings, clients: Clients, clock: Clock) -> EventBatches:
    """Return a publisher of batched reports, for a process that is not frozen between reads."""
    from burstcache.adapters.event_batches import EventBatches
    from burstcache.core.batching import MIN_BATCH_AGE_US

    bus, events = settings.bus_name, clients.events
    if not settings.takes_guests:
        return EventBatches(bus, events, clock)
    return EventBatches(bus, events, clock, every_s=MIN_BATCH_AGE_US / US_PER_S, rule=_gather_rule(settings.express))


def _gather_rule(access: ExpressAccess) -> BatchRule:
    # Lazy imports: only readers of read-through entries need the price sheets.
    from burstcache.core.batching import batch_rule
    from burstcache.core.worth import Worth, reading_prices, sheet_of_region, wait_usd_from_text

    prices = reading_prices(sheet_of_region(access.region), has_express=bool(access.bucket_name))
    return batch_rule(Worth(wait_usd_from_text(access.hit_value_usd_per_million), prices))


def _express_tier(settings: ReaderSettings, clients: Clients, adaptive_timeout: AdaptiveTimeout, clock: Clock) -> Tier:
    # Lazy imports: only processes with a directory bucket need them.
    from burstcache.adapters.express_copies import ExpressCopies
    from burstcache.core.express import express_rule
    from burstcache.core.worth import sheet_of_region, wait_usd_from_text
    from burstcache.serve.express_tier import ExpressTier

    express = settings.express
    rule = express_rule(
        sheet_of_region(express.region), hit_value_usd=float(wait_usd_from_text(express.hit_value_usd_per_million))
    )
    copies = ExpressCopies(express.bucket_name, clients.express)
    return ExpressTier(
        copies, rule, clock, max_object_bytes=settings.max_object_bytes, adaptive_timeout=adaptive_timeout
    )
