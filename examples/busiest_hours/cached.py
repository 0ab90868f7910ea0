"""The busiest hours of a web server's day, from a table in S3."""

from __future__ import annotations

import sys

import pandas as pd

TABLE = "burstcache://{bucket}/requests.parquet"


def busiest_hours(bucket: str) -> pd.DataFrame:
    """Return the three hours with most requests, the busiest first."""
    requests = pd.read_parquet(TABLE.format(bucket=bucket))
    return requests.groupby("hour")[["requests", "bytes"]].sum().nlargest(3, "requests")


if __name__ == "__main__":
    print(busiest_hours(sys.argv[1]))
