"""Walls of control: events, Step Functions, the table's rows, the log of changes, and what a boot loads."""

from __future__ import annotations

from collections.abc import Iterator

from burstcache.core.batching import MIN_BATCH_AGE_US
from burstcache.core.messages.events import MOST_KEYS_PER_EVENT
from burstcache.core.node_use import MAX_LOADS, MAX_SEEN
from burstcache.core.parameters import US_PER_S
from burstcache.core.policy import CHECKS_PER_PART
from burstcache_sim.bill.control import ControlCounts, control_usage
from burstcache_sim.scale.change_log import log_bytes, most_changes_per_s, most_written_per_s
from burstcache_sim.scale.items import start_write_units, write_units
from burstcache_sim.scale.load import StackLoad
from burstcache_sim.scale.retries import most_reports_per_s, most_writers_per_s
from burstcache_sim.scale.wall import Wall

EVENTS_PER_CHECK = 9  # of a node's execution (`core.policy`)
_CHECK_S = 60
_REPORT_READS = 2  # the node's row and its use
_SPLIT = "time: the partition splits"


def event_walls(load: StackLoad) -> Iterator[Wall]:
    """Yield the walls of EventBridge."""
    if not load.has_tiers:
        return
    reports = load.reports_per_s + _reported_keys_per_s(load) / MOST_KEYS_PER_EVENT
    late = "reports are dropped; keys get hot later"
    yield Wall(
        "EventBridge, PutEvents",
        "events/s",
        reports,
        load.quotas.put_events,
        "late",
        late,
        "Service Quotas; a batching policy",
        scope="account",
    )
    yield Wall(
        "EventBridge, deliveries",
        "events/s",
        reports + load.writes_per_s,
        load.quotas.event_deliveries,
        "late",
        "events wait",
        "Service Quotas",
        scope="account",
    )


def machine_walls(load: StackLoad) -> Iterator[Wall]:
    """Yield the walls of Step Functions."""
    if not load.has_tiers:
        return
    starts = load.starts_per_s + load.nodes * US_PER_S / MIN_BATCH_AGE_US
    promoted = 1 if load.has_leases and load.nodes else 0
    life = control_usage(ControlCounts(1, promoted, 0, 0, 0, 0))
    check = control_usage(ControlCounts(0, 0, 0, 0, 0, 1))
    yield Wall(
        "Step Functions, StartExecution",
        "starts/s",
        starts,
        load.quotas.start_executions,
        "late",
        "keys get hot later",
        "Service Quotas",
        scope="account",
    )
    yield Wall(
        "Step Functions, transitions",
        "transitions/s",
        load.starts_per_s * float(life.transitions) + load.nodes * float(check.transitions) / _CHECK_S,
        load.quotas.state_transitions,
        "late",
        "states wait",
        "Service Quotas",
        scope="account",
    )
    if load.nodes:
        yield Wall(
            "Step Functions, events of a node's execution",
            "events",
            EVENTS_PER_CHECK * CHECKS_PER_PART,
            load.quotas.execution_events,
            "late",
            "never: a run goes on in its next part",
            "not needed",
            is_fixed=True,
        )


def life_walls(load: StackLoad) -> Iterator[Wall]:
    """Yield the walls of keys' lives: their number, and the set of started keys."""
    if not load.has_lives:
        return
    units = start_write_units(load.max_hot_keys)
    yield Wall(
        "`MaxHotKeys`",
        "keys",
        load.hot_keys,
        load.max_hot_keys,
        "S3 serves",
        "S3 serves further keys",
        "`MaxHotKeys`; a policy with nodes",
    )
    yield Wall(
        "DynamoDB, started keys",
        "units/s",
        load.starts_per_s * units,
        load.quotas.partition_write_units,
        "late",
        f"keys get hot later (write units a start: {units:g})",
        _SPLIT,
    )


def row_walls(load: StackLoad) -> Iterator[Wall]:
    """Yield the walls of single rows and partitions."""
    partition = load.quotas.partition_write_units
    if load.has_guests:
        yield Wall(
            "DynamoDB, use of a node",
            "reports/s",
            load.reports_per_s,
            most_reports_per_s(partition),
            "late",
            "reports are repeated for 90 s",
            "fewer, busier readers",
            is_assumed=True,
        )
        yield Wall(
            "DynamoDB, a node's seen keys",
            "units/s",
            _new_keys_per_s(load) / load.nodes,
            partition,
            "late",
            "keys are recorded later",
            f"`RedisNodeCount`; {_SPLIT}",
        )
    if load.has_leases and load.has_tiers:
        yield Wall(
            "DynamoDB, row of the most-read key",
            "units/s",
            load.reads_per_s * load.top_share,
            partition,
            "late",
            "reads are counted later",
            "not: one item",
        )
    elif load.has_cache_functions:
        yield Wall(
            "DynamoDB, row of the most-read key",
            "reports/s",
            load.reports_per_s,
            most_writers_per_s(),
            "late",
            "more than 1 % of the reports are dropped",
            "fewer, busier readers",
            is_assumed=True,
        )


def change_walls(load: StackLoad) -> Iterator[Wall]:
    """Yield the walls of writes to the bucket. Each is announced by itself, as those through Burstcache are."""
    if load.origin_events == "queue":
        yield Wall(
            "S3's events, queue",
            "writes/s",
            load.writes_per_s,
            load.followed_per_s,
            "late",
            "changes reach tiers and memories later",
            "the queue's `MaximumConcurrency`",
            is_assumed=True,
        )
    yield Wall(
        "digest's log, reach",
        "changes/s",
        load.writes_per_s,
        most_changes_per_s(),
        "S3 serves",
        "readers' memories start empty",
        "stacks by prefix",
    )
    yield Wall(
        "DynamoDB, digest's log, writes",
        "changes/s",
        load.writes_per_s,
        most_written_per_s(load.quotas.partition_write_units),
        "late",
        "changes reach readers later",
        "stacks by prefix",
    )


def table_walls(load: StackLoad) -> Iterator[Wall]:
    """Yield the walls of the whole table."""
    keys = _reported_keys_per_s(load)
    windows = load.reads_per_s if load.has_leases and load.has_tiers else 0.0
    uses = load.reports_per_s + _new_keys_per_s(load) if load.has_guests else 0.0
    starts = load.starts_per_s * start_write_units(load.max_hot_keys) if load.has_lives else 0.0
    yield Wall(
        "DynamoDB, table writes",
        "units/s",
        windows + uses + starts + _change_units_per_s(load),
        load.quotas.table_write_units,
        "late",
        "throttled for minutes",
        "time; warm throughput",
    )
    yield Wall(
        "DynamoDB, table reads",
        "units/s",
        load.reports_per_s * _REPORT_READS + keys / 2 + load.writes_per_s * (1 + load.nodes),
        load.quotas.table_read_units,
        "late",
        "throttled for minutes",
        "time; warm throughput",
    )


def boot_walls(load: StackLoad) -> Iterator[Wall]:
    """Yield the walls of a boot, if all keys were read within the last day."""
    if not load.has_guests:
        return
    keys = load.keys / load.nodes
    yield Wall(
        "a boot, objects",
        "objects",
        keys,
        MAX_LOADS,
        "S3 serves",
        "first reads fill the node",
        "`RedisNodeCount`",
    )
    yield Wall(
        "a boot, rows",
        "rows",
        keys,
        MAX_SEEN,
        "S3 serves",
        "a random part is considered",
        "`RedisNodeCount`",
    )


def _change_units_per_s(load: StackLoad) -> float:
    """Return the write units of the log of changes, an upper bound: each append writes all of the item."""
    return load.writes_per_s * write_units(log_bytes(load.writes_per_s))


def _new_keys_per_s(load: StackLoad) -> float:
    """Return the keys that a burst's first reports record, which come after 10 s."""
    return min(load.keys * US_PER_S / MIN_BATCH_AGE_US, load.reads_per_s)


def _reported_keys_per_s(load: StackLoad) -> float:
    """Return the keys in reports, an upper bound: each key in each report, if there are as many reads."""
    if not load.has_tiers:
        return 0.0
    return min(load.keys * load.reports_per_s, load.reads_per_s)
