"""What the page shows, as plain values for JSON; times in ms since 1970."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from burstcache.core.rows import KeyRow, Lease, NodeRow
from burstcache.metrics import TIERS
from burstcache.queries.keys import key_view
from burstcache.queries.nodes import node_view
from burstcache.queries.places import node_of
from burstcache.queries.states import GUEST
from burstcache_dashboard.measured import Measured
from burstcache_dashboard.receipt import Receipt, receipt_fields
from burstcache_dashboard.source import Failed, Rows
from burstcache_terminal.text import count_text

_WAITING = {"UndeliveredEvents": "nothing took", "FailedEvents": "a function failed on"}

Sections = dict[str, Any]  # the page's parts by name; `keys` is a table of its own: hash → row


def shown(
    rows: Rows,
    measured: Measured | None,
    receipt: Receipt | None,
    failed: Failed,
    *,
    max_object_bytes: int,
    node_bytes: Mapping[str, int] | None = None,
) -> Sections:
    """Return all parts of the page.

    Args:
        rows: The table.
        measured: What the stack has measured; None: it could not be read yet.
        receipt: Its bill; None: likewise.
        failed: What failed apart from that.
        max_object_bytes: What a faster tier takes [bytes].
        node_bytes: What nodes hold, by name, as far as that is known [bytes].
    """
    nodes = [node for node, _ in rows.nodes]
    keys = {row.hash: _key(row, nodes, rows.at_us, max_object_bytes) for row in rows.keys}
    states = Counter(fields[1] for fields in keys.values())
    return {
        "keys": keys,
        "status": _status(rows, states),
        "states": dict(states),
        "nodes": [
            _node(row, leases, rows, keys.values()) | {"capacityBytes": (node_bytes or {}).get(row.node, 0)}
            for row, leases in rows.nodes
        ],
        "figures": _figures(measured) if measured else None,
        "series": _series(measured, rows.at_us) if measured else None,
        "receipt": receipt_fields(receipt) if receipt else None,
        "failures": [*(_failures(measured) if measured else ()), *_failures_elsewhere(rows, failed)],
    }


def _key(row: KeyRow, nodes: Sequence[NodeRow], now_us: int, max_object_bytes: int) -> list[Any]:
    """Return name, state, tier, node, since when, requests, size, failures in a row, end of a cool-down."""
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
    live = sum(count for state, count in states.items() if state not in ("S3", GUEST))
    running = [row.node for row, _ in rows.nodes if row.phase_at(rows.at_us) != "stopped"]
    return {
        "live": live,
        "guests": states.get(GUEST, 0),
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
        "generation": view.generation,
        "readyMs": view.ready_at_us // 1000 if view.phase == "running" else 0,
        "bootedMs": row.booted_at_us // 1000 if view.phase != "stopped" else 0,
        "keys": list(view.keys),
        "objectBytes": sum(fields[6] for fields in keys if fields[2] == "redis" and fields[3] == row.node),
        "guests": bool(row.peers) and view.phase == "running",
        "heldMs": view.held_until_us // 1000,
        "bar": row.bar if row.is_barred(rows.at_us) else "",
        "notBeforeMs": row.not_before_us // 1000,
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
    """Return reads a second by tier, with the slots in which nothing was read; a slot must be over to have a rate."""
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
    """Return what the figures say of what went wrong; of functions with the time of the newest failure."""
    found: list[dict[str, Any]] = []
    if measured.failed_reads:
        found.append({"atMs": 0, "what": f"answered with an error (5xx): {count_text(measured.failed_reads, 'read')}"})
    for reason, count in measured.fallbacks.items():
        found.append(
            {"atMs": 0, "what": f"{count_text(count, 'read')} fell back to a lower tier: {reason.replace('_', ' ')}"}
        )
    for name, use in measured.functions.items():
        if use.errors:
            at_ms = use.failed_at_s * 1000
            found.append({"atMs": at_ms, "what": f"{name}: {use.errors:,} of {use.invocations:,} invocations failed"})
        if use.throttles:
            found.append({"atMs": 0, "what": f"{name}: {count_text(use.throttles, 'invocation')} throttled"})
    return found


def _failures_elsewhere(rows: Rows, failed: Failed) -> list[dict[str, Any]]:
    """Return what else went wrong, the newest first; what has no time stands first."""
    found: list[dict[str, Any]] = []
    for queue, count in failed.events.items():
        if count:
            found.append({"atMs": 0, "what": f"queue {queue}: {count_text(count, 'event')} that {_WAITING[queue]}"})
    for row, _ in rows.nodes:
        if row.failures:
            found.append({"atMs": 0, "what": f"node {row.node}: {count_text(row.failures, 'failed boot')} in a row"})
    for execution in failed.executions:
        found.append(
            {
                "atMs": round(execution["stopDate"].timestamp() * 1000),
                "what": f"execution {execution['name']} ended as {execution['status']}",
            }
        )
    return found


def changes(former: Sections, now: Sections) -> Sections:
    """Return what is new: changed sections, changed keys, and the hashes of keys that are gone; empty if nothing is."""
    changed = {name: value for name, value in now.items() if name != "keys" and value != former.get(name)}
    before, after = former["keys"], now["keys"]
    keys = {hash_: fields for hash_, fields in after.items() if before.get(hash_) != fields}
    gone = [hash_ for hash_ in before if hash_ not in after]
    return changed | ({"keys": keys} if keys else {}) | ({"gone": gone} if gone else {})


def event(name: str, sections: Sections) -> bytes:
    """Return a server-sent event."""
    return f"event: {name}\ndata: {json.dumps(sections, separators=(',', ':'))}\n\n".encode()
