"""The answer for a log in which nothing shows a size: no verdict, and only what does not depend on sizes."""

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
    """Return what can be said of a log without sizes, as fields of JSON.

    Args:
        workload: The log and how it is billed.
        paths: Its files.
    """
    demand, repeats = workload.demand, workload.repeats_per_month
    requests = Fraction(demand.requests)
    misses = min(workload.locality(workload.trace).misses(EVERYTHING_BYTES, repeats=repeats), requests)
    columns = size_columns(paths)
    found: dict[str, Any] = {
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
    return found | {"text": _lines(found)}


def unsized_text(found: dict[str, Any]) -> str:
    """Return the same for a person."""
    return "\n".join(map(wrapped_text, found["text"]))


def size_columns(paths: Sequence[str]) -> list[str]:
    """Return the words at the beginning of a log's first file, such as names of columns, that look like a size."""
    try:
        files = log_files([path for path in paths if "://" not in path])
        head = next(blocks(files[0]), b"") if files and Path(files[0]).is_file() else b""
    except (BadLogError, InvalidSettingError, OSError):
        return []
    first, *_ = head[:_FIRST_CHARACTERS].decode("utf-8", "replace").splitlines() or [""]
    return [word for word in dict.fromkeys(_WORD.findall(first)) if _LOOKS_LIKE_A_SIZE.search(word)]


def _lines(found: dict[str, Any]) -> list[str]:
    columns = found["size_columns"]
    named = f"Columns that look like sizes: {', '.join(columns)}. " if columns else ""
    example = columns[0] if columns else "NAME"
    times = number_text(found["repeats_per_month"])
    what = f"{count_text(found['n'], 'request')} for {count_text(found['objects'], 'object')}"
    return [
        "NO VERDICT: no row shows the size of an object, and the price of memory and of transfer depends on it.",
        f"{named}Name the column (--fields size={example}), or give the size of an object (--object-bytes 50000).",
        "What does not depend on sizes:",
        f"- {what} in {duration_text(found['period_s'])}; a month has them {times} times.",
        f"- S3 alone costs {usd_text(found['s3_requests_usd_per_month'])} USD a month for its GETs.",
        f"- A cache with room for everything answers {fixed_text(found['most_in_memory_pct'], 1)} % of a month's"
        " requests.",
    ]
