"""A directory bucket of S3 Express in moto, which has general ones only: conditional writes are the same."""

from __future__ import annotations

from burstcache.adapters.clients import Clients
from burstcache.adapters.express_copies import ExpressCopies

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
