"""The use table: nodes' use (their utilisation by guests) and recently seen keys.

A node's use has many writers, so each write is a compare-and-set on its version. Counting a report is idempotent, since
the item stores eight-byte idempotency keys of the latest reports.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from burstcache.adapters.batches import put_items, read_items
from burstcache.adapters.calls import call_aws, translated_errors, write_if
from burstcache.adapters.clock import Clock
from burstcache.adapters.items import to_plain, to_values
from burstcache.core import table
from burstcache.core.node_memory import NodeMemory, decode_memory, encode_memory
from burstcache.core.node_use import MAX_SEEN, NodeUse, decode, encode
from burstcache.core.parameters import US_PER_S
from burstcache.core.recency import SEEN_WITHIN_US, is_repeat
from burstcache.core.rows import SeenKey
from burstcache.core.table import SeenColumns, UseColumns, seen_item, use_item

if TYPE_CHECKING:
    from types_boto3_dynamodb.client import DynamoDBClient

REPORT_BYTES = 8
_REPORTS = 32  # idempotency keys in the item, which stays within 1 KB (one write unit)


@dataclass(frozen=True, slots=True)
class StoredUse:
    """A node's use, as stored in the table. `use` is None before the first write."""

    use: NodeUse | None = None
    version: int = 0
    reports: bytes = b""
    looked_at_us: int = 0  # time of the running node's latest utilisation check
    memory: NodeMemory = field(default_factory=NodeMemory)

    def has(self, report: bytes) -> bool:
        """Return True if a report has already been counted."""
        return any(self.reports[at : at + REPORT_BYTES] == report for at in range(0, len(self.reports), REPORT_BYTES))


@dataclass(frozen=True, slots=True)
class UseTable:
    """Nodes' uses and seen keys. Every method raises ServiceError if DynamoDB fails."""

    table_name: str
    client: DynamoDBClient
    clock: Clock

    def read(self, node: str) -> StoredUse:
        """Return the node's use (strongly consistent)."""
        key = to_values(use_item(node))
        response = call_aws(self.client.get_item, TableName=self.table_name, Key=key, ConsistentRead=True)
        if "Item" not in response:
            return StoredUse()
        item = to_plain(response["Item"])
        return StoredUse(
            decode(bytes(item["use"])),
            item["version"],
            bytes(item["reports"]),
            item.get("looked_at_us", 0),
            decode_memory(bytes(item.get("memory", b""))),
        )

    def write(
        self,
        node: str,
        use: NodeUse,
        *,
        seen: StoredUse,
        report: bytes = b"",
        looked_at_us: int = 0,
        memory: NodeMemory | None = None,
    ) -> bool:
        """Compare-and-set a node's use. Return False if it has changed since `seen`.

        Args:
            node: Name of the node.
            use: The new use.
            seen: The use as last read.
            report: Idempotency key of the counted report, eight bytes. Empty for a utilisation check.
            looked_at_us: Time of the utilisation check. 0: none [us].
            memory: The node's memory. None: as in `seen`.
        """
        columns = UseColumns(
            use=encode(use),
            version=seen.version + 1,
            reports=(seen.reports + report)[-_REPORTS * REPORT_BYTES :],
            looked_at_us=looked_at_us or seen.looked_at_us,
            memory=encode_memory(seen.memory if memory is None else memory),
        )
        condition: dict[str, Any] = {"ConditionExpression": table.IS_NEW_USE}
        if seen.version:
            condition = {
                "ConditionExpression": table.IS_USE_AS_SEEN,
                "ExpressionAttributeValues": to_values({":seen": seen.version}),
            }
        item = to_values({**use_item(node), **columns})
        response = write_if(self.client.put_item, TableName=self.table_name, Item=item, **condition)
        return response is not None

    def seen(self, node: str, hashes: Iterable[str]) -> dict[str, SeenKey]:
        """Return the keys' latest requests, by hash (eventually consistent, at half the price)."""
        item_keys = (seen_item(node, hash_) for hash_ in hashes)
        items = read_items(self.client, self.table_name, item_keys, self.clock, is_consistent=False)
        return {key.hash: key for key in map(SeenKey.from_item, items)}

    def newest_seen(self, node: str, *, now_us: int) -> list[SeenKey]:
        """Return the keys seen within the last day, newest first. Above 20,000 keys, a random subset is missing."""
        pages = self.client.get_paginator("query").paginate(
            TableName=self.table_name,
            KeyConditionExpression=table.ALL_SEEN,
            ExpressionAttributeValues=to_values({":pk": use_item(node)["pk"], ":seen": table.SEEN_PREFIX}),
            PaginationConfig={"MaxItems": MAX_SEEN},  # items are ordered by hash, so this truncates at random
        )
        with translated_errors():
            keys = [SeenKey.from_item(to_plain(item)) for page in pages for item in page["Items"]]
        recent = [key for key in keys if is_repeat(key.seen_at_us, now_us)]
        return sorted(recent, key=lambda key: key.seen_at_us, reverse=True)

    def note_seen(self, node: str, keys: Iterable[SeenKey]) -> None:
        """Record the times of keys' latest requests. The last writer wins, since seconds make no difference here."""
        put_items(self.client, self.table_name, (_seen(node, key) for key in keys), self.clock)


def _seen(node: str, key: SeenKey) -> Mapping[str, Any]:
    columns = SeenColumns(
        key=key.key,
        size_bytes=key.size_bytes,
        seen_at_us=key.seen_at_us,
        expires_at=(key.seen_at_us + SEEN_WITHIN_US) // US_PER_S + 1,
    )
    return {**seen_item(node, key.hash), **columns}
