"""AWS usage of a simulated run: the thesis's four items, or everything that the live system uses.

The simulator models neither handler durations nor table reads. The constants below come from the live system's code and
cite their origin. Counts that depend on traffic are upper bounds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

from burstcache.core.parameters import US_PER_S
from burstcache.core.prices import BYTES_PER_GB
from burstcache_sim.bill.config_items import items_per_run
from burstcache_sim.bill.control import CONTROL_MB, LOG_BYTES, ControlCounts, control_usage, metrics_usage
from burstcache_sim.bill.cost import Amount, Usage, add, gb_s
from burstcache_sim.bill.setup import Setup
from burstcache_sim.units import US_PER_H
from burstcache_sim.world.result import RunResult

THESIS_MEMORY_MB = 1024

# EC2 bills from state `running`, 16 s after the start. The simulated boot of 30 s ends when Redis answers. Before a
# stop, the utilisation check waits 2 s for stragglers, and StopNode calls EC2 within a second. EC2 does not bill
# `stopping`.
RUNNING_AFTER_S = 16
BILLED_BEFORE_READY_S = 30 - RUNNING_AFTER_S
STOP_CALL_S = 1
_BILLED_AFTER_STOP_S = 2 + STOP_CALL_S
LEAST_NODE_S = 60  # minimum of EC2, and of Fargate
# Fargate bills the download and the start of the image, which an image of 16 MB passes in a few seconds (assumed), and
# the 2 s for stragglers, the call, and the end of the process.
_TASK_BILLED_AROUND_S = 5 + _BILLED_AFTER_STOP_S + 1

# Handler durations [ms]. The duration of a proxied hit is from `docs/operate/costs.md`. S3 answers within 15 to 60 ms.
# The rest is AWS calls of about 10 ms each.
PROXY_HIT_MS, PROXY_S3_MS, SCHEDULER_MS = 10, 60, 20
_WARM_START_MS, _COLD_START_MS = 20, 600  # cache function starts, including INIT and loading the object (thesis 5.6)
_HAND_OVER_MS = _COLD_START_MS + 1_000  # the predecessor occupies the warm environment and polls every second
# Import times of an early version on a busy machine. The current version on a quieter machine takes a sixth to a half
# less (`docs/evidence/measurements/reads.md`).
_INIT_PROXY_MS, _INIT_SCHEDULER_MS, _INIT_CONTROL_MS = 241, 189, 516
_PROXY_MB, _SCHEDULER_MB, _JANITOR_MB = 512, 256, 256  # template.yaml
METERED_BYTES = 512 * 1024  # an HTTP API bills a request per 512 KB
READ_LOG_BYTES = 310  # per proxied read: one metrics line if each read begins a batch, without Lambda's own lines
# A digest read takes one unit per 4 KB, or half a unit if the reader has no local cache. The route of a key that has
# left its tier stays in the table until the janitor's next run.
_ROUTES_PER_UNIT = 25
_EVENTUAL_READ = Fraction(1, 2)  # units of an eventually consistent read
_NODE_ROW_READ = _EVENTUAL_READ  # units per minute, from an instance's second minute on
_ROUTE_EXPIRES_S = 300

# Always-on resources. A template test compares them with `docs/operate/costs.md`.
_VOLUME_GB, _ALB_ADDRESSES = 3, 2
_RELAY_VCPU, _RELAY_GB = Fraction(1, 4), Fraction(1, 2)
_JANITOR_PER_H, JANITOR_MS = 12, 200
_JANITOR_READS = 5  # the set of started keys and the digest, twice each, and the pause (plus each node's row, twice)
_ATTENDED_EVERY_S = 300  # interval of the janitor's timestamps in the row of a running node

# A write to the bucket invokes the origin function, which reads the rows of the key and of the nodes and announces the
# change. If the key's home node holds read-through entries, Redis control reads the same rows and deletes the entry
# while the origin function waits.
ORIGIN_MS, _ORIGIN_MB, _REMOVE_MS = 60, 128, 50

# Lambda polls an idle queue by five connections, and with a maximum concurrency never by fewer (AWS Lambda Developer
# Guide, "Configuring scaling behavior for SQS event source mappings"). Each long poll lasts 20 s, the most that SQS
# allows. Messages are sent one by one. Each is billed as if it were received and deleted alone, although up to ten
# share these requests.
QUEUE_POLLS_PER_H = 5 * 3600 // 20
_REQUESTS_PER_EVENT = 3  # send, receive, delete


def thesis_usage(result: RunResult, setup: Setup) -> Usage:
    """Return the thesis's four items: billed milliseconds, invocations, Redis seconds, S3 requests.

    Source:
        Thesis, section 5.1.4 "Cost Considerations", table A.1.
    """
    return Usage(
        architecture=setup.architecture,
        node_name=setup.node_name,
        cache_gb_s=gb_s(result.lambda_ms, setup.cache_memory_mb),
        cache_requests=result.invocations,
        node_h=Fraction(result.redis_s, 3600),
        s3_gets=result.s3_requests,
    )


@dataclass(frozen=True, slots=True)
class DoorTraffic:
    """The traffic of a front door in a period."""

    requests: int
    hits: Fraction | int  # requests answered without S3
    metered_512kb: int  # billed units of an HTTP API
    door_bytes: int  # bytes sent through the front door
    internet_bytes: int  # bytes sent to clients, including redirected responses from S3
    wakes: int = 1  # cold starts of the proxy after ten minutes without a request


def live_usage(
    result: RunResult,
    setup: Setup,
    *,
    period_us: int,
    traffic: DoorTraffic | None = None,
    busy_s: int | None = None,
    digest_reads: int | None = None,
    span_us: int | None = None,
    objects: int | None = None,
) -> Usage:
    """Return the total usage of the deployed system for a run.

    Args:
        result: The run.
        setup: The deployment.
        period_us: Lifetime of the stack, for hourly items [us].
        traffic: The front door's traffic. If None, all responses have the setup's mean size.
        busy_s: Number of seconds with a request [s]. If None, one per request.
        digest_reads: Digest reads of one reader that serves all requests. If None, one per busy second.
        span_us: Time from the first request to the last [us]. If None, the period.
        objects: Upper bound on keys in the digest. If None, the number of lives.
    """
    if traffic is None:
        metered = result.n * max(1, -(-setup.object_bytes // METERED_BYTES))
        total_bytes = setup.object_bytes * result.n
        traffic = DoorTraffic(result.n, result.n - result.n_s3, metered, total_bytes, total_bytes)
    busy_s = result.n if busy_s is None else busy_s
    digest_reads = busy_s if digest_reads is None else digest_reads
    door = door_usage(traffic, setup, period_us=period_us)
    parts = (
        _cache(result, setup),
        door,
        _reports(result, setup, busy_s),
        _digest(result, setup, digest_reads, busy_s, objects),
        control_usage(_control_counts(result, setup)),
        _metrics(result, setup, period_us if span_us is None else span_us),
        _express(result, setup),
        _writes(result, setup, period_us),
        Usage(config_items=result.redis_starts * items_per_run(setup.instance_type)),
        idle_usage(setup, period_us),
    )
    total = replace(add(parts), architecture=setup.architecture, node_name=setup.node_name)
    return replace(total, init_gb_s=door.init_gb_s + _init_gb_s(result, setup, traffic.wakes))


def door_usage(traffic: DoorTraffic, setup: Setup, *, period_us: int) -> Usage:
    """Return the usage of front door, proxy and internet transfer. Readers in the VPC use none of these.

    Every system without its own HTTP interface needs the same front door.
    """
    if setup.readers == "aws":
        return Usage(architecture=setup.architecture)
    is_alb, hours = setup.front_door == "alb", Fraction(period_us, US_PER_H)
    return Usage(
        architecture=setup.architecture,
        internet_gb=Fraction(traffic.internet_bytes, BYTES_PER_GB),
        front_door_512kb=0 if is_alb else traffic.metered_512kb,
        alb_lcu_h=Fraction(traffic.door_bytes, BYTES_PER_GB) / Fraction(4, 10) if is_alb else 0,
        proxy_gb_s=gb_s(PROXY_HIT_MS * traffic.hits + PROXY_S3_MS * (traffic.requests - traffic.hits), _PROXY_MB),
        init_gb_s=gb_s(_INIT_PROXY_MS, _PROXY_MB) * traffic.wakes,
        function_requests=traffic.requests,
        logs_gb=Fraction(READ_LOG_BYTES * traffic.requests, BYTES_PER_GB),
        alb_h=hours if is_alb else 0,
        ipv4_h=_ALB_ADDRESSES * hours if is_alb else 0,
    )


def _cache(result: RunResult, setup: Setup) -> Usage:
    """Return the usage of cache functions, nodes and S3."""
    invocations = result.invocations + result.handovers
    started_ms = _WARM_START_MS * (result.invocations - result.cold_starts) + _HAND_OVER_MS * result.handovers
    return Usage(
        cache_gb_s=gb_s(result.lambda_ms + started_ms, setup.cache_memory_mb),
        cache_requests=invocations,
        node_h=Fraction(_node_s(result, setup), 3600),
        dynamodb_reads=(_node_s(result, setup) // 60 - result.redis_starts) * _NODE_ROW_READ,
        dynamodb_writes=_node_s(result, setup) // _ATTENDED_EVERY_S,
        # Each start of a cache function sends a GET, which is conditional after a warm start. Hand-overs and promotions
        # to Redis revalidate once more. Boots need no revalidation, because a lease on each entry detects a write
        # during the load.
        s3_gets=result.n_s3
        + result.range_gets
        + invocations
        + result.handovers
        + 2 * promotions(result)
        + result.guests.loads,
        # A hit passes the NLB twice, to the relay and back. A capacity unit is 1 GB.
        nlb_lcu_h=Fraction(2 * setup.object_bytes * result.n_lambda, BYTES_PER_GB) if setup.relay == "nlb" else 0,
        zone_gb=setup.far_readers * Fraction(setup.object_bytes * (result.n_lambda + result.n_redis), BYTES_PER_GB),
        logs_gb=Fraction(LOG_BYTES * invocations, BYTES_PER_GB),
    )


def _digest(result: RunResult, setup: Setup, digest_reads: int, busy_s: int, objects: int | None) -> Usage:
    """Return the read units of the digest.

    This is an upper bound, because each reader counts as if it served all requests. A reader of fewer requests never
    needs more digest reads. There is at most one digest read per request.
    """
    queries = _readers(result, setup, busy_s) * digest_reads
    units = -(-_shown_routes(result, busy_s, objects) // _ROUTES_PER_UNIT)
    each = 1 if setup.reader_memory_bytes else _EVENTUAL_READ
    return Usage(dynamodb_reads=Fraction(each * max(1, units) * min(result.n, -(-queries // 1))))


def _readers(result: RunResult, setup: Setup, busy_s: int) -> Fraction:
    """Return the mean number of readers over the seconds with a request.

    In the VPC, this is the configured number of processes. On the internet, the readers are the proxy's environments:
    the mean number of busy environments plus one.
    """
    if setup.readers == "aws":
        return Fraction(setup.reader_processes)
    busy_ms = PROXY_HIT_MS * (result.n_lambda + result.n_redis) + PROXY_S3_MS * result.n_s3
    return 1 + Fraction(busy_ms, 1000 * max(1, busy_s))


def _shown_routes(result: RunResult, busy_s: int, objects: int | None) -> int:
    """Return an upper bound on the number of routes in the digest, as a mean over the seconds with digest reads."""
    lives, promoted = result.invocations, promotions(result)
    # The run does not record how long a key stays in Redis. The node's running time is an upper bound.
    in_redis = -(-promoted // max(1, result.redis_starts))
    seconds = result.lambda_us_exact // US_PER_S + _ROUTE_EXPIRES_S * (lives + promoted)
    others = -(-seconds // max(1, busy_s))
    most = lives + promoted
    return min(in_redis + others, most if objects is None else min(most, objects))


def _reports(result: RunResult, setup: Setup, busy_s: int) -> Usage:
    """Return the usage of readers' reports of requests that memory did not answer.

    Under the thesis's policy, each request served by S3 costs a message and a write. Under a node-use policy, a reader
    sends a batch every ten seconds. A batch reads the node row and the use row, writes the use row, and reads one row
    per key at half price. A key's row is written once an hour. The run counts the batches of one reader.
    """
    guests = result.guests
    messages = writes = result.n_s3 if setup.decides else 0
    if guests.told:
        batches = guests.told_batches * _readers(result, setup, busy_s)
        messages = min(guests.told, -(-batches // 1))
        writes = messages + guests.seen_writes
    # With cache functions, a request also updates its key's row, unless a cache function serves it or the node runs.
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
    """Return the usage of copies in S3 Express. Copies have no rows in the table."""
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
    """Return the usage of invalidations. Each write needs an invocation, a digest write and a tombstone in S3 Express.

    With read-through entries, a write also calls Redis control while the object's home node runs, whether or not the
    node holds the object. S3 sends one event per write. As an upper bound, each event is followed by an invocation of
    its own, with a queue, too.
    """
    writes = Fraction(setup.writes_per_h) * period_us / US_PER_H
    runs_s, exists_s = _node_s(result, setup) if result.guests.told else 0, setup.nodes * Fraction(period_us, US_PER_S)
    removals = writes * min(Fraction(1), runs_s / exists_s) if exists_s else Fraction(0)
    origin_gb_s = gb_s(ORIGIN_MS * writes + _REMOVE_MS * removals, _ORIGIN_MB)
    return Usage(
        control_gb_s=origin_gb_s + gb_s(_REMOVE_MS * removals, CONTROL_MB),
        function_requests=writes + removals,
        queue_requests=queue_requests(writes, setup),
        dynamodb_writes=writes,
        dynamodb_reads=(1 + setup.nodes) * (writes + removals),
        express_puts=writes if setup.express else 0,
        logs_gb=LOG_BYTES * (writes + removals) / BYTES_PER_GB,
    )


def queue_requests(events: Amount, setup: Setup) -> Amount:
    """Return the requests to SQS by which S3's events of writes pass the queue, without the polls of an idle queue."""
    return _REQUESTS_PER_EVENT * events if setup.origin_events == "queue" else 0


def _control_counts(result: RunResult, setup: Setup) -> ControlCounts:
    return ControlCounts(
        lives=result.invocations,
        promotions=promotions(result),
        handovers=result.handovers,
        boots=result.redis_starts,
        node_s=_node_s(result, setup),
        checks=result.checks or -(-result.redis_us_exact // (60 * US_PER_S)),
    )


def _metrics(result: RunResult, setup: Setup, span_us: int) -> Usage:
    tiers = (result.n_s3, result.n_lambda, result.n_redis, result.n_memory, result.n_express)
    return metrics_usage(_control_counts(result, setup), tiers if setup.readers == "internet" else (), span_us)


def idle_usage(setup: Setup, period_us: int) -> Usage:
    """Return the hourly usage of the stack, with or without requests."""
    hours = Fraction(period_us, US_PER_H)
    relay_h = 0 if setup.relay == "none" else hours
    janitor_h = hours if setup.relay != "none" or setup.nodes else 0
    return Usage(
        volume_gb_h=0 if setup.has_tasks else _VOLUME_GB * setup.nodes * hours,
        nlb_h=hours if setup.relay == "nlb" else 0,
        zone_h=hours if setup.relay == "direct" else 0,
        relay_vcpu_h=_RELAY_VCPU * relay_h,
        relay_gb_h=_RELAY_GB * relay_h,
        ipv4_h=relay_h if setup.relay_ipv4 else 0,
        janitor_gb_s=gb_s(JANITOR_MS, _JANITOR_MB) * _JANITOR_PER_H * janitor_h,
        janitor_reads=(_JANITOR_READS + 2 * setup.nodes) * _JANITOR_PER_H * janitor_h,
        janitor_requests=_JANITOR_PER_H * janitor_h,
        queue_polls=QUEUE_POLLS_PER_H * hours if setup.origin_events == "queue" else 0,
    )


def promotions(result: RunResult) -> int:
    """Return the number of promotions to Redis: S3 requests minus requests for serving, cold starts and node loads."""
    return result.s3_requests - result.n_s3 - result.cold_starts - result.guests.loads


def _node_s(result: RunResult, setup: Setup) -> int:
    """Return the billed time of the nodes, at least a minute per run [s].

    EC2 bills an instance from `running` to the stop. Fargate bills a task from its image's download to its end.
    """
    around_s = _TASK_BILLED_AROUND_S if setup.has_tasks else BILLED_BEFORE_READY_S + _BILLED_AFTER_STOP_S
    if result.redis_s and not result.redis_spans_us:  # only the sum is known, including the minimum of a minute
        return result.redis_s + around_s * result.redis_starts
    runs_s = [-(-(stop_us - ready_us) // US_PER_S) + around_s for ready_us, stop_us in result.redis_spans_us]
    unready = max(0, result.redis_starts - len(runs_s))  # still booting at the end of the run
    return sum(max(LEAST_NODE_S, run_s) for run_s in runs_s) + LEAST_NODE_S * unready


def _init_gb_s(result: RunResult, setup: Setup, wakes: int) -> Fraction:
    """Return the INIT time of functions, billed since 2025-08-01 [GB-s]."""
    scheduler = gb_s(_INIT_SCHEDULER_MS, _SCHEDULER_MB) * wakes if result.n_s3 else 0
    control = gb_s(_INIT_CONTROL_MS, CONTROL_MB) * min(wakes, result.redis_starts)
    return gb_s(_COLD_START_MS * result.cold_starts, setup.cache_memory_mb) + scheduler + control
