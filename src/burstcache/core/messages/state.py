"""Payloads of the state function: what holders of a database ask, and what they are answered."""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

from burstcache.core.phases import NodePhase


class Acquire(TypedDict):
    """Hold a database and have it wake up; the token of a workflow's task completes when it is awake."""

    op: Literal["acquire"]
    database: str
    holder: str
    for_s: int
    token: NotRequired[str]


class Keep(TypedDict):
    """Hold it for longer: until `for_s` from now."""

    op: Literal["keep"]
    database: str
    holder: str
    for_s: int


class LetGo(TypedDict):
    """Hold it no longer."""

    op: Literal["release"]
    database: str
    holder: str


StateOperation = Acquire | Keep | LetGo


class DatabaseHeld(TypedDict):
    """The phase of the database's node, and until when this holder has its lease [us]; 0 after a release."""

    phase: NodePhase
    held_until_us: int
