"""The self-test of each function: every part that it works with, tried from where it runs, by the clients that it has.

Nothing is changed by it: S3 is asked for a key that is no object's, DynamoDB to write what a condition forbids, Step
Functions to complete a task that does not exist, EC2 for a dry run, and the event on the bus is about no key.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

from burstcache.access import names_of
from burstcache.adapters import probes
from burstcache.adapters.clients import Clients
from burstcache.adapters.clock import Clock
from burstcache.adapters.functions import invoke_tenant
from burstcache.adapters.hub_service import HubService
from burstcache.adapters.pool_table import PoolTable
from burstcache.control.self_test_parts import Parts
from burstcache.control.trials import Trial
from burstcache.core.messages.pool import Warm
from burstcache.core.messages.relay import control_subject, get_subject
from burstcache.core.messages.self_test import hash_of_run
from burstcache.core.pool.kept import tenants
from burstcache.core.table import PAUSED_ITEM
from burstcache.settings.budget import BudgetSettings
from burstcache.settings.cache import CacheSettings
from burstcache.settings.janitor import JanitorSettings
from burstcache.settings.origin import OriginSettings
from burstcache.settings.pool_control import PoolControlSettings
from burstcache.settings.proxy import ProxySettings
from burstcache.settings.redis_control import RedisControlSettings
from burstcache.settings.scheduler import SchedulerSettings
from burstcache.settings.state import StateSettings
from burstcache.settings.writer import WriterSettings

Function = Literal[
    "proxy", "writer", "scheduler", "cache", "redis_control", "janitor", "origin", "budget", "state", "pool_control"
]


def trials_of(function: Function, environ: Mapping[str, str], clients: Clients, clock: Clock, run: str) -> list[Trial]:
    """Return what a function with this environment works with.

    Args:
        function: Which one; its settings must be in `environ`.
        environ: Its environment.
        clients: Clients of its profile.
        clock: The time that clients of its parts go by.
        run: Of this self-test and no other.

    Raises:
        InvalidSettingError: A variable is missing or has a value that is not accepted.
    """
    more = (clients, clock, run)
    match function:
        case "proxy":
            trials = of_proxy(ProxySettings.read(environ), *more)
        case "writer":
            trials = of_writer(WriterSettings.read(environ), *more)
        case "scheduler":
            trials = of_scheduler(SchedulerSettings.read(environ), *more)
        case "cache":
            trials = of_cache(CacheSettings.read(environ), *more)
        case "redis_control":
            trials = of_redis_control(RedisControlSettings.read(environ), *more)
        case "janitor":
            trials = of_janitor(JanitorSettings.read(environ), *more)
        case "origin":
            trials = of_origin(OriginSettings.read(environ), *more)
        case "budget":
            trials = of_budget(BudgetSettings.read(environ), *more)
        case "state":
            trials = of_state(StateSettings.read(environ), *more)
        case "pool_control":
            trials = of_pool_control(PoolControlSettings.read(environ), *more)
    return list(trials)


def of_proxy(settings: ProxySettings, clients: Clients, clock: Clock, run: str) -> Iterator[Trial]:
    """Return what the proxy works with."""
    parts = Parts(clients, clock, run)
    yield parts.digest(settings.table_name)
    yield parts.origin(settings.bucket_name, settings.origin_prefix)
    if settings.bus_name:
        yield parts.bus(settings.bus_name)
    if settings.express.bucket_name:
        yield parts.express(settings.express.bucket_name)
    yield from parts.asked_over_relay(settings.relay, get_subject(hash_of_run(run)))
    yield from parts.redis(settings.redis_nodes, settings.redis, settings.table_name)


def of_writer(settings: WriterSettings, clients: Clients, clock: Clock, run: str) -> Iterator[Trial]:
    """Return what the writer works with."""
    parts = Parts(clients, clock, run)
    yield parts.written(settings.bucket_name, settings.origin_prefix)
    yield parts.function(settings.origin_function_name)


def of_scheduler(settings: SchedulerSettings, clients: Clients, clock: Clock, run: str) -> Iterator[Trial]:
    """Return what the scheduler works with."""
    parts = Parts(clients, clock, run)
    yield parts.table(settings.table_name)
    yield parts.machine("key_lifecycle", settings.key_lifecycle_arn)
    if settings.cache_function_name:
        yield parts.function(settings.cache_function_name)
    if settings.redis_nodes:
        yield parts.machine("redis_node", settings.redis_node_arn)


def of_cache(settings: CacheSettings, clients: Clients, clock: Clock, run: str) -> Iterator[Trial]:
    """Return what the cache function works with."""
    parts = Parts(clients, clock, run)
    yield parts.table(settings.table_name)
    yield parts.origin(settings.bucket_name, settings.origin_prefix)
    yield parts.bus(settings.bus_name)
    yield parts.tokens()
    yield from parts.answers_over_relay(settings.relay)


def of_redis_control(settings: RedisControlSettings, clients: Clients, clock: Clock, run: str) -> Iterator[Trial]:
    """Return what Redis control works with."""
    parts = Parts(clients, clock, run)
    yield parts.table(settings.table_name)
    yield parts.origin(settings.bucket_name, settings.origin_prefix)
    yield parts.tokens()
    if settings.redis_nodes:
        yield parts.machine("redis_node", settings.redis_node_arn)
        yield parts.instances(settings.redis_nodes + settings.state_nodes, switches=True)
    yield from parts.asked_over_relay(settings.relay, control_subject(hash_of_run(run)))
    yield from parts.redis(settings.redis_nodes, settings.redis, settings.table_name)


def of_janitor(settings: JanitorSettings, clients: Clients, clock: Clock, run: str) -> Iterator[Trial]:
    """Return what the janitor works with."""
    parts = Parts(clients, clock, run)
    yield parts.digest(settings.table_name)
    yield parts.lives(settings.key_lifecycle_arn)
    yield parts.function(settings.redis_control_function_name)
    if settings.redis_nodes:
        yield parts.instances(settings.redis_nodes + settings.state_nodes, switches=False)


def of_origin(settings: OriginSettings, clients: Clients, clock: Clock, run: str) -> Iterator[Trial]:
    """Return what the origin function works with."""
    parts = Parts(clients, clock, run)
    yield parts.rows(settings.table_name)
    if settings.redis_control_function_name:
        yield parts.function(settings.redis_control_function_name)
    if settings.express_bucket:
        yield parts.express(settings.express_bucket)


def of_budget(settings: BudgetSettings, clients: Clients, clock: Clock, run: str) -> Iterator[Trial]:
    """Return what the budget function works with."""
    client = clients.dynamodb
    yield Trial("table", probes.endpoint_of(client), lambda: probes.write(client, settings.table_name, PAUSED_ITEM))


def of_state(settings: StateSettings, clients: Clients, clock: Clock, run: str) -> Iterator[Trial]:
    """Return what the state function works with."""
    parts = Parts(clients, clock, run)
    yield parts.leases(settings.table_name, names_of(settings.state_nodes))
    yield parts.tokens()
    yield parts.machine("redis_node", settings.redis_node_arn)


def of_pool_control(settings: PoolControlSettings, clients: Clients, clock: Clock, run: str) -> Iterator[Trial]:
    """Return what pool control works with; a member answers to it."""
    client, functions = clients.dynamodb, clients.functions
    pool, warm = PoolTable(settings.table_name, client), invoke_tenant(functions, settings.member_function_name)
    yield Trial("table", probes.endpoint_of(client), lambda: pool.try_out())
    yield Parts(clients, clock, run).machine("pool", settings.pool_arn)
    member, *_ = tenants(settings.members)
    if settings.hub_service:
        hubs = HubService(settings.hub_service, clients.make)
        yield Trial("hub", probes.endpoint_of(clients.make("ecs")), hubs.try_out)
    yield Trial(f"member {member}", probes.endpoint_of(functions), lambda: warm(member, Warm(op="warm")))
