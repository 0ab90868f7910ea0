"""The dead links that a web server got most requests for, from a list in S3."""

from __future__ import annotations

import sys
from collections import Counter

import boto3

import burstcache

s3 = burstcache.wrap(boto3.client("s3"))


def dead_links(bucket: str) -> list[tuple[str, int]]:
    """Return the three paths with most 404s, and their number."""
    body = s3.get_object(Bucket=bucket, Key="not-found.txt")["Body"]
    return Counter(line.decode() for line in body.iter_lines()).most_common(3)


if __name__ == "__main__":
    for path, times in dead_links(sys.argv[1]):
        print(f"{times:4} {path}")
