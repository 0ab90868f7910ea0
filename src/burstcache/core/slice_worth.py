"""The worth of slices on a Redis node: whether the node sends them sooner than S3, and for less than a saved wait.

Source:
    Baseline bandwidth: `zz_generated.bandwidth.go` of aws/karpenter-provider-aws, generated from EC2's API.
    Bursts above the baseline last for minutes, so nobody may count on them.
"""

from __future__ import annotations

from fractions import Fraction

from burstcache.core.latency import FIRST_BYTE_MS, S3_BYTES_PER_MS
from burstcache.core.prices.sheet import BYTES_PER_GB, PriceSheet

BASELINE_MBIT_S = {
    "t4g.nano": 32,
    "t4g.micro": 64,
    "t4g.small": 128,
    "t4g.medium": 256,
    "t4g.large": 512,
    "m7g.medium": 520,
    "m7g.large": 937,
    "r7g.medium": 520,
    "r7g.large": 937,
    "r8g.medium": 520,
    "r8g.large": 937,
}
# All readers share a node's bandwidth, whereas S3's grows with them. So a node must be quicker even for two at once.
_READERS_AT_ONCE = 2
_BYTES_PER_MS_OF_MBIT_S = 125
# S3 sends adjacent slices by one GET, at more than the bandwidth of most nodes. So a node must be quicker for several.
_READ_BYTES = 1 << 20
S3_READ_MS = FIRST_BYTE_MS["s3"] + _READ_BYTES / S3_BYTES_PER_MS


def read_ms(node_type: str) -> float | None:
    """Return the time in which a node sends 1 MiB of slices to each of two readers at once [ms]. None: unknown."""
    if (mbit_s := BASELINE_MBIT_S.get(node_type)) is None:
        return None
    return FIRST_BYTE_MS["redis"] + _READERS_AT_ONCE * _READ_BYTES / (mbit_s * _BYTES_PER_MS_OF_MBIT_S)


def slice_pays(node_type: str, *, is_same_zone: bool, wait_usd: Fraction, sheet: PriceSheet) -> bool:
    """Return whether a read of 1 MiB of slices from a node pays, compared with S3.

    The node's time is not counted: slices neither start a node nor keep it running.

    Args:
        node_type: EC2 type of the node, such as `r7g.large`. Slices do not pay on a type without a known bandwidth.
        is_same_zone: Whether the reader is in the node's zone. False if that is unknown: a transfer costs too much.
        wait_usd: Value of one saved wait for S3 [USD].
        sheet: Prices of the region.
    """
    least_usd = slice_pays_above_usd(node_type, is_same_zone=is_same_zone, sheet=sheet)
    return least_usd is not None and wait_usd > least_usd


def slice_pays_above_usd(node_type: str, *, is_same_zone: bool, sheet: PriceSheet) -> Fraction | None:
    """Return the value of a saved wait for S3 above which slices pay on a node [USD]. Negative: at any value.

    None: they never pay, since the node is no quicker than S3, or its bandwidth is unknown. Arguments as `slice_pays`.
    """
    node_ms = read_ms(node_type)
    if node_ms is None or node_ms >= S3_READ_MS:
        return None
    transfer_usd = 0 if is_same_zone else sheet.usd("zone-transfer") * _READ_BYTES / BYTES_PER_GB
    return (transfer_usd - sheet.usd("s3-get")) * FIRST_BYTE_MS["s3"] / Fraction(S3_READ_MS - node_ms)
