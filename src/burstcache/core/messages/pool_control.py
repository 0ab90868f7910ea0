"""What hubs and the pool's state machine ask of pool control, and what it answers."""

from __future__ import annotations

from typing import Literal, TypedDict


class KnownHub(TypedDict):
    """Where other hubs reach a hub, and what both prove themselves by."""

    id: str
    host: str
    port: int
    token: str  # hexadecimal; of the hub's members
    certificate: str  # PEM; empty: without TLS


class HubTotals(TypedDict):
    """What a hub has seen since its start: totals, so that a report that comes twice or never does no harm."""

    requests: int  # slices that readers asked for
    hits: int  # of those, found in the pool
    stored_bytes: int  # written to members, parity included
    invocations: int  # of members, by this hub
    served_ms: int  # what those are billed for, all together


class Hub(TypedDict):
    """A hub, at its start and once a minute: it is there."""

    op: Literal["hub"]
    hub: KnownHub
    totals: HubTotals
    used: dict[str, str]  # members that were connected since the last report, each with its environment if known
    takes_readers: bool  # it is there for readers that members cannot dial


class Reader(TypedDict):
    """A reader that members cannot dial, at its start and once a minute: it needs a hub elsewhere while it reads."""

    op: Literal["reader"]
    id: str
    totals: HubTotals  # what it has seen, as a hub counts it for its own reader
    is_reading: bool  # it was asked for something since its last report


class Code(TypedDict):
    """A hub elsewhere, at its start: the code that it is to run."""

    op: Literal["code"]


class Leave(TypedDict):
    """A hub that stops."""

    op: Literal["leave"]
    id: str
    totals: HubTotals


class Tick(TypedDict):
    """`WarmPool`: keep what is stored alive, until nobody wants it any more."""

    op: Literal["tick"]
    generation: int
    part: int
    ticks: int


class Round(TypedDict):
    """A hub whose report found members due for their invocation: nothing happens if they are not any more."""

    op: Literal["round"]


PoolOperation = Hub | Reader | Leave | Tick | Round | Code


class Coded(TypedDict):
    """How many chunks a slice has: any `data` of `data + parity` are enough."""

    data: int
    parity: int


class PoolPlan(TypedDict):
    """The answer to a report."""

    members: list[str]  # tenant ids; empty: the stack is paused, and S3 serves
    redundancy: Coded  # of slices that are written from now on
    former: list[Coded]  # of slices that may have been written before, the newest first
    warm_s: int  # a member that is not invoked for as long may be reclaimed
    backup_s: int  # how often a connected member is copied to its peer [s]; 0: never
    report_s: int  # when the hub is expected to report again
    is_round_due: bool  # members are to be invoked, and the hub asks for that
    hubs: list[KnownHub]  # the others; for a reader those that take readers in, which need no other token


class Package(TypedDict):
    """The answer to a hub that asks for its code."""

    zip: str  # base64 of an archive; what is in it belongs on PYTHONPATH


class Ticked(TypedDict):
    """The answer to a tick of a pool that somebody uses: when the next one is due, and how many there have been."""

    outcome: Literal["used"]
    wait_s: int
    ticks: int


class PoolEnds(TypedDict):
    """The answer to a tick that ends its execution: nobody wants what the pool holds, or another one looks after it."""

    outcome: Literal["unused", "superseded"]
    ended: str  # why, for the execution's output


class Rounded(TypedDict):
    """The answer to a round."""

    did_run: bool  # it was due, and nobody else did it
