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


class Look(TypedDict):
    """Return the database's phase and address, without a lease."""

    op: Literal["look"]
    database: str


StateOperation = Acquire | Keep | ReleaseLease | Look


class DatabaseHeld(TypedDict):
    """The phase of the database's node, and the end of the holder's lease [us], 0 without one.

    `host` is the address of a running task, empty on EC2. Stacks of earlier versions do not send it.
    """

    phase: NodePhase
    held_until_us: int
    host: NotRequired[str]
