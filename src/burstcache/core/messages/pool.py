"""The pool: what hubs ask of a member's function, and what it answers."""

from __future__ import annotations

from typing import Literal, TypedDict

from burstcache.core.messages.pool_control import KnownHub


class HubAddress(KnownHub):
    """A hub that a member is to dial."""

    wake: int  # the hub lets in one connection for each


class Serve(TypedDict):
    """Dial a hub and serve it for as long as it pays."""

    op: Literal["serve"]
    hub: HubAddress
    peer: bool  # a second environment of a member that runs: it takes a copy of the chunks


class Warm(TypedDict):
    """Answer at once: an environment that is used is kept."""

    op: Literal["warm"]


MemberOperation = Serve | Warm


class MemberState(TypedDict):
    """What an environment of a member answers, to either."""

    environment: str  # made at random when it began: another one than before has lost its memory
    born_us: int
    chunks: int
    stored_bytes: int
    served: int  # requests since it began
    billed_ms: int  # of this invocation, so far; the first one's initialisation is in it
