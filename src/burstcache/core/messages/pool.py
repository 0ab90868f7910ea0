"""The messages between the pool's hubs and its members' function."""

from __future__ import annotations

from typing import Literal, TypedDict

from burstcache.core.messages.pool_control import KnownHub


class HubAddress(KnownHub):
    """The address of a hub, for a member to dial."""

    wake: int  # counter that identifies this invocation, for which the hub accepts one connection


class ServeChunks(TypedDict):
    """Dial a hub, and serve its requests for as long as staying pays."""

    op: Literal["serve"]
    hub: HubAddress
    peer: bool  # a second environment of a running member, which gets a replica of its chunks


class Warm(TypedDict):
    """Answer immediately. The invocation keeps the environment alive."""

    op: Literal["warm"]


MemberOperation = ServeChunks | Warm


class MemberState(TypedDict):
    """The state of a member's environment: the answer to both operations."""

    environment: str  # random ID; a new ID means that the previous environment's memory is lost
    born_us: int
    chunks: int
    stored_bytes: int
    served: int  # requests since the environment's start
    billed_ms: int  # of this invocation so far; an environment's first invocation includes its initialisation
