"""An S3 Express directory bucket in moto, which has general-purpose buckets only. Conditional writes are the same."""

from __future__ import annotations

from typing import Any

from burstcache.adapters.clients import Clients
from burstcache.adapters.express_bucket import lifecycle_rules
from burstcache.adapters.express_copies import ExpressCopies
from burstcache.core.express import ExpressRule, expires_us

COPIES = "copies--use1-az4--x-s3"
URLS = {"express": "https://s3.us-east-1.amazonaws.com"}  # moto has no zonal endpoints


def make_copies(clients: Clients) -> ExpressCopies:
    """Create the bucket with clients built from `URLS`, and return its adapter for readers and writers."""
    clients.express.create_bucket(Bucket=COPIES)
    return ExpressCopies(COPIES, clients.express)


def sizes_of(clients: Clients) -> dict[str, int]:
    """Return the sizes of the bucket's objects by name [bytes]."""
    objects = clients.express.list_objects_v2(Bucket=COPIES).get("Contents", [])
    return {each["Key"]: each["Size"] for each in objects}


def expire_all(clients: Clients) -> None:
    """Delete everything, as S3's lifecycle rules do after some days."""
    for name in sizes_of(clients):
        clients.express.delete_object(Bucket=COPIES, Key=name)


def expire(clients: Clients, rule: ExpressRule, at_us: int) -> int:
    """Delete all objects that S3's lifecycle rules have deleted by a point in time. Return their number."""
    expired = [
        each["Key"]
        for each in clients.express.list_objects_v2(Bucket=COPIES).get("Contents", [])
        if expires_us(round(each["LastModified"].timestamp() * 1_000_000), days_of(each["Size"], rule)) <= at_us
    ]
    for name in expired:
        clients.express.delete_object(Bucket=COPIES, Key=name)
    return len(expired)


def days_of(size_bytes: int, rule: ExpressRule) -> int:
    """Return the age at which a lifecycle rule deletes an object of a size [days]. Exactly one rule must apply."""
    (days,) = [each["Expiration"]["Days"] for each in lifecycle_rules(rule) if _is_of(size_bytes, each["Filter"])]
    return int(days)


def _is_of(size_bytes: int, sizes: dict[str, Any]) -> bool:
    sizes = sizes.get("And", sizes)
    return bool(sizes.get("ObjectSizeGreaterThan", -1) < size_bytes < sizes.get("ObjectSizeLessThan", 1 << 60))
