"""The use of nodes that take guests, and the keys seen lately. A use has many writers: each write has a version.

A report is counted once, however often it comes: the item remembers the newest ones by eight bytes of their digest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from burstcache.adapters.batches import put_items, read_items
from burstcache.adapters.calls import ask, failures_named, write_if
from burstcache.adapters.clock import Clock
from burstcache.adapters.items import to_plain, to_values
from burstcache.core import table
from burstcache.core.node_use import NodeUse, decode, encode
from burstcache.core.parameters import US_PER_S
from burstcache.core.rows import SeenKey
from burstcache.core.seen import SEEN_WITHIN_US, is_repeat
from burstcache.core.table import SeenColumns, UseColumns, seen_item, use_item

if TYPE_CHECKING:
    from types_boto3_dynamodb.client import DynamoDBClient

REPORT_BYTES = 8
_REPORTS = 32  # that the item remembers: with the use it stays within 1 KB, one write unit
_MOST_SEEN = 20_000  # that a boot looks at: some 2 MB, 250 read units, and more than it can load


@dataclass(frozen=True, slots=True)
class StoredUse:
    """A node's use as it stands in the table; `use` is None before the first write."""

    use: NodeUse | None = None
    version: int = 0
    reports: bytes = b""
    looked_at_us: int = 0  # the newest look at the running node

    def has(self, report: bytes) -> bool:
        """Whether a report is counted already."""
        return any(self.reports[at : at + REPORT_BYTES] == report for at in range(0, len(self.reports), REPORT_BYTES))


@dataclass(frozen=True, slots=True)
class UseTable:
    """Reads and writes uses and keys seen. Every method raises ServiceError if DynamoDB fails."""

    table_name: str
    client: DynamoDBClient
    clock: Clock

    def read(self, node: str) -> StoredUse:
        """Return the node's use as it is now."""
        key = to_values(use_item(node))
        answer = ask(self.client.get_item, TableName=self.table_name, Key=key, ConsistentRead=True)
        if "Item" not in answer:
            return StoredUse()
        item = to_plain(answer["Item"])
        return StoredUse(
            decode(bytes(item["use"])), item["version"], bytes(item["reports"]), item.get("looked_at_us", 0)
        )

    def write(self, node: str, use: NodeUse, *, seen: StoredUse, report: bytes = b"", looked_at_us: int = 0) -> bool:
        """Write a node's use; False if it has changed since it was seen.

        Args:
            node: The node's name.
            use: Its new use.
            seen: The use as it was read.
            report: Eight bytes that stand for the report that is counted; none at a look.
            looked_at_us: When the node was looked at; 0: it was not [us].
        """
        columns = UseColumns(
            use=encode(use),
            version=seen.version + 1,
            reports=(seen.reports + report)[-_REPORTS * REPORT_BYTES :],
            looked_at_us=looked_at_us or seen.looked_at_us,
        )
        condition: dict[str, Any] = {"ConditionExpression": table.IS_NEW_USE}
        if seen.version:
            condition = {
                "ConditionExpression": table.IS_USE_AS_SEEN,
                "ExpressionAttributeValues": to_values({":seen": seen.version}),
            }
        item = to_values({**use_item(node), **columns})
        answer = write_if(self.client.put_item, TableName=self.table_name, Item=item, **condition)
        return answer is not None

    def seen(self, node: str, hashes: Iterable[str]) -> dict[str, SeenKey]:
        """Return when keys were seen, by hash; perhaps as it was a moment ago, for half the price."""
        wanted = (seen_item(node, hash_) for hash_ in hashes)
        items = read_items(self.client, self.table_name, wanted, self.clock, is_consistent=False)
        return {key.hash: key for key in map(SeenKey.from_item, items)}

    def newest_seen(self, node: str, *, now_us: int) -> list[SeenKey]:
        """Return the keys seen within the last day, the newest first. Of very many some are left out, at random."""
        pages = self.client.get_paginator("query").paginate(
            TableName=self.table_name,
            KeyConditionExpression=table.ALL_SEEN,
            ExpressionAttributeValues=to_values({":pk": use_item(node)["pk"], ":seen": table.SEEN_PREFIX}),
            PaginationConfig={"MaxItems": _MOST_SEEN},  # in the order of hashes, which is none
        )
        with failures_named():
            keys = [SeenKey.from_item(to_plain(item)) for page in pages for item in page["Items"]]
        lately = [key for key in keys if is_repeat(key.seen_at_us, now_us)]
        return sorted(lately, key=lambda key: key.seen_at_us, reverse=True)

    def note_seen(self, node: str, keys: Iterable[SeenKey]) -> None:
        """Note when keys were seen. The last writer wins: seconds do not matter here."""
        put_items(self.client, self.table_name, (_seen(node, key) for key in keys), self.clock)


def _seen(node: str, key: SeenKey) -> Mapping[str, Any]:
    columns = SeenColumns(
        key=key.key,
        size_bytes=key.size_bytes,
        seen_at_us=key.seen_at_us,
        expires_at=(key.seen_at_us + SEEN_WITHIN_US) // US_PER_S + 1,
    )
    return {**seen_item(node, key.hash), **columns}
