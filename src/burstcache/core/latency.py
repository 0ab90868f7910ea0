"""Latency of the tiers: the assumed time to first byte of a small object, and S3's throughput on one connection.

Every comparison of tiers begins with these: policies, copies in S3 Express, slices, pool members, and advice.

Source:
    `docs/use/advise.md`, "Latency". S3: two measurements of 2026; Redis: the thesis; S3 Express: AWS.
"""

from __future__ import annotations

from typing import Literal

Tier = Literal["redis", "express", "s3"]

FIRST_BYTE_MS: dict[Tier, int] = {"redis": 1, "express": 5, "s3": 25}
S3_BYTES_PER_MS = 85_000.0
