"""Each function's self-test, which checks every part that the function depends on, with the function's own clients.

A self-test changes nothing. It reads a missing object from S3, writes to DynamoDB under a false condition, completes a
task that does not exist in Step Functions, makes dry runs in EC2, stops a task that does not exist in ECS, and sends an
event without a key.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

from burstcache.access import instance_ids, names_of
from burstcache.adapters import health_probes
from burstcache.adapters.clients import Clients
from burstcache.adapters.clock import Clock
from burstcache.adapters.functions import invoke_tenant
from burstcache.adapters.hub_service import HubService
from burstcache.adapters.pool_table import PoolTable
from burstcache.control.health_checks import Check
from burstcache.control.part_checks import PartChecks
from burstcache.core.messages.pool import Warm
from burstcache.core.messages.relay import control_subject, get_subject
from burstcache.core.messages.self_test import hash_of_run
from burstcache.core.pool.retention import tenants
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


def checks_of(function: Function, environ: Mapping[str, str], clients: Clients, clock: Clock, run: str) -> list[Check]:
    """Return the checks of a function.

    Args:
        function: The function, whose settings must be in `environ`.
        environ: The function's environment.
        clients: Clients of the function's profile.
        clock: The clock of the checks.
        run: The unique ID of this self-test.

    Raises:
        InvalidSettingError: A variable is missing or invalid.
    """
    more = (clients, clock, run)
    match function:
        case "proxy":
            checks = of_proxy(ProxySettings.read(environ), *more)
        case "writer":
            checks = of_writer(WriterSettings.read(environ), *more)
        case "scheduler":
            checks = of_scheduler(SchedulerSettings.read(environ), *more)
        case "cache":
            checks = of_cache(CacheSettings.read(environ), *more)
        case "redis_control":
            checks = of_redis_control(RedisControlSettings.read(environ), *more)
        case "janitor":
            checks = of_janitor(JanitorSettings.read(environ), *more)
        case "origin":
            checks = of_origin(OriginSettings.read(environ), *more)
        case "budget":
            checks = of_budget(BudgetSettings.read(environ), *more)
        case "state":
            checks = of_state(StateSettings.read(environ), *more)
        case "pool_control":
            checks = of_pool_control(PoolControlSettings.read(environ), *more)
    return list(checks)


def of_proxy(settings: ProxySettings, clients: Clients, clock: Clock, run: str) -> Iterator[Check]:
    """Yield the checks of the proxy."""
    parts = PartChecks(clients, clock, run)
    yield parts.digest(settings.table_name)
    yield parts.origin(settings.bucket_name, settings.origin_prefix)
    if settings.bus_name:
        yield parts.bus(settings.bus_name)
    if settings.express.bucket_name:
        yield parts.express(settings.express.bucket_name)
    yield from parts.requests_over_relay(settings.relay, get_subject(hash_of_run(run)))
    yield from parts.redis(settings.redis_nodes, settings.redis, settings.table_name)


def of_writer(settings: WriterSettings, clients: Clients, clock: Clock, run: str) -> Iterator[Check]:
    """Yield the checks of the writer."""
    parts = PartChecks(clients, clock, run)
    yield parts.writable(settings.bucket_name, settings.origin_prefix)
    yield parts.function(settings.origin_function_name)


def of_scheduler(settings: SchedulerSettings, clients: Clients, clock: Clock, run: str) -> Iterator[Check]:
    """Yield the checks of the scheduler."""
    parts = PartChecks(clients, clock, run)
    yield parts.table(settings.table_name)
    yield parts.machine("key_lifecycle", settings.key_lifecycle_arn)
    if settings.cache_function_name:
        yield parts.function(settings.cache_function_name)
    if settings.redis_nodes:
        yield parts.machine("redis_node", settings.redis_node_arn)


def of_cache(settings: CacheSettings, clients: Clients, clock: Clock, run: str) -> Iterator[Check]:
    """Yield the checks of the cache function."""
    parts = PartChecks(clients, clock, run)
    yield parts.table(settings.table_name)
    yield parts.origin(settings.bucket_name, settings.origin_prefix)
    yield parts.bus(settings.bus_name)
    yield parts.tokens()
    yield from parts.answers_over_relay(settings.relay)


def of_redis_control(settings: RedisControlSettings, clients: Clients, clock: Clock, run: str) -> Iterator[Check]:
    """Yield the checks of Redis control."""
    parts = PartChecks(clients, clock, run)
    yield parts.table(settings.table_name)
    yield parts.origin(settings.bucket_name, settings.origin_prefix)
    yield parts.tokens()
    if settings.redis_nodes:
        yield parts.machine("redis_node", settings.redis_node_arn)
        nodes = settings.redis_nodes + settings.state_nodes
        if instance_ids(nodes):
            yield parts.instances(nodes, switches=True)
        if place := settings.tasks or settings.state_tasks:
            yield parts.tasks(place)
    yield from parts.requests_over_relay(settings.relay, control_subject(hash_of_run(run)))
    yield from parts.redis(settings.redis_nodes, settings.redis, settings.table_name)


def of_janitor(settings: JanitorSettings, clients: Clients, clock: Clock, run: str) -> Iterator[Check]:
    """Yield the checks of the janitor."""
    parts = PartChecks(clients, clock, run)
    yield parts.digest(settings.table_name)
    yield parts.executions(settings.key_lifecycle_arn)
    yield parts.function(settings.redis_control_function_name)
    if settings.redis_nodes:
        nodes = settings.redis_nodes + settings.state_nodes
        if instance_ids(nodes):
            yield parts.instances(nodes, switches=False)
        if place := settings.tasks or settings.state_tasks:
            yield parts.task_states(place)


def of_origin(settings: OriginSettings, clients: Clients, clock: Clock, run: str) -> Iterator[Check]:
    """Yield the checks of the origin function."""
    parts = PartChecks(clients, clock, run)
    yield parts.rows(settings.table_name)
    if settings.redis_control_function_name:
        yield parts.function(settings.redis_control_function_name)
    if settings.express_bucket:
        yield parts.express(settings.express_bucket)


def of_budget(settings: BudgetSettings, clients: Clients, clock: Clock, run: str) -> Iterator[Check]:
    """Yield the checks of the budget function."""
    client = clients.dynamodb
    yield Check(
        "table",
        health_probes.endpoint_of(client),
        lambda: health_probes.write(client, settings.table_name, PAUSED_ITEM),
    )


def of_state(settings: StateSettings, clients: Clients, clock: Clock, run: str) -> Iterator[Check]:
    """Yield the checks of the state function."""
    parts = PartChecks(clients, clock, run)
    yield parts.leases(settings.table_name, names_of(settings.state_nodes))
    yield parts.tokens()
    yield parts.machine("redis_node", settings.redis_node_arn)


def of_pool_control(settings: PoolControlSettings, clients: Clients, clock: Clock, run: str) -> Iterator[Check]:
    """Yield the checks of pool control, including a check of one member, since members run no self-test."""
    client, functions = clients.dynamodb, clients.functions
    pool, warm = PoolTable(settings.table_name, client), invoke_tenant(functions, settings.member_function_name)
    yield Check("table", health_probes.endpoint_of(client), lambda: pool.check_permissions())
    yield PartChecks(clients, clock, run).machine("pool", settings.pool_arn)
    member, *_ = tenants(settings.members)
    if settings.hub_service:
        hubs = HubService(settings.hub_service, clients.make)
        yield Check("hub", health_probes.endpoint_of(clients.make("ecs")), hubs.check_permissions)
    yield Check(f"member {member}", health_probes.endpoint_of(functions), lambda: warm(member, Warm(op="warm")))
