"""The sections shown on the page, as JSON values. Times are in ms since 1970."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from burstcache.access import names_of
from burstcache.core.placement import node_for
from burstcache.core.recency import is_repeat
from burstcache.core.rows import KeyRow, Lease, NodeRow
from burstcache.metrics import TIERS
from burstcache.queries.keys import key_view
from burstcache.queries.node_memory import StackMemory, memory_view, wanted_bytes_of
from burstcache.queries.nodes import node_view
from burstcache.queries.places import node_of
from burstcache.queries.states import GUEST
from burstcache.queries.transitions import StackRules
from burstcache_cli.memory_text import change_text, node_text
from burstcache_dashboard.measured import Measured
from burstcache_dashboard.receipt import Receipt, receipt_fields
from burstcache_dashboard.source import Failed, Rows
from burstcache_terminal.text import count_text

_DEAD_LETTERS = {"UndeliveredEvents": "could not be delivered", "FailedEvents": "a function failed on"}

# Values of the dimension of `metrics.FALLBACKS` in an operator's words.
_FALLBACKS = {
    "redis_down": "Redis was unreachable",
    "relay_down": "the relay was unreachable",
    "silent": "the cache function timed out",
    "left_alone": "a circuit breaker was open after a failure",
    "other": "another error, which the proxy's log has",
}

Sections = dict[str, Any]  # by name; the section `keys` maps hashes to rows


def shown(
    rows: Rows,
    measured: Measured | None,
    receipt: Receipt | None,
    failed: Failed,
    *,
    max_object_bytes: int,
    node_bytes: Mapping[str, int] | None = None,
    rules: StackRules | None = None,
) -> Sections:
    """Return all sections of the page.

    Args:
        rows: The stack's table.
        measured: The stack's figures, or None before the first read.
        receipt: The stack's bill, or None if not computed yet.
        failed: Failed executions and dead-lettered events.
        max_object_bytes: Maximum size of objects in faster tiers [bytes].
        node_bytes: Node capacities by name, if known [bytes].
        rules: The stack's decision rules, if it tells them: they name the change that helps a full node.
    """
    nodes = [node for node, _ in rows.nodes]
    keys = {row.hash: _key(row, nodes, rows.at_us, max_object_bytes) for row in rows.keys}
    states = Counter(fields[1] for fields in keys.values())
    memory = _memory(rows, rules) if rules else None
    return {
        "keys": keys,
        "status": _status(rows, states),
        "states": dict(states),
        "nodes": [
            _node(row, leases, rows, keys.values()) | {"capacityBytes": (node_bytes or {}).get(row.node, 0)}
            for row, leases in rows.nodes
        ],
        "scaling": _scaling(memory) if memory and memory.full else None,
        "figures": _figures(measured) if measured else None,
        "series": _series(measured, rows.at_us) if measured else None,
        "receipt": receipt_fields(receipt) if receipt else None,
        "failures": [
            *(_failures(measured) if measured else ()),
            *_failures_elsewhere(rows, failed, since_us=measured.since_us if measured else 0),
        ],
    }


def possible_states(parameters: Mapping[str, str]) -> list[str]:
    """Return the states that keys have in a stack with these parameters, in the order of a life.

    Keys in other states may remain from a deployment with other parameters.
    """
    has_nodes, has_relay = parameters.get("RedisNodeCount") != "0", parameters.get("Relay") != "none"
    functions = ["Lambda", *(["RestrictedLambda"] if has_nodes else [])] if has_relay else []
    nodes = ["RedisBootup", "RedisRunning", "RedisShutdown"] if parameters.get("Policy") == "thesis" else [GUEST]
    return ["S3", *functions, *(nodes if has_nodes else [])]


def _key(row: KeyRow, nodes: Sequence[NodeRow], now_us: int, max_object_bytes: int) -> list[Any]:
    """Return name, state, tier, node, entry time, requests, size, consecutive failures, cool-down end, last request."""
    node = node_of(row, nodes, now_us)
    view = key_view(row, now_us, node=node, max_object_bytes=max_object_bytes)
    state, since_us = view.state, view.since_us
    if view.is_expired:
        state, since_us = "S3", row.deadline_at_us
    newest_us = row.window[-1].at_us if row.window else 0
    return [
        row.key,
        state,
        view.tier,
        view.node if view.tier == "redis" else "",
        since_us // 1000,
        f"{view.noted_requests}{'+' if view.is_window_full else ''}",
        row.size_bytes,
        row.failures,
        view.not_before_us // 1000,
        newest_us // 1000,
    ]


def _status(rows: Rows, states: Mapping[str, int]) -> dict[str, Any]:
    pause = rows.pause
    live = sum(count for state, count in states.items() if state != "S3")
    running = [row.node for row, _ in rows.nodes if row.phase_at(rows.at_us) != "stopped"]
    return {
        "live": live,
        "nodesOn": running,
        "nodes": len(rows.nodes),
        "pause": {"reason": pause.reason, "sinceMs": pause.since_us // 1000, "untilMs": pause.until_us // 1000}
        if pause
        else None,
    }


def _node(row: NodeRow, leases: tuple[Lease, ...], rows: Rows, keys: Iterable[list[Any]]) -> dict[str, Any]:
    view = node_view(row, leases, rows.at_us)
    return {
        "node": view.node,
        "phase": view.phase,
        "runsOn": _machine_text(row, view.phase),
        "lastBootMs": view.generation,  # generations are clock times
        "readyMs": view.ready_at_us // 1000 if view.phase == "running" else 0,
        "bootedMs": row.booted_at_us // 1000 if view.phase != "stopped" else 0,
        "keys": list(view.keys),
        "objectBytes": sum(fields[6] for fields in keys if fields[2] == "redis" and fields[3] == row.node),
        "guests": bool(row.peers) and view.phase == "running",
        "heldMs": view.held_until_us // 1000,
        "bar": row.bar if row.is_barred(rows.at_us) else "",
        "notBeforeMs": row.not_before_us // 1000,
    }


def _machine_text(row: NodeRow, phase: str) -> str:
    """Format what a node runs on, if that is known: an instance, or a task with its kind and address."""
    if row.task_kind and phase != "stopped":
        return f"{row.task_kind} at {row.host}" if row.host else row.task_kind
    return "instance" if phase == "running" else ""


def _memory(rows: Rows, rules: StackRules) -> StackMemory | None:
    """Return the memory of the nodes. An object that the table places nowhere counts on its home node."""
    names = names_of(rules.settings.redis_nodes)
    memories = {name: rows.memories[name] for name in names if name in rows.memories}
    if not rules.settings.policy.takes_guests or not memories:
        return None
    sizes: defaultdict[str, list[int]] = defaultdict(list)
    for row in rows.keys:
        if row.window and is_repeat(row.window[-1].at_us, rows.at_us):
            sizes[node_for(row.hash, names)].append(row.size_bytes)
    wanted = {name: wanted_bytes_of(sizes[name]) for name, memory in memories.items() if memory.is_evicting}
    return memory_view(memories, wanted, rules)


def _scaling(memory: StackMemory) -> dict[str, Any]:
    return {
        "full": [{"node": node.node, "what": node_text(node)} for node in memory.full],
        "pays": bool(memory.change and memory.change.pays),
        "change": change_text(memory.change),
    }


def _figures(measured: Measured) -> dict[str, Any]:
    return {
        "sinceMs": measured.since_us // 1000,
        "reads": measured.reads,
        "savedMs": measured.saved_ms,
        "failedReads": measured.failed_reads,
        "fallbacks": measured.fallbacks,
        "lives": measured.lives,
        "promotions": measured.promotions,
        "tiers": [{"tier": tier, **asdict(measured.tiers[tier])} for tier in TIERS if tier in measured.tiers],
    }


def _series(measured: Measured, now_us: int) -> dict[str, Any]:
    """Return reads per second for each tier and completed time slot, including empty slots."""
    step = measured.slot_s
    last = min(measured.until_us, now_us) // 1_000_000 - step
    by_start = {start: counts for start, counts in measured.series if start <= last}
    if not by_start:
        return {"at": [], "tiers": {}}
    starts = range(min(by_start), last + 1, step)
    tiers = [tier for tier in TIERS if any(tier in counts for counts in by_start.values())]
    nothing: Mapping[str, int] = {}
    lines = {tier: [round(by_start.get(start, nothing).get(tier, 0) / step, 3) for start in starts] for tier in tiers}
    return {"at": list(starts), "tiers": lines}


def _failures(measured: Measured) -> list[dict[str, Any]]:
    """Return the failures in the figures, each with the time of its newest occurrence if that is known."""
    failures: list[dict[str, Any]] = []
    if measured.failed_reads:
        failures.append(
            {
                "atMs": measured.failed_read_at_s * 1000,
                "what": f"answered with an error (5xx): {count_text(measured.failed_reads, 'read')}",
            }
        )
    for reason, count in measured.fallbacks.items():
        failures.append(
            {
                "atMs": measured.fell_back_at_s.get(reason, 0) * 1000,
                "what": f"{count_text(count, 'read')} fell back to a lower tier: {_FALLBACKS.get(reason, reason)}",
            }
        )
    for name, use in measured.functions.items():
        if use.errors:
            at_ms = use.failed_at_s * 1000
            failures.append(
                {"atMs": at_ms, "what": f"{name}: {use.errors:,} of {use.invocations:,} invocations failed"}
            )
        if use.throttles:
            failures.append({"atMs": 0, "what": f"{name}: {count_text(use.throttles, 'invocation')} throttled"})
    return failures


def _failures_elsewhere(rows: Rows, failed: Failed, *, since_us: int) -> list[dict[str, Any]]:
    """Return dead-lettered events and failed boots (without times), losses of nodes, and failed executions."""
    failures: list[dict[str, Any]] = []
    for queue, count in failed.events.items():
        if count:
            failures.append(
                {"atMs": 0, "what": f"queue {queue}: {count_text(count, 'event')} that {_DEAD_LETTERS[queue]}"}
            )
    for row, _ in rows.nodes:
        if row.failures:
            failures.append({"atMs": 0, "what": f"node {row.node}: {count_text(row.failures, 'failed boot')} in a row"})
        if row.lost_at_us > since_us:
            failures.append({"atMs": row.lost_at_us // 1000, "what": f"node {row.node} was lost: {row.lost_by}"})
    for execution in failed.executions:
        failures.append(
            {
                "atMs": round(execution["stopDate"].timestamp() * 1000),
                "what": f"execution {execution['name']} ended as {execution['status']}",
            }
        )
    return failures


def changes(former: Sections, now: Sections) -> Sections:
    """Return changed sections, changed keys and hashes of removed keys, or an empty result without changes."""
    changed = {name: value for name, value in now.items() if name != "keys" and value != former.get(name)}
    before, after = former["keys"], now["keys"]
    keys = {hash_: fields for hash_, fields in after.items() if before.get(hash_) != fields}
    gone = [hash_ for hash_ in before if hash_ not in after]
    return changed | ({"keys": keys} if keys else {}) | ({"gone": gone} if gone else {})


def event(name: str, sections: Sections) -> bytes:
    """Encode a server-sent event."""
    return f"event: {name}\ndata: {json.dumps(sections, separators=(',', ':'))}\n\n".encode()
