"""The messages of the state function: operations of a database's holders, and the answer."""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

from burstcache.core.phases import NodePhase


class Acquire(TypedDict):
    """Acquire a lease on a database and wake it up. A workflow's task token completes when the database is awake."""

    op: Literal["acquire"]
    database: str
    holder: str
    for_s: int
    token: NotRequired[str]


class Keep(TypedDict):
    """Renew the lease for `for_s` from now."""

    op: Literal["keep"]
    database: str
    holder: str
    for_s: int


class ReleaseLease(TypedDict):
    """Release the lease."""

    op: Literal["release"]
    database: str
    holder: str


StateOperation = Acquire | Keep | ReleaseLease


class DatabaseHeld(TypedDict):
    """The phase of the database's node, and the end of the holder's lease [us], 0 after a release."""

    phase: NodePhase
    held_until_us: int
