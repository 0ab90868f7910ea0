"""Slices of a large object as lines of `burstcache explain`: the tiers that hold them, and how many are stored now."""

from __future__ import annotations

from collections.abc import Iterator

from burstcache.core.pool.slices import SLICE_BYTES as POOL_SLICE_BYTES
from burstcache.queries.slices import HomeNode, ObjectSlices, SlicesInExpress, SlicesOnNodes, StoredSlices
from burstcache_terminal.text import count_text, number_text, shown_text

_MIB = 1 << 20


def slices_lines(slices: ObjectSlices, *, size_bytes: int, has_pool: bool) -> Iterator[tuple[str, str]]:
    """Yield the labels and texts about an object's slices."""
    of = f"{count_text(slices.slices, 'slice')} of {slices.slice_bytes >> 10} KiB"
    yield "cached in", f"{of}, since it is too large for an entry"
    yield "memory", "a client keeps slices if its memory_bytes is at least 8 MiB; which ones is not known here"
    yield "disk", "a client keeps slices if it has a disk (disk=PATH, BURSTCACHE_DISK); which ones is not known here"
    if slices.nodes is not None:
        yield "nodes", _nodes_text(slices.nodes)
        for home in slices.nodes.homes if slices.sampled else ():
            yield home.node, _home_text(home)
    if slices.express is not None:
        yield "S3 Express", _express_text(slices.express)
    if slices.nodes is not None or slices.express is not None:
        yield "without", "memory and disk, a client uses no slices of nodes and S3 Express"
    if has_pool:
        of = f"{count_text(-(-size_bytes // POOL_SLICE_BYTES), 'slice')} of {POOL_SLICE_BYTES // _MIB} MiB"
        yield "pool", f"{of}; which of them it has is not known here"
    yield "front door", "redirects to S3: only programs with the client library read slices"
    if (slices.nodes is not None and slices.nodes.homes) or (slices.express is not None and slices.express.copy_at):
        yield "counted", _counted_text(slices)


def _counted_text(slices: ObjectSlices) -> str:
    """Return the slices that were counted. A slice's name contains the reader's endpoint."""
    if not slices.sampled:
        return "nothing, since S3 sends no ETag"
    sample = f"{slices.sampled} slices, evenly spread, " if slices.sampled < slices.slices else ""
    return f"{sample}of readers whose S3 endpoint is {slices.endpoint_url}"


def _nodes_text(nodes: SlicesOnNodes) -> str:
    if nodes.rule == "no_guests":
        return "none: the policy stores no read-through entries"
    if nodes.node_ms is None:
        return f"none: the bandwidth of {nodes.node_type or 'their type'} is not known to readers"
    compared = (
        f"{nodes.node_type} ({nodes.baseline_mbit_s} Mbit/s) sends 1 MiB to each of two readers in"
        f" {number_text(nodes.node_ms, digits=2)} ms, S3 in {number_text(nodes.s3_ms, digits=2)} ms"
    )
    if nodes.rule == "slower" or nodes.pays_elsewhere_above is None:
        return f"none: {compared}"
    above = f"{number_text(nodes.pays_elsewhere_above, digits=3)} USD per million hits"
    if nodes.rule == "any_zone":
        return f"yes, for readers in every zone: {compared}, and HitValueUsdPerMillion is above {above}"
    here = (
        f"readers in {nodes.zone} (BURSTCACHE_ZONE={nodes.zone})"
        if nodes.zone
        else "no reader: their zone is not known"
    )
    now = number_text(nodes.hit_value_usd_per_million)
    return f"for {here}: {compared}; from another zone slices pay above {above} (HitValueUsdPerMillion, now {now})"


def _home_text(home: HomeNode) -> str:
    return f"{home.phase}, home of {count_text(home.held.slices, 'slice')}: {_stored_text(home.held)}"


def _express_text(express: SlicesInExpress) -> str:
    if not express.copy_at:
        return "none: a copy of a slice never pays at this HitValueUsdPerMillion"
    return f"copies a slice at its read {express.copy_at} from S3 by one reader: {_stored_text(express.held)}"


def _stored_text(held: StoredSlices) -> str:
    if held.stored is None:
        return f"stored ones are not known: {shown_text(held.problem)}" if held.problem else "stored ones are not known"
    return f"{held.stored} of {held.slices} stored, {held.stored_bytes or 0:,} bytes"
