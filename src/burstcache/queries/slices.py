"""Slices of a large object: which tiers hold them and why, their home nodes, and how many are stored now.

What readers keep in their own memory and on disk is unknown to a stack.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal

from burstcache.access import names_of, node_named
from burstcache.adapters.clients import Clients
from burstcache.adapters.express_copies import ExpressCopies
from burstcache.adapters.redis_objects import RedisObjects
from burstcache.adapters.secrets import Secrets
from burstcache.core.errors import BurstcacheError
from burstcache.core.express import express_rule
from burstcache.core.keys import key_hash
from burstcache.core.phases import NodePhase
from burstcache.core.placement import node_for
from burstcache.core.rows import NodeRow
from burstcache.core.slice_worth import BASELINE_MBIT_S, S3_READ_MS, read_ms, slice_pays_above_usd
from burstcache.core.slices import SLICE_BYTES, Slice, SliceNames, Version
from burstcache.core.worth import MICRO, sheet_of_region, wait_usd_from_text
from burstcache.settings.reader import ReaderSettings

MOST_SAMPLED = 256  # slices that nodes and S3 Express are asked for
_THREADS = 16  # requests to S3 Express at once

NodeRule = Literal[
    "no_guests",  # the stack's policy stores no read-through entries
    "unknown_bandwidth",  # of this type of node
    "slower",  # than S3
    "same_zone",  # slices pay for readers in the nodes' zone
    "any_zone",  # slices pay for all readers
]


@dataclass(frozen=True, slots=True)
class ObjectHead:
    """S3's response to a HEAD of an object.

    Attributes:
        exists: Whether S3 has the object. None: the caller may not ask.
        size_bytes: Size of the object [bytes].
        etag: S3's ETag, with its quotes. Empty if S3 sends none.
    """

    exists: bool | None = None
    size_bytes: int = 0
    etag: str = ""


@dataclass(frozen=True, slots=True)
class StoredSlices:
    """The sampled slices of one version that a node or S3 Express should have, and those that it has."""

    slices: int  # in the sample
    stored: int | None = None  # None: unknown
    stored_bytes: int | None = None
    problem: str = ""  # why `stored` is unknown


@dataclass(frozen=True, slots=True)
class HomeNode:
    """A node, and the slices whose home it is."""

    node: str
    phase: NodePhase
    held: StoredSlices


@dataclass(frozen=True, slots=True)
class SlicesOnNodes:
    """Slices on Redis nodes."""

    rule: NodeRule
    node_type: str
    baseline_mbit_s: int  # 0: unknown
    node_ms: float | None  # time in which a node sends a slice to each of two readers; None: unknown
    s3_ms: float  # time in which S3 sends a slice
    zone: str  # of the nodes; empty if unknown to readers, so that each counts as in another zone
    hit_value_usd_per_million: float
    pays_elsewhere_above: float | None  # value of a million hits above which other zones pay [USD]; None: never
    homes: tuple[HomeNode, ...]  # nothing unless slices pay on nodes


@dataclass(frozen=True, slots=True)
class SlicesInExpress:
    """Copies of slices in S3 Express."""

    copy_at: int  # count of reads from S3 at which a reader copies a slice; 0: copies never pay
    held: StoredSlices


@dataclass(frozen=True, slots=True)
class ObjectSlices:
    """The slices of a large object in a stack."""

    slice_bytes: int
    slices: int
    sampled: int  # slices that were asked for, evenly spread; 0 if the version is unknown
    endpoint_url: str  # S3 endpoint of the readers that share these slices
    nodes: SlicesOnNodes | None  # None: the stack has no nodes
    express: SlicesInExpress | None  # None: the stack makes no copies


@dataclass(frozen=True)
class SliceTiers:
    """The tiers of a stack that hold slices for all readers.

    Attributes:
        settings: The readers' settings.
        node_type: EC2 type of the nodes. Empty: an older stack, whose readers do not know it.
        zone: Zone of the nodes. Empty: unknown.
        clients: Clients that reach the stack.
    """

    settings: ReaderSettings
    node_type: str
    zone: str
    clients: Clients

    @classmethod
    def of(cls, variables: Mapping[str, str], clients: Clients) -> SliceTiers:
        """Return the tiers from the variables of a stack's output `ReaderSettings`.

        Raises:
            InvalidSettingError: A variable is missing or invalid.
        """
        node_type, zone = variables.get("REDIS_INSTANCE_TYPE", ""), variables.get("REDIS_ZONE", "")
        return cls(ReaderSettings.read(variables), node_type, zone, clients)

    def slices_of(self, key: str, head: ObjectHead, nodes: Sequence[NodeRow], now_us: int) -> ObjectSlices:
        """Return the slices of a large object. Ask running nodes and S3 Express for at most `MOST_SAMPLED` of them.

        Args:
            key: The key.
            head: The object's size and ETag. Without an ETag nothing is asked.
            nodes: The nodes' rows.
            now_us: The instant [us].
        """
        count = -(-head.size_bytes // SLICE_BYTES)
        endpoint_url: str = self.clients.s3.meta.endpoint_url
        sample: list[Slice] = []
        if head.etag:
            version = Version(key, key_hash(key), head.etag, head.size_bytes)
            names = SliceNames(endpoint_url, self.settings.bucket_name)
            for index in _evenly_spread(count):
                sample += names.slices(version, index * SLICE_BYTES, min((index + 1) * SLICE_BYTES, head.size_bytes))
        return ObjectSlices(
            slice_bytes=SLICE_BYTES,
            slices=count,
            sampled=len(sample),
            endpoint_url=endpoint_url,
            nodes=self._on_nodes(sample, nodes, now_us) if self.settings.redis_nodes else None,
            express=self._in_express(sample) if self.settings.express.bucket_name else None,
        )

    def _on_nodes(self, sample: Sequence[Slice], nodes: Sequence[NodeRow], now_us: int) -> SlicesOnNodes:
        access, node_ms = self.settings.express, read_ms(self.node_type)
        sheet, wait_usd = sheet_of_region(access.region), wait_usd_from_text(access.hit_value_usd_per_million)
        elsewhere_usd = slice_pays_above_usd(self.node_type, is_same_zone=False, sheet=sheet)
        rule: NodeRule = "no_guests"
        if self.settings.takes_guests:
            rule = "unknown_bandwidth" if node_ms is None else "slower"
            if elsewhere_usd is not None:
                rule = "any_zone" if wait_usd > elsewhere_usd else "same_zone"
        return SlicesOnNodes(
            rule=rule,
            node_type=self.node_type,
            baseline_mbit_s=BASELINE_MBIT_S.get(self.node_type, 0),
            node_ms=node_ms,
            s3_ms=S3_READ_MS,
            zone=self.zone,
            hit_value_usd_per_million=float(wait_usd * MICRO),
            pays_elsewhere_above=None if elsewhere_usd is None else float(elsewhere_usd * MICRO),
            homes=self._homes(sample, nodes, now_us) if rule in ("same_zone", "any_zone") else (),
        )

    def _homes(self, sample: Sequence[Slice], nodes: Sequence[NodeRow], now_us: int) -> tuple[HomeNode, ...]:
        """Return each node's slices: by the present runs, as readers find them, or else by the next run."""
        names = names_of(self.settings.redis_nodes)
        rows = {name: NodeRow(name) for name in names} | {row.node: row for row in nodes if row.node in names}
        newest_first = sorted(rows.values(), key=lambda row: row.generation, reverse=True)
        running = [row for row in newest_first if row.phase_at(now_us) == "running"]
        homes: defaultdict[str, list[Slice]] = defaultdict(list)
        for each in sample:
            home = next((row.node for row in running if row.is_home_of(each.name)), node_for(each.name, names))
            homes[home].append(each)
        secrets = Secrets(self.clients.secrets)

        def home_of(row: NodeRow) -> HomeNode:
            phase = row.phase_at(now_us)
            return HomeNode(row.node, phase, self._held_by(row, phase, homes[row.node], secrets))

        with ThreadPoolExecutor(len(rows)) as threads:  # from outside the stack's network each one times out
            return tuple(threads.map(home_of, rows.values()))

    def _held_by(self, row: NodeRow, phase: NodePhase, slices: Sequence[Slice], secrets: Secrets) -> StoredSlices:
        if phase == "stopped" or not slices:
            return StoredSlices(len(slices), 0, 0)
        if phase != "running":
            return StoredSlices(len(slices), problem=f"it is {phase}")
        node = node_named(row.node, self.settings.redis_nodes, host=row.host)
        objects = RedisObjects(node, secrets, self.settings.redis)
        try:
            return _held(slices, lambda: objects.stored_slices({each.name: each.size_bytes for each in slices}))
        finally:
            objects.close()

    def _in_express(self, sample: Sequence[Slice]) -> SlicesInExpress:
        access = self.settings.express
        hit_value_usd = float(wait_usd_from_text(access.hit_value_usd_per_million))
        copy_at = express_rule(sheet_of_region(access.region), hit_value_usd=hit_value_usd).copy_at(SLICE_BYTES)
        if not (copy_at and sample):
            return SlicesInExpress(copy_at, StoredSlices(len(sample), None if copy_at else 0, None if copy_at else 0))

        def stored() -> set[str]:
            copies = ExpressCopies(access.bucket_name, self.clients.express)
            with ThreadPoolExecutor(_THREADS) as threads:
                sizes = threads.map(copies.stored_bytes, [each.name for each in sample])
                return {
                    each.name for each, size_bytes in zip(sample, sizes, strict=True) if size_bytes == each.size_bytes
                }

        return SlicesInExpress(copy_at, _held(sample, stored))


def _held(slices: Sequence[Slice], stored: Callable[[], set[str]]) -> StoredSlices:
    try:
        names = stored()
    except BurstcacheError as error:
        return StoredSlices(len(slices), problem=str(error))
    return StoredSlices(len(slices), len(names), sum(each.size_bytes for each in slices if each.name in names))


def _evenly_spread(count: int) -> Sequence[int]:
    """Return the indices of at most `MOST_SAMPLED` slices."""
    sampled = min(count, MOST_SAMPLED)
    return [number * count // sampled for number in range(sampled)]
