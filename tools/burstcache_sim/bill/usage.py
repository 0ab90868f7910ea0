"""From a simulated run to what AWS would bill for it: the thesis's four items, or all that the live system takes.

What the simulator does not know (how long a handler runs, how often the table is read) is counted from the code of the
live system; each constant has its origin. Where a count depends on the traffic, the upper bound is taken.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

from burstcache.core.parameters import US_PER_S
from burstcache.core.prices import BYTES_PER_GB
from burstcache_sim.bill.control import CONTROL_MB, LOG_BYTES, Steps, control_usage, metrics_usage
from burstcache_sim.bill.cost import Usage, add, gb_s
from burstcache_sim.bill.setup import Setup
from burstcache_sim.units import US_PER_H
from burstcache_sim.world.result import RunResult

THESIS_MEMORY_MB = 1024

# EC2 bills from `running`, 16 s after the start; the rules' boot of 30 s lasts until Redis answers. At the end the
# check waits 2 s for stragglers, and StopNode asks EC2 within a second; what stops is not billed.
RUNNING_AFTER_S = 16
BILLED_BEFORE_READY_S = 30 - RUNNING_AFTER_S
STOP_CALL_S = 1
_BILLED_AFTER_STOP_S = 2 + STOP_CALL_S
LEAST_NODE_S = 60

# Handlers [ms]. The hit is that of `docs/operate/costs.md`; S3 answers within 15 to 60 ms; the rest is AWS calls of
# about 10 ms each.
_PROXY_HIT_MS, _PROXY_S3_MS, SCHEDULER_MS = 10, 60, 20
_WARM_START_MS, _COLD_START_MS = 20, 600  # of a cache function, INIT and the object's load included (thesis 5.6)
_HAND_OVER_MS = _COLD_START_MS + 1_000  # the former one holds the warm environment, and looks for the next every second
# Imports of an early version on a busy machine; by now and on a quieter one they take a sixth to a half less
# (`docs/evidence/measurements/reads.md`).
_INIT_PROXY_MS, _INIT_SCHEDULER_MS, _INIT_CONTROL_MS = 241, 189, 516
_PROXY_MB, _SCHEDULER_MB, _JANITOR_MB = 512, 256, 256  # template.yaml
METERED_BYTES = 512 * 1024  # an HTTP API counts a request per this much
READ_LOG_BYTES = 310  # of the proxy, which leaves those out: a line of metrics, if each read begins a batch
# A read of the digest takes a unit per 4 KB, and half of one where it vouches for no memory. A route that has left its
# tier stays as an item until the janitor's next run.
_ROUTES_PER_UNIT = 25
_EVENTUALLY = Fraction(1, 2)  # of a unit, for a read that need not show the newest write
_ROW_READ = _EVENTUALLY  # units: from its second minute on an instance reads its row
_ROUTE_STAYS_S = 300

# What stands always; a test of the template holds `docs/operate/costs.md` to it.
_VOLUME_GB, _ALB_ADDRESSES = 3, 2
_RELAY_VCPU, _RELAY_GB = Fraction(1, 4), Fraction(1, 2)
_JANITOR_PER_H, JANITOR_MS = 12, 200
_JANITOR_READS = 5  # the set of started keys and the digest, twice, and the pause; each node's row is read twice, too
_ATTENDED_EVERY_S = 300  # the janitor writes it into the row of a node that runs

# What follows a write to the bucket: the rows of the key and of the nodes are read, the change is announced. If the
# key's home node takes guests, Redis control reads the same rows and removes one; the origin function waits for it.
ORIGIN_MS, _ORIGIN_MB, _REMOVE_MS = 60, 128, 50


def thesis_usage(result: RunResult, setup: Setup) -> Usage:
    """Return the four items of the thesis: billed milliseconds, invocations, Redis seconds, S3 requests.

    Source:
        Thesis, section 5.1.4 "Cost Considerations", table A.1.
    """
    return Usage(
        architecture=setup.architecture,
        instance_type=setup.instance_type,
        cache_gb_s=gb_s(result.lambda_ms, setup.cache_memory_mb),
        cache_requests=result.invocations,
        node_h=Fraction(result.redis_s, 3600),
        s3_gets=result.s3_requests,
    )


@dataclass(frozen=True, slots=True)
class Passage:
    """What passes a front door in a period."""

    requests: int
    hits: Fraction | int  # answered without S3
    metered_512kb: int  # units of an HTTP API
    door_bytes: int  # through the door
    internet_bytes: int  # to clients: with what they get from S3 behind a redirect
    wakes: int = 1  # how often the proxy starts cold after ten minutes without a request


def live_usage(
    result: RunResult,
    setup: Setup,
    *,
    period_us: int,
    passage: Passage | None = None,
    busy_s: int | None = None,
    digest_reads: int | None = None,
    span_us: int | None = None,
    objects: int | None = None,
) -> Usage:
    """Return everything that the deployed system takes for a run.

    Args:
        result: The run.
        setup: How the system is deployed.
        period_us: How long the stack stands, for hourly items [us].
        passage: What its clients ask for; None if all answers have the setup's mean size.
        busy_s: Seconds with a request; None for one per request [s].
        digest_reads: How often a reader of all requests reads the digest; None for once in each such second.
        span_us: From the first request to the last; None for the period [us].
        objects: How many keys the digest may name; None for as many as there are lives.
    """
    if passage is None:
        metered = result.n * max(1, -(-setup.object_bytes // METERED_BYTES))
        together_bytes = setup.object_bytes * result.n
        passage = Passage(result.n, result.n - result.n_s3, metered, together_bytes, together_bytes)
    busy_s = result.n if busy_s is None else busy_s
    looks = busy_s if digest_reads is None else digest_reads
    door = door_usage(passage, setup, period_us=period_us)
    above = (_express(result, setup), _writes(result, setup, period_us))
    metrics = _metrics(result, setup, period_us if span_us is None else span_us)
    parts = (
        _cache(result, setup),
        door,
        _requests(result, setup, busy_s),
        _digest(result, setup, looks, busy_s, objects),
        control_usage(_steps(result)),
        metrics,
        *above,
        idle_usage(setup, period_us),
    )
    together = replace(add(parts), architecture=setup.architecture, instance_type=setup.instance_type)
    return replace(together, init_gb_s=door.init_gb_s + _init_gb_s(result, setup, passage.wakes))


def door_usage(passage: Passage, setup: Setup, *, period_us: int) -> Usage:
    """Return what front door, proxy and the way to clients on the internet take; nothing for readers in the VPC.

    Everything that speaks no HTTP itself needs the same, whatever stands behind it.
    """
    if setup.readers == "aws":
        return Usage(architecture=setup.architecture)
    is_alb, hours = setup.front_door == "alb", Fraction(period_us, US_PER_H)
    return Usage(
        architecture=setup.architecture,
        internet_gb=Fraction(passage.internet_bytes, BYTES_PER_GB),
        front_door_512kb=0 if is_alb else passage.metered_512kb,
        alb_lcu_h=Fraction(passage.door_bytes, BYTES_PER_GB) / Fraction(4, 10) if is_alb else 0,
        proxy_gb_s=gb_s(_PROXY_HIT_MS * passage.hits + _PROXY_S3_MS * (passage.requests - passage.hits), _PROXY_MB),
        init_gb_s=gb_s(_INIT_PROXY_MS, _PROXY_MB) * passage.wakes,
        function_requests=passage.requests,
        logs_gb=Fraction(READ_LOG_BYTES * passage.requests, BYTES_PER_GB),
        alb_h=hours if is_alb else 0,
        ipv4_h=_ALB_ADDRESSES * hours if is_alb else 0,
    )


def _cache(result: RunResult, setup: Setup) -> Usage:
    """Return what the cache function, the node and S3 take."""
    invocations = result.invocations + result.handovers
    started_ms = _WARM_START_MS * (result.invocations - result.cold_starts) + _HAND_OVER_MS * result.handovers
    return Usage(
        cache_gb_s=gb_s(result.lambda_ms + started_ms, setup.cache_memory_mb),
        cache_requests=invocations,
        node_h=Fraction(_node_s(result), 3600),
        dynamodb_reads=(_node_s(result) // 60 - result.redis_starts) * _ROW_READ,
        dynamodb_writes=_node_s(result) // _ATTENDED_EVERY_S,
        # Every start of a cache function asks S3, a warm one with its ETag; one that follows another compares again,
        # and so does what takes a key to Redis. Of what a boot loads, a lease says whether it was written meanwhile.
        s3_gets=result.n_s3 + invocations + result.handovers + 2 * promotions(result) + result.guests.loads,
        # A hit passes the balancer twice, to the relay and from it; a capacity unit is 1 GB.
        nlb_lcu_h=Fraction(2 * setup.object_bytes * result.n_lambda, BYTES_PER_GB) if setup.relay == "nlb" else 0,
        zone_gb=setup.far_readers * Fraction(setup.object_bytes * (result.n_lambda + result.n_redis), BYTES_PER_GB),
        logs_gb=Fraction(LOG_BYTES * invocations, BYTES_PER_GB),
    )


def _digest(result: RunResult, setup: Setup, looks: int, busy_s: int, objects: int | None) -> Usage:
    """Return what readers take of the digest: as often as one of all requests does, each, and no more than requests.

    A reader of some of them reads it no more often: its reads are the fewest that leave no request out.
    """
    queries = _readers(result, setup, busy_s) * looks
    units = -(-_shown_routes(result, busy_s, objects) // _ROUTES_PER_UNIT)
    each = 1 if setup.reader_memory_bytes else _EVENTUALLY
    return Usage(dynamodb_reads=Fraction(each * max(1, units) * min(result.n, -(-queries // 1))))


def _readers(result: RunResult, setup: Setup, busy_s: int) -> Fraction:
    """Return how many readers there are, on the average of the seconds with a request.

    In the VPC they are processes of a known number. On the internet they are the proxy's environments: one more in each
    second than its requests keep busy on average.
    """
    if setup.readers == "aws":
        return Fraction(setup.reader_processes)
    busy_ms = _PROXY_HIT_MS * (result.n_lambda + result.n_redis) + _PROXY_S3_MS * result.n_s3
    return 1 + Fraction(busy_ms, 1000 * max(1, busy_s))


def _shown_routes(result: RunResult, busy_s: int, objects: int | None) -> int:
    """Return how many routes the digest has at most, on the average of the seconds in which it is read."""
    lives, promoted = result.invocations, promotions(result)
    # Nothing says how long a key stays in Redis: as long as the node, at most.
    in_redis = -(-promoted // max(1, result.redis_starts))
    seconds = result.lambda_us_exact // US_PER_S + _ROUTE_STAYS_S * (lives + promoted)
    others = -(-seconds // max(1, busy_s))
    most = lives + promoted
    return min(in_redis + others, most if objects is None else min(most, objects))


def _requests(result: RunResult, setup: Setup, busy_s: int) -> Usage:
    """Return what readers report of the requests that memory did not answer.

    Under the thesis's policy each that S3 serves is a message and a write. Where nodes are judged by their use, a
    reader reports what it has every ten seconds: the rows of the node and of its use are read, that of the use written,
    a row is read for each key, at half the price, and written once an hour. Each environment of the proxy has batches
    of its own; those of processes are counted.
    """
    guests = result.guests
    messages = writes = result.n_s3 if setup.decides else 0
    if guests.told:
        batches = guests.told_batches * (_readers(result, setup, busy_s) if setup.readers == "internet" else 1)
        messages = min(guests.told, -(-batches // 1))
        writes = messages + guests.seen_writes
    # With cache functions the use of a key is learned in its row, but for what they serve and while its node runs.
    learned = max(0, guests.told - guests.fills - result.n_lambda) if setup.relay != "none" else 0
    return Usage(
        scheduler_gb_s=gb_s(SCHEDULER_MS * messages, _SCHEDULER_MB),
        function_requests=messages,
        events_64kb=messages,
        dynamodb_writes=writes + learned,
        dynamodb_reads=2 * messages + -(-guests.told // 2) + learned if guests.told else 0,
        logs_gb=Fraction(LOG_BYTES * messages, BYTES_PER_GB),
    )


def _express(result: RunResult, setup: Setup) -> Usage:
    """Return what the copies take; nobody keeps books of them."""
    use = result.express
    if not setup.express:
        return Usage()
    return Usage(
        express_gets=use.asks,
        express_read_gb=Fraction(use.read_bytes, BYTES_PER_GB),
        express_puts=use.copies,
        express_copied_gb=Fraction(use.copied_bytes, BYTES_PER_GB),
        express_gb_h=Fraction(use.byte_s, 3600 * BYTES_PER_GB),
    )


def _writes(result: RunResult, setup: Setup, period_us: int) -> Usage:
    """Return what following the writes to the bucket takes: a function each, the digest, the copy's place.

    Where nodes take guests, a write goes on to Redis control as long as the object's home node runs, whether or not the
    object is there. Each is a call of its own: events of S3 come one by one.
    """
    writes = Fraction(setup.writes_per_h) * period_us / US_PER_H
    runs_s, stands_s = _node_s(result) if result.guests.told else 0, setup.nodes * Fraction(period_us, US_PER_S)
    removals = writes * min(Fraction(1), runs_s / stands_s) if stands_s else Fraction(0)
    origin_gb_s = gb_s(ORIGIN_MS * writes + _REMOVE_MS * removals, _ORIGIN_MB)
    return Usage(
        control_gb_s=origin_gb_s + gb_s(_REMOVE_MS * removals, CONTROL_MB),
        function_requests=writes + removals,
        dynamodb_writes=writes,
        dynamodb_reads=(1 + setup.nodes) * (writes + removals),
        express_puts=writes if setup.express else 0,
        logs_gb=LOG_BYTES * (writes + removals) / BYTES_PER_GB,
    )


def _steps(result: RunResult) -> Steps:
    return Steps(
        lives=result.invocations,
        promotions=promotions(result),
        handovers=result.handovers,
        boots=result.redis_starts,
        node_s=_node_s(result),
        checks=result.checks or -(-result.redis_us_exact // (60 * US_PER_S)),
    )


def _metrics(result: RunResult, setup: Setup, span_us: int) -> Usage:
    tiers = (result.n_s3, result.n_lambda, result.n_redis, result.n_memory, result.n_express)
    return metrics_usage(_steps(result), tiers if setup.readers == "internet" else (), span_us)


def idle_usage(setup: Setup, period_us: int) -> Usage:
    """Return what the stack takes by the hour, with or without requests."""
    hours = Fraction(period_us, US_PER_H)
    relay_h = 0 if setup.relay == "none" else hours
    janitor_h = hours if setup.relay != "none" or setup.nodes else 0
    return Usage(
        volume_gb_h=_VOLUME_GB * setup.nodes * hours,
        nlb_h=hours if setup.relay == "nlb" else 0,
        zone_h=hours if setup.relay == "direct" else 0,
        relay_vcpu_h=_RELAY_VCPU * relay_h,
        relay_gb_h=_RELAY_GB * relay_h,
        ipv4_h=relay_h if setup.relay_ipv4 else 0,
        janitor_gb_s=gb_s(JANITOR_MS, _JANITOR_MB) * _JANITOR_PER_H * janitor_h,
        janitor_reads=(_JANITOR_READS + 2 * setup.nodes) * _JANITOR_PER_H * janitor_h,
        janitor_requests=_JANITOR_PER_H * janitor_h,
    )


def promotions(result: RunResult) -> int:
    """Return how often a key joined Redis: S3 requests other than for serving, cold starts and a node's first load."""
    return result.s3_requests - result.n_s3 - result.cold_starts - result.guests.loads


def _node_s(result: RunResult) -> int:
    """Return the seconds that EC2 bills: each run from `running` to the stop, at least a minute [s]."""
    around_s = BILLED_BEFORE_READY_S + _BILLED_AFTER_STOP_S
    if result.redis_s and not result.redis_spans_us:  # only sums are known: each run was billed its minute already
        return result.redis_s + around_s * result.redis_starts
    runs_s = [-(-(stop_us - ready_us) // US_PER_S) + around_s for ready_us, stop_us in result.redis_spans_us]
    unready = max(0, result.redis_starts - len(runs_s))  # still booting at the horizon
    return sum(max(LEAST_NODE_S, run_s) for run_s in runs_s) + LEAST_NODE_S * unready


def _init_gb_s(result: RunResult, setup: Setup, wakes: int) -> Fraction:
    """Return what functions take before their first request; INIT is billed since 2025-08-01 [GB-s]."""
    scheduler = gb_s(_INIT_SCHEDULER_MS, _SCHEDULER_MB) * wakes if result.n_s3 else 0
    control = gb_s(_INIT_CONTROL_MS, CONTROL_MB) * min(wakes, result.redis_starts)
    return gb_s(_COLD_START_MS * result.cold_starts, setup.cache_memory_mb) + scheduler + control
