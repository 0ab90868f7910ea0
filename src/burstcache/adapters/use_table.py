"""The use table: nodes' use (their utilisation by guests) and recently seen keys.

A node's use has many writers, so each write is a compare-and-set on its version. A report whose write loses is added to
the item as pending, without a condition. Every reader of the use counts pending reports, and the next writer stores the
result. Counting a report is idempotent, since the item stores eight-byte idempotency keys of the latest reports.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from burstcache.adapters.batches import put_items, read_items
from burstcache.adapters.calls import call_aws, translated_errors, write_if
from burstcache.adapters.clock import Clock
from burstcache.adapters.items import to_plain, to_values
from burstcache.core import table
from burstcache.core.node_memory import NodeMemory, decode_memory, encode_memory, with_missed
from burstcache.core.node_use import MAX_SEEN, NodeUse, UseRule, decode, encode, learn_repeats, use_or_first
from burstcache.core.parameters import US_PER_S
from burstcache.core.pending_reports import (
    REPORT_BYTES,
    PendingReport,
    Repeat,
    decode_report,
    encode_report,
    uncounted,
)
from burstcache.core.recency import SEEN_WITHIN_US, is_repeat
from burstcache.core.rows import SeenKey
from burstcache.core.table import SeenColumns, UseColumns, seen_item, use_item

if TYPE_CHECKING:
    from types_boto3_dynamodb.client import DynamoDBClient

_REPORTS = 32  # idempotency keys in the item, which stays within 1 KB (one write unit)


@dataclass(frozen=True, slots=True)
class StoredUse:
    """A node's use, as stored in the table. `use` is None before the first write."""

    use: NodeUse | None = None  # without the pending reports
    version: int = 0
    reports: bytes = b""
    looked_at_us: int = 0  # time of the running node's latest utilisation check
    memory: NodeMemory = field(default_factory=NodeMemory)  # with the pending reports
    pending: Sequence[PendingReport] = ()  # each not counted yet
    encoded: frozenset[bytes] = frozenset()  # the pending reports as stored, with those counted meanwhile

    def has(self, report: bytes) -> bool:
        """Return True if a report has already been counted, or is pending."""
        return report in _counted(self.reports) or any(report == each.id for each in self.pending)

    def use_by(self, rule: UseRule) -> NodeUse:
        """Return the use with the pending reports, as the stack's present rule learns them."""
        use = use_or_first(rule, self.use)
        for _, learned in learn_repeats(rule, use, self.pending_repeats):
            use = learned
        return use

    @property
    def pending_repeats(self) -> list[Repeat]:
        """The repeats of the pending reports."""
        return [repeat for report in self.pending for repeat in report.repeats]


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
        return _stored(to_plain(response.get("Item", {})))

    def add_pending(self, node: str, report: PendingReport) -> StoredUse:
        """Add a report that lost its compare-and-set. Return the node's use with it. Never loses to another writer."""
        response = call_aws(
            self.client.update_item,
            TableName=self.table_name,
            Key=to_values(use_item(node)),
            UpdateExpression=table.ADD_PENDING,
            ExpressionAttributeValues=to_values({":report": {encode_report(report)}}),
            ReturnValues="ALL_NEW",
        )
        return _stored(to_plain(response["Attributes"]))

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
            use: The new use, with the reports that were pending.
            seen: The use as last read.
            report: Idempotency key of the counted report, eight bytes. Empty for a utilisation check.
            looked_at_us: Time of the utilisation check. 0: none [us].
            memory: The node's memory. None: as in `seen`.
        """
        counted = b"".join(each.id for each in seen.pending)
        columns = UseColumns(
            use=encode(use),
            version=seen.version + 1,
            reports=(seen.reports + counted + report)[-_REPORTS * REPORT_BYTES :],
            looked_at_us=looked_at_us or seen.looked_at_us,
            memory=encode_memory(seen.memory if memory is None else memory),
        )
        values: dict[str, Any] = {f":{name}": value for name, value in columns.items()}
        expression, condition = table.REPLACE_USE, table.IS_NEW_USE
        if seen.version:
            condition, values[":seen"] = table.IS_USE_AS_SEEN, seen.version
        if seen.encoded:
            expression, values[":counted"] = f"{expression} {table.DELETE_PENDING}", seen.encoded
        response = write_if(
            self.client.update_item,
            TableName=self.table_name,
            Key=to_values(use_item(node)),
            UpdateExpression=expression,
            ConditionExpression=condition,
            ExpressionAttributeNames={"#use": "use", "#memory": "memory"},
            ExpressionAttributeValues=to_values(values),
        )
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


def _stored(item: Mapping[str, Any]) -> StoredUse:
    encoded = frozenset(map(bytes, item.get("pending", ())))
    reports = bytes(item.get("reports", b""))
    pending = uncounted(map(decode_report, encoded), _counted(reports))
    missed = sum(report.missed for report in pending)
    memory = decode_memory(bytes(item.get("memory", b"")))
    return StoredUse(
        use=decode(bytes(item["use"])) if "use" in item else None,
        version=item.get("version", 0),
        reports=reports,
        looked_at_us=item.get("looked_at_us", 0),
        memory=with_missed(memory, missed) if missed else memory,
        pending=pending,
        encoded=encoded,
    )


def _counted(reports: bytes) -> frozenset[bytes]:
    return frozenset(reports[at : at + REPORT_BYTES] for at in range(0, len(reports), REPORT_BYTES))
