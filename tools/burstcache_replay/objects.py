"""Objects for keys that a bucket lacks, so that a log of another system can be replayed."""

from __future__ import annotations

import random
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from botocore.exceptions import ClientError

_AT_ONCE = 16
_THERE_ALREADY = ("PreconditionFailed", "ConditionalRequestConflict")


def create(s3: Any, bucket: str, sizes_bytes: Mapping[str, int]) -> int:
    """Put objects of these sizes under these keys, where there is none, and return how many were put.

    Their bytes are random, from a seed that is their key.
    """

    def put(key: str) -> bool:
        body = random.Random(key).randbytes(sizes_bytes[key])
        try:
            s3.put_object(Bucket=bucket, Key=key, Body=body, IfNoneMatch="*")
        except ClientError as error:
            if error.response["Error"]["Code"] in _THERE_ALREADY:
                return False
            raise
        return True

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return sum(pool.map(put, sizes_bytes))
