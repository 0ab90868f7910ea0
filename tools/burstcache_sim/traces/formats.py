"""The supported log formats, in the order of detection."""

from __future__ import annotations

from collections.abc import Iterable

from burstcache_sim.traces.alb_log import ALB_LOG
from burstcache_sim.traces.arrival_csv import ARRIVAL_CSV
from burstcache_sim.traces.cloudtrail_log import CLOUDTRAIL_LOG
from burstcache_sim.traces.combined_log import COMBINED_LOG
from burstcache_sim.traces.fields import FieldNames
from burstcache_sim.traces.json_log import json_lines
from burstcache_sim.traces.line_logs import LINE_LOGS
from burstcache_sim.traces.log_format import FormatCandidate, LogFormat
from burstcache_sim.traces.s3_log import S3_LOG
from burstcache_sim.traces.table_log import tables
from burstcache_sim.traces.w3c_log import CLOUDFRONT_JSON, CLOUDFRONT_LOG, W3C_LOG

AUTO = "auto"


def candidates(names: FieldNames, delimiter: bytes | None = None) -> list[FormatCandidate]:
    """Return all formats. `names` overrides the usual names of table columns and JSON members."""
    return [
        FormatCandidate.of(ARRIVAL_CSV),
        tables(names, delimiter),
        *map(FormatCandidate.of, (S3_LOG, CLOUDFRONT_LOG, W3C_LOG, ALB_LOG, *LINE_LOGS, COMBINED_LOG)),
        *map(FormatCandidate.of, (CLOUDFRONT_JSON, CLOUDTRAIL_LOG)),
        json_lines(names),
    ]


FORMAT_NAMES = (AUTO, *dict.fromkeys(candidate.name for candidate in candidates({})))


def candidates_named(name: str, names: FieldNames, delimiter: bytes | None = None) -> list[FormatCandidate]:
    """Return the candidates for a `--format`: all for `auto`, otherwise one."""
    return [candidate for candidate in candidates(names, delimiter) if name in (AUTO, candidate.name)]


def detect(among: Iterable[FormatCandidate], head: list[bytes]) -> LogFormat | None:
    """Return the first format that matches a file's first lines, or None if none matches."""
    return next((format_ for candidate in among if (format_ := candidate.find(head))), None)
