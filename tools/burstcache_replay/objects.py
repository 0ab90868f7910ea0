"""Synthetic objects for keys that a bucket lacks, so that another system's log can be replayed."""

from __future__ import annotations

import random
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from botocore.exceptions import ClientError

_CONCURRENCY = 16
_ALREADY_EXISTS = ("PreconditionFailed", "ConditionalRequestConflict")


def create(s3: Any, bucket: str, sizes_bytes: Mapping[str, int]) -> int:
    """Create missing objects of these sizes by conditional writes. Return the number of created objects.

    The content is random, seeded by the key.
    """

    def put(key: str) -> bool:
        body = random.Random(key).randbytes(sizes_bytes[key])
        try:
            s3.put_object(Bucket=bucket, Key=key, Body=body, IfNoneMatch="*")
        except ClientError as error:
            if error.response["Error"]["Code"] in _ALREADY_EXISTS:
                return False
            raise
        return True

    with ThreadPoolExecutor(_CONCURRENCY) as pool:
        return sum(pool.map(put, sizes_bytes))
