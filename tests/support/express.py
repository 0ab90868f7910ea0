"""A directory bucket of S3 Express in moto, which has general ones only: conditional writes are the same."""

from __future__ import annotations

from typing import Any

from burstcache.adapters.clients import Clients
from burstcache.adapters.express_bucket import lifecycle_rules
from burstcache.adapters.express_copies import ExpressCopies
from burstcache.core.express import ExpressRule, expires_us

COPIES = "copies--use1-az4--x-s3"
URLS = {"express": "https://s3.us-east-1.amazonaws.com"}  # moto knows no zone's own


def make_copies(clients: Clients) -> ExpressCopies:
    """Make the bucket with clients that were made with `URLS`, and return what readers and writers use of it."""
    clients.express.create_bucket(Bucket=COPIES)
    return ExpressCopies(COPIES, clients.express)


def sizes_of(clients: Clients) -> dict[str, int]:
    """Return what lies in the bucket: sizes by name [bytes]."""
    found = clients.express.list_objects_v2(Bucket=COPIES).get("Contents", [])
    return {each["Key"]: each["Size"] for each in found}


def expire_all(clients: Clients) -> None:
    """Delete everything, as S3 does after some days."""
    for name in sizes_of(clients):
        clients.express.delete_object(Bucket=COPIES, Key=name)


def expire(clients: Clients, rule: ExpressRule, at_us: int) -> int:
    """Delete what S3's lifecycle rules have deleted by an instant; return the number of objects."""
    gone = [
        each["Key"]
        for each in clients.express.list_objects_v2(Bucket=COPIES).get("Contents", [])
        if expires_us(round(each["LastModified"].timestamp() * 1_000_000), days_of(each["Size"], rule)) <= at_us
    ]
    for name in gone:
        clients.express.delete_object(Bucket=COPIES, Key=name)
    return len(gone)


def days_of(size_bytes: int, rule: ExpressRule) -> int:
    """Return after how many days the lifecycle rules delete an object of a size; exactly one of them must."""
    (days,) = [each["Expiration"]["Days"] for each in lifecycle_rules(rule) if _is_of(size_bytes, each["Filter"])]
    return int(days)


def _is_of(size_bytes: int, sizes: dict[str, Any]) -> bool:
    sizes = sizes.get("And", sizes)
    return bool(sizes.get("ObjectSizeGreaterThan", -1) < size_bytes < sizes.get("ObjectSizeLessThan", 1 << 60))
