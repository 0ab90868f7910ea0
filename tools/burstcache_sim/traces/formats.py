"""The formats of logs that are read, in the order in which a file is tried."""

from __future__ import annotations

from collections.abc import Iterable

from burstcache_sim.traces.alb_log import ALB_LOG
from burstcache_sim.traces.arrival_csv import ARRIVAL_CSV
from burstcache_sim.traces.cloudfront_log import CLOUDFRONT_JSON, CLOUDFRONT_LOG
from burstcache_sim.traces.cloudtrail_log import CLOUDTRAIL_LOG
from burstcache_sim.traces.combined_log import COMBINED_LOG
from burstcache_sim.traces.json_log import json_log
from burstcache_sim.traces.log_format import FieldNames, LogFormat
from burstcache_sim.traces.request_csv import request_csv
from burstcache_sim.traces.s3_log import S3_LOG

AUTO = "auto"


def formats(names: FieldNames) -> list[LogFormat]:
    """Return all formats; tables and JSON have columns and members of these names, or else the usual ones."""
    return [
        ARRIVAL_CSV,
        request_csv(names),
        request_csv(names, has_dates=True),
        S3_LOG,
        CLOUDFRONT_LOG,
        ALB_LOG,
        COMBINED_LOG,
        CLOUDFRONT_JSON,
        CLOUDTRAIL_LOG,
        json_log(names),
    ]


FORMAT_NAMES = (AUTO, *dict.fromkeys(format_.name for format_ in formats({})))


def formats_named(name: str, names: FieldNames) -> list[LogFormat]:
    """Return the formats that a file of this name may have: all, one, or a table with or without dates."""
    return [format_ for format_ in formats(names) if name in (AUTO, format_.name)]


def guess(candidates: Iterable[LogFormat], head: list[bytes]) -> LogFormat | None:
    """Return the first format that a file with these first lines can have; None if there is none."""
    return next((format_ for format_ in candidates if format_.recognises(head)), None)
