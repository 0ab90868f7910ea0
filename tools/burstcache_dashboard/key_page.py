"""The page of one key, with reads, the reasons for the key's tier, lives with their states, and the latest trace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from burstcache.core.keys import key_hash
from burstcache.core.parameters import US_PER_S
from burstcache.core.rows import KeyRow
from burstcache.queries.explain import Explanation
from burstcache.queries.history import History
from burstcache.queries.lives import KeyLife, lives_of
from burstcache.queries.places import is_ever_guest
from burstcache.queries.slices import ObjectSlices
from burstcache.queries.states import GUEST
from burstcache_cli.explain import explained, explanation_text
from burstcache_dashboard.parts import Part, error_text
from burstcache_dashboard.source import Rows, Source
from burstcache_dashboard.waterfall import newest_trace

_MOST_READS = 2_000
_SLICES_EVERY_US = 60 * US_PER_S  # a question to nodes counts as a use of slices, and S3 Express bills it


def key_page(source: Source, rows: Rows, key: str) -> dict[str, Any] | None:
    """Return the fields of a key's page, with times in ms, or None if the key is unknown.

    Known are the keys in the table and the log of reads, and large objects in S3, since programs read their slices
    without a report.
    """
    hash_, reads = key_hash(key), source.measures.reads_of(key)
    row = next((row for row in rows.keys if row.hash == hash_), None)
    lives_part: Part[list[KeyLife]] = Part("lives", [], ("lives",))
    lives = lives_part.read(lambda: lives_of(source.system, hash_))
    text, explanation = _explained(source, key, lives)
    slices = explanation.slices if explanation else None
    if row is None and not reads and slices is None:
        return None
    row = row or KeyRow(hash_, key)  # guests and large objects may have no row
    return {
        "key": key,
        "hash": hash_,
        "etag": row.etag,
        # Without a log of reads, use the row's window, which has only times.
        "reads": [asdict(read) for read in list(reads)[-_MOST_READS:]]
        if reads is not None
        else [{"at_ms": request.at_us // 1000} for request in row.window],
        "areReadsKnown": reads is not None,
        "explained": text,
        "slices": _slices(slices) if slices else None,
        "lives": [_life(source, life) for life in reversed(lives)],
        "trouble": lives_part.trouble,
        "isEverGuest": slices is None and is_ever_guest(hash_, [node for node, _ in rows.nodes]),
        # The strip ends with the state that the explanation names. That of a large object may be a minute old.
        "guestSinceMs": explanation.since_us // 1000 if explanation and explanation.state == GUEST else 0,
        "nowMs": (explanation.at_us if explanation and not slices else rows.at_us) // 1000,
    }


def trace_fields(source: Source, rows: Rows, key: str) -> dict[str, Any] | None:
    """Return a key's latest trace as fields for the page, or None if there is no trace."""
    hash_ = key_hash(key)
    row = next((row for row in rows.keys if row.hash == hash_), KeyRow(hash_, key))
    trace = newest_trace(source, row, rows.at_us)
    return asdict(trace) if trace else None


def _explained(source: Source, key: str, lives: Sequence[KeyLife]) -> tuple[str, Explanation | None]:
    """Return the text of `burstcache explain` and the explanation, or an error message, such as for an older stack."""
    try:
        explanation = source.explained_large.get(key)
        if explanation is None or source.system.clock.now_us() - explanation.at_us > _SLICES_EVERY_US:
            explanation = explained(source.stack, source.system, source.rules, key, lives)
            source.explained_large.clear()
            if explanation.slices is not None:
                source.explained_large[key] = explanation
        return explanation_text(explanation, is_wrapped=False), explanation
    except Exception as error:  # the rest of the page does not depend on the explanation
        return error_text(error), None


def _slices(slices: ObjectSlices) -> dict[str, Any]:
    """Return the slices that each shared tier should have, and those that it has (None: unknown)."""
    tiers = [(f"Redis ({home.node})", home.held) for home in (slices.nodes.homes if slices.nodes else ())]
    if slices.express is not None:
        tiers.append(("S3 Express", slices.express.held))
    return {
        "count": slices.slices,
        "sampled": slices.sampled,
        "tiers": [{"tier": tier, **asdict(held)} for tier, held in tiers],
    }


def _life(source: Source, life: KeyLife) -> dict[str, Any]:
    history = source.system.key_history(life.execution_name)
    return {
        "name": life.execution_name,
        "url": "" if source.log_dir else _console_url(source.region, history),
        "steps": [{"atMs": step.at_us // 1000, "state": step.state, "failure": step.failure} for step in life.steps],
    }


def _console_url(region: str, history: History) -> str:
    """Return an execution's URL in the Step Functions console."""
    return (
        f"https://{region}.console.aws.amazon.com/states/home?region={region}"
        f"#/v2/executions/details/{history.execution_arn}"
    )
