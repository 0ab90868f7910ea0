"""Walls of reading: the front door, Lambda, the digest, S3, nodes and the relay."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from burstcache.core.limits import most_hot_keys, vcpus_of
from burstcache.core.node_kinds import node_kind, task_size
from burstcache_sim.bill.nodes import node_capacity_bytes
from burstcache_sim.bill.usage import ORIGIN_MS, SCHEDULER_MS
from burstcache_sim.scale.change_log import log_bytes
from burstcache_sim.scale.items import digest_bytes, digest_read_units
from burstcache_sim.scale.load import ORIGIN_BATCH, ORIGIN_CONCURRENCY, StackLoad
from burstcache_sim.scale.losses import used_at_first_losses
from burstcache_sim.scale.wall import Wall

_ENVIRONMENTS_WITHIN_S = 10
_CACHE_FUNCTION_BYTES_PER_S = 625e6 / 8
_RELAY_REQUESTS_PER_S = 2_500  # a quarter of a vCPU, 0.1 ms of processor time for both hops with TLS (assumed)
_GETS_PER_VCPU_S = 20_000  # of Redis with TLS, objects of 10 KB (assumed)
# Sustained bandwidth of EC2's burstable types [Mbit/s], and the share of their vCPUs that is included in the price.
_MBIT_PER_S = {"t4g.nano": 32, "t4g.micro": 64, "t4g.small": 128, "t4g.medium": 256, "t4g.large": 512}
_BASELINE = {
    "t4g.nano": Fraction(1, 20),
    "t4g.micro": Fraction(1, 10),
    "t4g.small": Fraction(1, 5),
    "t4g.medium": Fraction(1, 5),
    "t4g.large": Fraction(3, 10),
}
_CONCURRENCY = "Service Quotas: concurrency"


def door_walls(load: StackLoad) -> Iterator[Wall]:
    """Yield the walls of the HTTP API and of its synchronous invocations."""
    if not load.is_proxied:
        return
    quotas = load.quotas
    yield Wall(
        "HTTP API, throttle of the stage",
        "requests/s",
        load.reads_per_s,
        load.throttle_per_s,
        "refused",
        "429",
        "`ThrottleRatePerS`",
    )
    yield Wall(
        "HTTP APIs of the region",
        "requests/s",
        load.reads_per_s,
        quotas.api_requests,
        "refused",
        "429",
        "Service Quotas; the client library",
        scope="account",
    )
    yield Wall(
        "Lambda, synchronous invocations",
        "invocations/s",
        load.reads_per_s,
        quotas.invocations_per_unit * quotas.concurrency,
        "refused",
        "503",
        _CONCURRENCY,
        scope="account",
    )


def function_units(load: StackLoad) -> dict[str, float]:
    """Return the concurrent executions of each function at the load's peak."""
    if load.origin_events == "queue":
        origin = min(ORIGIN_CONCURRENCY, load.writes_per_s / ORIGIN_BATCH * load.batch_s)
    else:
        origin = load.writes_per_s * ORIGIN_MS / 1_000
    return {
        "proxy": load.proxy_units,
        "origin": origin,
        "scheduler": load.reports_per_s * SCHEDULER_MS / 1_000,
        "control": origin if load.has_tiers else 0.0,  # the origin function waits for it
        "cache": load.admitted_keys if load.has_cache_functions else 0.0,
    }


def lambda_walls(load: StackLoad) -> Iterator[Wall]:
    """Yield the walls of Lambda's concurrency."""
    quotas, units = load.quotas, function_units(load)
    shown = ", ".join(f"{name} {value:.3g}" for name, value in units.items() if value)
    from_pct = 100 * used_at_first_losses(quotas.concurrency)
    beyond = f"503, for 1 % of random arrivals from {from_pct:.0f} % on" if load.is_proxied else "events wait"
    yield Wall(
        "Lambda, concurrent executions",
        "units",
        sum(units.values()),
        quotas.concurrency,
        "refused" if load.is_proxied else "late",
        f"{beyond} ({shown})" if shown else beyond,
        _CONCURRENCY,
        scope="account",
    )
    yield Wall(
        "Lambda, new environments",
        "in 10 s",
        max(units["proxy"], load.starts_per_s * _ENVIRONMENTS_WITHIN_S if units["cache"] else 0.0),
        quotas.new_environments,
        "refused" if load.is_proxied else "late",
        "503 for some seconds" if load.is_proxied else "cache functions start later",
        "the client library; a slower rise",
    )
    if load.has_cache_functions:
        yield Wall(
            "`MaxHotKeys` beside reads",
            "units",
            load.max_hot_keys,
            most_hot_keys(quotas.concurrency),
            "not deployed",
            "`make deploy` refuses",
            _CONCURRENCY,
            is_fixed=True,
            scope="account",
        )


def digest_walls(load: StackLoad) -> Iterator[Wall]:
    """Yield the wall of the digest's partition for reads, and of readers' parameters."""
    size_bytes: float = digest_bytes(
        routes=round(load.admitted_keys), nodes=load.nodes, on_nodes=load.has_leases and load.nodes > 0
    )
    size_bytes += log_bytes(load.writes_per_s)
    units = digest_read_units(size_bytes, is_consistent=not load.is_proxied)
    yield Wall(
        "DynamoDB, digest, reads",
        "units/s",
        load.looks_per_s * units,
        load.quotas.partition_read_units,
        "S3 serves",
        "S3 serves the throttled readers",
        "lower `MaxHotKeys`; stacks by prefix",
    )
    parameters = (load.nodes > 0) + load.has_cache_functions
    if parameters:
        yield Wall(
            "SSM GetParameter",
            "calls/s",
            parameters * min(load.processes / _ENVIRONMENTS_WITHIN_S, load.reads_per_s),
            load.quotas.get_parameters,
            "S3 serves",
            "S3 serves a reader's first seconds",
            "Systems Manager: higher throughput",
            scope="account",
        )


def s3_walls(load: StackLoad) -> Iterator[Wall]:
    """Yield the walls of the bucket, for one prefix."""
    beyond = "503s, retried; then the read fails"
    yield Wall(
        "S3 GET, one prefix",
        "requests/s",
        load.reads_per_s,
        load.quotas.s3_gets,
        "refused",
        beyond,
        "more prefixes; time",
    )
    yield Wall(
        "S3 PUT, one prefix",
        "requests/s",
        load.writes_per_s,
        load.quotas.s3_puts,
        "refused",
        "503s, retried; then the write fails",
        "more prefixes; time",
    )


def node_walls(load: StackLoad) -> Iterator[Wall]:
    """Yield the walls of the nodes, if keys are spread evenly over them."""
    if not load.nodes:
        return
    kind = node_kind(load.node)
    raise_by = "`RedisNodeCount`; a larger node"
    vcpus = _vcpus(load.node)
    yield Wall(
        "a node's processor",
        "GETs/s",
        load.reads_per_s / load.nodes,
        float(vcpus) * _GETS_PER_VCPU_S,
        "S3 serves",
        "slower; extra cost on t4g" if kind == "ec2" else "slower, then S3 serves",
        raise_by,
        is_assumed=True,
    )
    if mbit_per_s := _MBIT_PER_S.get(load.node):
        yield Wall(
            "a node's network, sustained",
            "Mbit/s",
            load.reads_per_s * load.object_bytes * 8 / 1e6 / load.nodes,
            mbit_per_s,
            "S3 serves",
            "slower, then S3 serves",
            raise_by,
        )
    yield Wall(
        "a node's connections",
        "clients",
        load.processes,
        load.quotas.node_clients,
        "S3 serves",
        "S3 serves the readers above it",
        "stacks by prefix",
    )
    if capacity_bytes := node_capacity_bytes(load.node):
        yield Wall(
            "a node's memory",
            "MB",
            load.keys * load.object_bytes / load.nodes / 1e6,
            capacity_bytes / 1e6,
            "S3 serves",
            "evicts the least recently read",
            raise_by,
        )


def quota_walls(load: StackLoad) -> Iterator[Wall]:
    """Yield the quotas of nodes, relay included."""
    kind, relay_vcpus = node_kind(load.node), 0.25 * load.has_cache_functions
    beyond, quotas = "`make deploy` refuses", load.quotas
    if kind == "ec2":
        yield Wall(
            "EC2 on-demand vCPUs",
            "vCPUs",
            load.nodes * vcpus_of(load.node),
            quotas.ec2_vcpus,
            "not deployed",
            beyond,
            "Service Quotas",
            is_fixed=True,
            scope="account",
        )
        spot, on_demand = relay_vcpus, 0.0
    else:
        vcpus = load.nodes * float(task_size(load.node)[0])
        spot, on_demand = relay_vcpus + vcpus * (kind == "fargate-spot"), vcpus
    for name, used, limit in (
        ("Fargate Spot vCPUs", spot, quotas.spot_task_vcpus),
        ("Fargate on-demand vCPUs", on_demand, quotas.on_demand_task_vcpus),
    ):
        if used:
            yield Wall(name, "vCPUs", used, limit, "not deployed", beyond, "Service Quotas", "account", is_fixed=True)


def relay_walls(load: StackLoad) -> Iterator[Wall]:
    """Yield the walls of the relay and of the most-read key's cache function."""
    if not load.has_cache_functions:
        return
    top_per_s = load.reads_per_s * load.top_share
    yield Wall(
        "relay, a quarter of a vCPU",
        "requests/s",
        min(load.reads_per_s, top_per_s * load.max_hot_keys),
        _RELAY_REQUESTS_PER_S,
        "S3 serves",
        "slower, then S3 serves",
        "keys on nodes; `Policy`",
        is_assumed=True,
    )
    yield Wall(
        "cache function of the most-read key",
        "MB/s",
        top_per_s * load.object_bytes / 1e6,
        _CACHE_FUNCTION_BYTES_PER_S / 1e6,
        "S3 serves",
        "slower, then S3 serves",
        "a policy with nodes",
    )


def _vcpus(node: str) -> Fraction:
    """Return the vCPUs that a node may use all the time at its price."""
    if node_kind(node) != "ec2":
        return task_size(node)[0]
    return vcpus_of(node) * _BASELINE.get(node, Fraction(1))
