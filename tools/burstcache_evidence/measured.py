"""The measured delays of a run, in the form that `--measured` of the simulator reads."""

from __future__ import annotations

from statistics import median
from typing import Any

from burstcache_evidence.findings import Findings

# Items of the price sheets by the end of Cost Explorer's usage type. A type that AWS names otherwise is left out.
_ITEMS = {
    "StateTransition": "transition",
    "Lambda-GB-Second-ARM": "lambda-duration:arm",
    "Request-ARM": "lambda-request",
    "ApiGatewayHttpRequest": "http-api-request",
    "Event-64K-Chunks": "event",
    "WriteRequestUnits": "dynamodb-write",
    "ReadRequestUnits": "dynamodb-read",
    "Fargate-ARM-vCPU-Hours:perCPU": "fargate-vcpu:arm",
    "Fargate-ARM-GB-Hours": "fargate-memory:arm",
    "BoxUsage:t4g.micro": "ec2:t4g.micro",
}
_TIERS = {"s3": "s3_ms", "lambda": "lambda_ms", "redis": "redis_ms", "express": "express_ms"}

# Figures by memory: their names, the part of the step, and the summary that has them.
_SWEPT = (
    ("proxy_init_ms", "proxy", "init_ms"),
    ("proxy_first_ms", "proxy", "first_ms"),
    ("proxy_warm_ms", "proxy", "warm_ms"),
    ("origin_batch_init_ms", "origin_batch", "init_ms"),
    ("origin_batch_ms", "origin_batch", "warm_ms"),
)


def measured_of(findings: Findings) -> dict[str, Any]:
    """Return the delays of a run by their names in the simulator. Unmeasured delays are absent."""
    found: dict[str, Any] = {}
    for kind in findings.kinds:
        boots = findings.found(kind, "boot")
        if boots:
            node = boots["task_kind"] or ("ec2" if boots["machine"] == "instance" else "fargate")
            found.setdefault("boot_s", {})[node] = boots["boot_s"]
            found.setdefault("stop_s", {})[node] = boots["stop_s"]
        burst = findings.found(kind, "burst")
        for tier, name in _TIERS.items():
            if summary := burst.get("proxy_ms", {}).get(tier):
                found.setdefault(name, []).append(summary["median"])
        if "announced_s" in burst:
            found.setdefault("announced_s", {})[kind] = burst["announced_s"]
        sizes = findings.found(kind, "measure").get("s3_proxy_ms", {})
        for size, by_tier in sizes.items():
            if summary := by_tier.get("s3"):
                found.setdefault("s3_by_size_ms", {}).setdefault(size, []).append(summary["median"])
        for memory_mb, summary in findings.found(kind, "measure").get("cold_starts_ms", {}).items():
            found.setdefault("cold_start_ms", {}).setdefault(memory_mb, []).append(summary["median"])
        swept = findings.found(kind, "memory")
        for name, part, figure in _SWEPT:
            for memory_mb, by_memory in swept.get(part, {}).items():
                if summary := by_memory.get(figure):
                    found.setdefault(name, {})[memory_mb] = summary["median"]
        table_ms = [each["ms"] for each in findings.parts(kind) if each["part"] == "table"]
        if table_ms:
            found.setdefault("table_ms", []).extend(table_ms)
    by_size = {size: median(values) for size, values in found.pop("s3_by_size_ms", {}).items()}
    colds = {memory_mb: median(values) for memory_mb, values in found.pop("cold_start_ms", {}).items()}
    if by_size:
        found["s3_by_size_ms"] = by_size
        found.setdefault("s3_ms", [by_size[min(by_size, key=int)]])
    if colds:
        found["cold_start_ms"] = colds
    if prices := _prices(findings):
        found["prices"] = prices
    return {name: median(value) if isinstance(value, list) else value for name, value in found.items()}


def _prices(findings: Findings) -> dict[str, float]:
    """Return the price of a unit by item, without usage that a free tier has paid."""
    prices = {}
    for row in findings.bill.get("rows", ()):
        for end, item in _ITEMS.items():
            is_item = row["usage_type"] == end or row["usage_type"].endswith(f"-{end}")
            if is_item and row["usd"] > 0 and row["usage"] > 0:
                prices[item] = row["usd"] / row["usage"]
    return prices
