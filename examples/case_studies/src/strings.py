"""Strings, Kumar's first case study: a function that writes, reads and deletes 1,000 of them, and times it.

Source:
    Kumar 2022, sections 5 and 6.1.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from functools import cache
from typing import Any, TypedDict

from redis import Redis

from burstcache.state import connect

STRINGS = 1_000
STRING_BYTES = 1_000  # Kumar does not state a length


class Times(TypedDict):
    """Durations of the operations on all strings [ms]."""

    write_ms: float
    read_ms: float
    delete_ms: float


def random_strings() -> dict[str, str]:
    """Return random strings by name."""
    return {f"string-{number}": secrets.token_hex(STRING_BYTES // 2) for number in range(STRINGS)}


def one_by_one(redis: Redis, strings: dict[str, str]) -> Times:
    """Time sequential operations, as Kumar does."""

    def write() -> None:
        for name, string in strings.items():
            redis.set(name, string)

    def read() -> list[Any]:
        return [redis.get(name) for name in strings]

    def delete() -> None:
        for name in strings:
            redis.delete(name)

    return _timed(strings, write, read, delete)


def pipelined(redis: Redis, strings: dict[str, str]) -> Times:
    """Time the same operations in pipelines."""

    def write() -> None:
        pipeline = redis.pipeline(transaction=False)
        for name, string in strings.items():
            pipeline.set(name, string)
        pipeline.execute()

    def read() -> list[Any]:
        pipeline = redis.pipeline(transaction=False)
        for name in strings:
            pipeline.get(name)
        return pipeline.execute()

    def delete() -> None:
        pipeline = redis.pipeline(transaction=False)
        for name in strings:
            pipeline.delete(name)
        pipeline.execute()

    return _timed(strings, write, read, delete)


def _timed(
    strings: dict[str, str], write: Callable[[], None], read: Callable[[], list[Any]], delete: Callable[[], None]
) -> Times:
    """Time the three steps.

    Raises:
        RuntimeError: The strings read differ from those written.
    """
    began_s = time.perf_counter()
    write()
    written_s = time.perf_counter()
    found = read()
    read_s = time.perf_counter()
    delete()
    deleted_s = time.perf_counter()
    if found != [string.encode() for string in strings.values()]:
        raise RuntimeError("the strings read differ from those written")
    return Times(
        write_ms=(written_s - began_s) * 1000,
        read_ms=(read_s - written_s) * 1000,
        delete_ms=(deleted_s - read_s) * 1000,
    )


WAYS = {"one_by_one": one_by_one, "pipelined": pipelined}


def handler(event: dict[str, Any], context: object) -> dict[str, Times]:
    """Time the event's `ways` (default: both) on its `database`, which the workflow holds."""
    redis, strings = database(event["database"]), random_strings()
    return {way: WAYS[way](redis, strings) for way in event.get("ways", WAYS)}


@cache
def database(name: str) -> Redis:
    """Return a client of the database, shared by all invocations of this environment."""
    return connect(name)
