"""Gateways of this machine and user, by the metrics that each of them shows."""

from __future__ import annotations

import re
import urllib.request
from collections import defaultdict
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from burstcache.core.errors import in_one_line
from burstcache.gateway.registration import RegisteredGateway, registered_gateways

_TIMEOUT_S = 1.0
_MOST_BYTES = 1 << 20
_MOST_AT_ONCE = 8
_LINE = re.compile(r"^burstcache_gateway_(\w+?)(?:\{([^}]*)\})? (\d+)$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')
_DIRECTLY = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # HTTP_PROXY may be the gateway itself
_READS = ("get", "head")
_NO_HITS = ("s3", "none")


def gateways() -> list[Mapping[str, Any]]:
    """Return the gateways, with their figures since they began. Those that do not answer have a `problem`."""
    found = registered_gateways()
    if not found:
        return []
    with ThreadPoolExecutor(min(len(found), _MOST_AT_ONCE)) as threads:
        return list(threads.map(_fields, found))


def _fields(gateway: RegisteredGateway) -> Mapping[str, Any]:
    about = {"url": gateway.url or "a Unix socket", "bucket": gateway.bucket, "processId": gateway.process_id}
    if not gateway.metrics_url.startswith("http://"):
        return about | {"problem": "its metrics need --metrics-port"}
    try:
        with _DIRECTLY.open(gateway.metrics_url, timeout=_TIMEOUT_S) as response:
            text = response.read(_MOST_BYTES).decode()
    except (OSError, ValueError) as error:
        return about | {"problem": f"it does not answer: {in_one_line(error)}"}
    return about | figures(text) | {"problem": ""}


def figures(text: str) -> dict[str, int | float | None]:
    """Return the figures that the page shows, from metrics in Prometheus's text format."""
    sums: dict[str, int] = defaultdict(int)
    reads = hits = failed = 0
    for name, labels_text, value_text in _LINE.findall(text):
        labels, value = dict(_LABEL.findall(labels_text)), int(value_text)
        sums[name] += value
        if name != "requests_total":
            continue
        failed += value if labels["outcome"] == "server_error" else 0
        if labels["operation"] in _READS and labels["outcome"] == "ok":
            reads += value
            hits += value if labels["tier"] not in _NO_HITS else 0
    return {
        "requests": sums["requests_total"],
        "hitShare": hits / reads if reads else None,
        "failed": failed,
        "refused": sums["refused_requests_total"],
        "sentBytes": sums["sent_bytes_total"],
        "s3Requests": sums["s3_requests_total"],
        "connections": sums["connections"],
        "memoryBytes": sums["memory_bytes"],
        "diskBytes": sums["disk_bytes"],
    }
