"""Students, Kumar's second case study: one function writes one, another reads it after the database has slept.

Source:
    Kumar 2022, section 6.2.
"""

from __future__ import annotations

from typing import Any

from burstcache.state import connect


def write(event: dict[str, Any], context: object) -> None:
    """Write the event's `student`, a mapping of fields, into its `database`, which a workflow holds."""
    with connect(event["database"]) as redis:
        redis.hset("student", mapping=event["student"])


def read(event: dict[str, Any], context: object) -> dict[str, str]:
    """Return the student stored in the event's `database`."""
    with connect(event["database"], decode_responses=True) as redis:
        student: dict[str, str] = redis.hgetall("student")
    return student
