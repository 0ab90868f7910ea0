"""Measured delays and prices of an account (`--measured`), from the evidence of `burstcache research aws-evidence`."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from burstcache.core.errors import InvalidSettingError
from burstcache.core.prices import PriceRow, PriceSheet, price_sheet
from burstcache_sim.bill.config_items import with_config_items
from burstcache_sim.bill.latency_model import LatencyModel
from burstcache_sim.world.timings import MeasuredTimes, NodeTimes

_FAST_BYTES = 2 * 1024**2  # S3 sends the rest of a response more slowly


def measured_of(args: argparse.Namespace) -> Mapping[str, Any]:
    """Return the measurements in the file of `--measured`, or nothing without the option.

    Raises:
        InvalidSettingError: The file is unreadable or has no measurements.
    """
    path: Path | None = getattr(args, "measured", None)  # not every command has the option
    if path is None:
        return {}
    try:
        content = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise InvalidSettingError(f"--measured {path}: {error}") from None
    measured = content.get("measured") if isinstance(content, dict) else None
    if not isinstance(measured, dict):
        raise InvalidSettingError(
            f"--measured {path}: expected the evidence.json of `burstcache research aws-evidence`"
        )
    return measured


def prices_of(args: argparse.Namespace) -> PriceSheet:
    """Return the price sheet of the options, with their price of AWS Config and the prices that were measured."""
    config_item_usd = getattr(args, "config_item_usd", Fraction(0))  # not every command has it
    sheet = with_config_items(price_sheet(args.prices), config_item_usd)
    prices = measured_of(args).get("prices", {})
    rows = (
        PriceRow(row.item, repr(prices[row.item]), row.unit, "measured: Cost Explorer") if row.item in prices else row
        for row in sheet.rows
    )
    return replace(sheet, rows=tuple(rows)) if prices else sheet


def node_times_of(args: argparse.Namespace) -> NodeTimes:
    """Return the boots, stops and cold starts of the options: measured ones, if there are any."""
    measured, times = measured_of(args), args.node_times
    if not {"boot_s", "cold_start_ms"} & measured.keys():
        named: NodeTimes = times
        return named
    colds = {int(memory_mb): float(ms) for memory_mb, ms in measured.get("cold_start_ms", {}).items()}
    memory_mb = args.cache_memory_mb or 256
    nearest = min(colds, key=lambda each: abs(each - memory_mb), default=None)
    cold_start_ms = None if nearest is None else colds[nearest]
    return MeasuredTimes.of(measured.get("boot_s", {}), measured.get("stop_s", {}), cold_start_ms)


def with_transfers(clock: LatencyModel, measured: Mapping[str, Any]) -> LatencyModel:
    """Return a latency model with the measured bandwidth of S3 and first byte of S3 Express."""
    by_size = sorted((int(size), float(ms)) for size, ms in measured.get("s3_by_size_ms", {}).items())
    fast = _mb_per_s([each for each in by_size if each[0] <= _FAST_BYTES], clock.s3_mb_per_s[0])
    last = [each for each in by_size if each[0] <= _FAST_BYTES][-1:]
    slow = _mb_per_s([*last, *(each for each in by_size if each[0] > _FAST_BYTES)], clock.s3_mb_per_s[1])
    return replace(clock, s3_mb_per_s=(fast, slow), express_ms=float(measured.get("express_ms", clock.express_ms)))


def _mb_per_s(by_size: list[tuple[int, float]], usual: float) -> float:
    """Return the bandwidth between the smallest and the largest size [MB/s], or the usual one if none shows."""
    if len(by_size) < 2:
        return usual
    (least_bytes, least_ms), (most_bytes, most_ms) = by_size[0], by_size[-1]
    return (most_bytes - least_bytes) / (most_ms - least_ms) / 1e3 if most_ms > least_ms else usual
