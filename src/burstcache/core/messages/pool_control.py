"""The messages to and from pool control: operations of hubs, readers and the pool's state machine."""

from __future__ import annotations

from typing import Literal, TypedDict


class KnownHub(TypedDict):
    """The address of a hub, with the credentials to connect to it."""

    id: str
    host: str
    port: int
    token: str  # hexadecimal; known to the hub's members
    certificate: str  # PEM; empty if without TLS


class HubTotals(TypedDict):
    """A hub's cumulative totals since its start. A lost or repeated report therefore does no harm."""

    requests: int  # slices that readers requested
    hits: int  # requested slices that the pool had
    stored_bytes: int  # written to members, parity included
    invocations: int  # invocations of members by this hub
    served_ms: int  # billed time of these invocations, in total


class ReportHub(TypedDict):
    """A hub's report, at its start and once a minute."""

    op: Literal["hub"]
    hub: KnownHub
    totals: HubTotals
    used: dict[str, str]  # members connected since the last report, each with its environment if known
    takes_readers: bool  # the hub serves readers that members cannot dial


class ReportReader(TypedDict):
    """The report of a reader that members cannot dial, at its start and once a minute. Such a reader needs a hub."""

    op: Literal["reader"]
    id: str
    totals: HubTotals  # counted like a hub's totals for its own reader
    is_reading: bool  # the reader had requests since its last report


class Code(TypedDict):
    """A hub container's request for its code, at its start."""

    op: Literal["code"]


class LeavePool(TypedDict):
    """A hub's last report, before it stops."""

    op: Literal["leave"]
    id: str
    totals: HubTotals


class Tick(TypedDict):
    """`WarmPool`: keep members alive while the pool is used."""

    op: Literal["tick"]
    generation: int
    part: int
    ticks: int


class Round(TypedDict):
    """Run a round if one is still due. A hub sends this request when its plan says that a round is due."""

    op: Literal["round"]


PoolOperation = ReportHub | ReportReader | LeavePool | Tick | Round | Code


class Coded(TypedDict):
    """A slice's numbers of chunks: any `data` of `data + parity` chunks restore the slice."""

    data: int
    parity: int


class PoolPlan(TypedDict):
    """The pool's plan, as the answer to a report."""

    members: list[str]  # tenant IDs; empty if the stack is paused and S3 serves
    redundancy: Coded  # of slices written from now on
    former: list[Coded]  # of older slices, newest first
    warm_s: int  # a member without an invocation for this long may be reclaimed
    backup_s: int  # interval of copying a connected member to its peer [s]; 0 means never
    report_s: int  # until the next report is expected
    is_round_due: bool  # whether the hub should request a round
    hubs: list[KnownHub]  # the other hubs; for a reader, the hubs that serve readers


class Package(TypedDict):
    """The code package, as the answer to `Code`."""

    zip: str  # base64 of an archive to unpack into PYTHONPATH


class Ticked(TypedDict):
    """The answer to a tick of a used pool: the time until the next tick, and the number of ticks so far."""

    outcome: Literal["used"]
    wait_s: int
    ticks: int


class PoolEnds(TypedDict):
    """The answer to a tick that ends its execution: the pool is unused, or another execution keeps it alive."""

    outcome: Literal["unused", "superseded"]
    ended: str  # the reason, for the execution's output


class Rounded(TypedDict):
    """The answer to a round."""

    did_run: bool  # the round was due, and no other caller ran it
