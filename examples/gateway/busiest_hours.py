"""The busiest hours of a web server's day, from a table in S3, with polars. The endpoint makes it read from a cache."""

from __future__ import annotations

import sys

import polars as pl


def busiest_hours(bucket: str) -> pl.DataFrame:
    """Return the three hours with most requests, the busiest first."""
    requests = pl.scan_parquet(f"s3://{bucket}/requests.parquet")
    return requests.group_by("hour").agg(pl.sum("requests", "bytes")).top_k(3, by="requests").collect()


if __name__ == "__main__":
    for hour, requests, size_bytes in busiest_hours(sys.argv[1]).sort("requests", descending=True).rows():
        print(f"{hour:4} {requests:6} {size_bytes:10}")
