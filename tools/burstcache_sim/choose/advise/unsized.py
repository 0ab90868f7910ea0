"""Advice for an unsized log, in which no row shows a size: no verdict, only figures that need no size."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from burstcache.core.errors import InvalidSettingError
from burstcache.core.parameters import US_PER_S
from burstcache_sim.bill.locality import EVERYTHING_BYTES
from burstcache_sim.choose.tune.workload import Workload
from burstcache_sim.traces.errors import BadLogError
from burstcache_sim.traces.files import blocks, log_files
from burstcache_terminal.text import count_text, duration_text, fixed_text, number_text, usd_text, wrapped_text

_WORD = re.compile(r"[A-Za-z][\w.()-]*")
_LOOKS_LIKE_A_SIZE = re.compile(r"(?i)bytes|size|length|(?:^|[._-])len(?:$|[._-])")
_FIRST_CHARACTERS = 4096


def unsized_fields(workload: Workload, paths: Sequence[str]) -> dict[str, Any]:
    """Return the advice for JSON.

    Args:
        workload: The log and its billing.
        paths: The log's files.
    """
    demand, repeats = workload.demand, workload.repeats_per_month
    requests = Fraction(demand.requests)
    misses = min(workload.locality(workload.trace).misses(EVERYTHING_BYTES, repeats=repeats), requests)
    columns = size_columns(paths)
    fields: dict[str, Any] = {
        "verdict": "unknown",
        "why": "no row shows the size of an object",
        "size_columns": columns,
        "n": demand.requests,
        "objects": demand.objects,
        "period_s": demand.period_us / US_PER_S,
        "repeats_per_month": float(repeats),
        "prices": workload.prices.name,
        "s3_requests_usd_per_month": float(demand.requests * workload.prices.usd("s3-get") * repeats),
        "most_in_memory_pct": round(float(100 * (1 - misses / requests)), 6),
    }
    return fields | {"text": _lines(fields)}


def unsized_text(fields: dict[str, Any]) -> str:
    """Return the advice for a terminal."""
    return "\n".join(map(wrapped_text, fields["text"]))


def size_columns(paths: Sequence[str]) -> list[str]:
    """Return the words in a log's first line, such as column names, that look like a size."""
    try:
        files = log_files([path for path in paths if "://" not in path])
        head = next(blocks(files[0]), b"") if files and Path(files[0]).is_file() else b""
    except (BadLogError, InvalidSettingError, OSError):
        return []
    first, *_ = head[:_FIRST_CHARACTERS].decode("utf-8", "replace").splitlines() or [""]
    return [word for word in dict.fromkeys(_WORD.findall(first)) if _LOOKS_LIKE_A_SIZE.search(word)]


def _lines(fields: dict[str, Any]) -> list[str]:
    columns = fields["size_columns"]
    named = f"Columns that look like sizes: {', '.join(columns)}. " if columns else ""
    example = columns[0] if columns else "NAME"
    times = number_text(fields["repeats_per_month"])
    log = f"{count_text(fields['n'], 'request')} for {count_text(fields['objects'], 'object')}"
    return [
        "NO VERDICT: no row shows the size of an object, on which the cost of memory and of transfer depends.",
        f"{named}Name the column (--fields size={example}), or state the size of an object (--object-bytes 50000).",
        "Independent of sizes:",
        f"- {log} in {duration_text(fields['period_s'])}, repeated {times} times a month.",
        f"- S3 alone costs {usd_text(fields['s3_requests_usd_per_month'])} USD a month for GETs.",
        f"- An unlimited cache answers {fixed_text(fields['most_in_memory_pct'], 1)} % of a month's requests.",
    ]
