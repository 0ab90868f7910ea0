"""A reader made of its parts: what the proxy and a client in the caller's process share."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from burstcache.adapters.clock import Clock
from burstcache.adapters.event_publisher import EventPublisher
from burstcache.adapters.object_store import ObjectStore
from burstcache.adapters.routes import Route, Routes
from burstcache.adapters.secrets import Secrets
from burstcache.serve.reader import Reader
from burstcache.serve.s3_tier import Reports, S3Tier
from burstcache.serve.tier import Tier
from burstcache.settings import ReaderSettings, node_named

if TYPE_CHECKING:
    from burstcache.adapters.clients import Clients


def make_reader(
    settings: ReaderSettings,
    clients: Clients,
    clock: Clock,
    *,
    publisher: Reports | None = None,
    redirects_larger: bool = True,
) -> Reader:
    """Return a reader of a stack's objects.

    Its clients of S3, the table and the bus are made now, what only keys in a tier need at the first of them.

    Args:
        settings: Names and addresses of the stack's parts.
        clients: Makes the clients of AWS's services.
        clock: The time that tiers, breakers and what is remembered go by.
        publisher: Where reads are reported; None for a publisher whose reads wait for their reports, as a function
            must that is frozen after its answer.
        redirects_larger: Whether objects that are too large to be cached are answered with a redirect to S3.
    """

    @cache
    def secrets() -> Secrets:
        return Secrets(clients.secrets)

    def make_tier(route: Route) -> Tier:
        # redis and nats cost more to import than all the rest, and most processes never meet a hot key.
        if route.tier == "redis":
            from burstcache.adapters.redis_objects import RedisObjects
            from burstcache.serve.redis_tier import RedisNodeTier

            node = node_named(route.node, settings.redis_nodes)
            return RedisNodeTier(RedisObjects(node, secrets(), settings.redis_secret_arn))
        from burstcache.adapters.relay import RelayRequests
        from burstcache.serve.cache_function_tier import LambdaTier

        return LambdaTier(RelayRequests(settings.relay, secrets(), clock))

    if publisher is None:
        publisher = EventPublisher(settings.bus_name, clients.events, clock)
    store = ObjectStore(settings.bucket_name, clients.s3)
    origin = S3Tier(
        store, publisher, clock, max_object_bytes=settings.max_object_bytes, redirects_larger=redirects_larger
    )
    return Reader(Routes(settings.table_name, clients.dynamodb, clock), origin, make_tier, clock)
