"""The options for a log: its files, format and selection."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime, timedelta

from burstcache_terminal.options import choice, number, whole

FORMATS = (
    "auto", "arrival", "csv", "s3", "cloudfront", "w3c", "alb", "squid", "haproxy", "envoy", "azure-blob", "combined",
    "cloudfront-json", "cloudtrail", "json",
)  # fmt: skip
FIELDS = ("time", "key", "size", "method", "status", "range", "sent", "object")
DELIMITERS = ("comma", "semicolon", "tab", "bar", "blank")
_COUNT = whole(least=1)
_SHARE = number(above=0, most=1, noun="a share of the keys", example="0.1")


def add_log(parser: argparse.ArgumentParser, *, is_optional: bool = False) -> None:
    """Add a log's options to a command."""
    add = parser.add_argument
    add(
        "traces",
        nargs="*" if is_optional else "+",
        metavar="TRACE",
        help="trace or access log: files, folders, globs, s3://bucket/prefix",
    )
    add("--format", type=choice(FORMATS), default="auto", metavar="NAME", help=f"{', '.join(FORMATS)} (default: auto)")
    add("--rank", type=_COUNT, metavar="R", help="only the R-th most requested object (default: all)")
    add("--skip-bad-rows", action="store_true", help="skip unreadable lines and the rest of broken files")
    add(
        "--fields",
        type=_field_names,
        default={},
        metavar="FIELD=NAME,…",
        help="columns of CSV or members of JSON, such as time=3:ms",
    )
    add("--delimiter", type=choice(DELIMITERS), metavar="NAME", help=f"between columns: {', '.join(DELIMITERS)}")
    add("--since", type=_instant_us, metavar="TIME", help="only requests from here on, such as 2026-11-01 (UTC)")
    add("--before", type=_instant_us, metavar="TIME", help="only requests before this, such as 2026-11-08T12:00Z")
    add(
        "--sample-keys",
        type=_SHARE,
        metavar="SHARE",
        help="keep this share of the keys (default: all, fewer for a log of over 32 million requests)",
    )
    add("--dask", metavar="ADDRESS", help="scheduler of a Dask cluster that reads the log, such as tcp://host:8786")
    add("--log-store", metavar="DIR", help="store of objects read from s3:// (default: ~/.cache/burstcache/logs)")


def _field_names(text: str) -> dict[str, str]:
    """Parse the column or JSON member of each field, as in `time=when,key=path`."""
    names = {}
    for part in text.split(","):
        field, _, name = part.partition("=")
        if field not in FIELDS or not name:
            raise argparse.ArgumentTypeError(f"{part!r}: expected one of {', '.join(FIELDS)}, = and a name")
        names[field] = name
    return names


def _instant_us(text: str) -> int:
    """Parse a day or a time to microseconds since 1970. A time without a zone is UTC."""
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: expected a time like 2026-11-01 or 2026-11-01T12:00Z") from None
    instant = instant if instant.tzinfo else instant.replace(tzinfo=UTC)
    return (instant - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
