"""All that is known of one key: its reads, why it is where it is, its lives with their states; and one trace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from burstcache.core.keys import key_hash
from burstcache.core.rows import KeyRow
from burstcache.queries.explain import explain
from burstcache.queries.history import History
from burstcache.queries.lives import KeyLife, lives_of
from burstcache.queries.places import is_ever_guest, node_of, place_of
from burstcache_cli.explain import explanation_text
from burstcache_dashboard.parts import Part, said
from burstcache_dashboard.source import Rows, Source
from burstcache_dashboard.waterfall import newest_trace

_MOST_READS = 2_000


def key_page(source: Source, rows: Rows, key: str) -> dict[str, Any] | None:
    """Return what the page of a key shows; None if neither the table nor the log of reads has it. Times are in ms."""
    hash_, reads = key_hash(key), source.measures.reads_of(key)
    row = next((row for row in rows.keys if row.hash == hash_), None)
    if row is None and not reads:
        return None
    row = row or KeyRow(hash_, key)  # a guest needs none
    known: Part[list[KeyLife]] = Part("lives", [], ("lives",))
    lives = known.read(lambda: lives_of(source.system, hash_))
    return {
        "key": key,
        "hash": hash_,
        "etag": row.etag,
        # Without the reads themselves, those that its row remembers: only when they were is known.
        "reads": [asdict(read) for read in list(reads)[-_MOST_READS:]]
        if reads is not None
        else [{"at_ms": request.at_us // 1000} for request in row.window],
        "areReadsKnown": reads is not None,
        "explained": _explained(source, key, lives),
        "lives": [_life(source, life) for life in reversed(lives)],
        "trouble": known.trouble,
        "isEverGuest": is_ever_guest(hash_, [node for node, _ in rows.nodes]),
        "guestSinceMs": _guest_since_us(source, row, rows) // 1000,
        "nowMs": rows.at_us // 1000,
    }


def trace_fields(source: Source, rows: Rows, key: str) -> dict[str, Any] | None:
    """Return the newest trace of a key as its page shows it; None if there is none."""
    hash_ = key_hash(key)
    row = next((row for row in rows.keys if row.hash == hash_), KeyRow(hash_, key))
    trace = newest_trace(source, row, rows.at_us)
    return asdict(trace) if trace else None


def _explained(source: Source, key: str, lives: Sequence[KeyLife]) -> str:
    """Return what `burstcache explain` says of a key, or why it cannot: a stack may be older, or a right be missing."""
    try:
        return explanation_text(explain(source.system, source.rules, key, lives), is_wrapped=False)
    except Exception as error:  # the rest of the page is shown
        return said(error)


def _guest_since_us(source: Source, row: KeyRow, rows: Rows) -> int:
    """Return since when a node takes a key as a guest; 0: none does."""
    node = node_of(row, [node for node, _ in rows.nodes], rows.at_us)
    place = place_of(row, node, rows.at_us, max_object_bytes=source.max_object_bytes)
    return node.ready_at_us if node and place == "guest" else 0


def _life(source: Source, life: KeyLife) -> dict[str, Any]:
    history = source.system.key_history(life.execution_name)
    return {
        "name": life.execution_name,
        "url": "" if source.log_dir else _console_url(source.region, history),
        "steps": [{"atMs": step.at_us // 1000, "state": step.state, "failure": step.failure} for step in life.steps],
    }


def _console_url(region: str, history: History) -> str:
    """Return where the console of Step Functions shows an execution."""
    return (
        f"https://{region}.console.aws.amazon.com/states/home?region={region}"
        f"#/v2/executions/details/{history.execution_arn}"
    )
