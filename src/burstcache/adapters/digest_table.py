"""The digest's table items. Routes and nodes are written after their rows, and changes after invalidations.

Digest writes are not transactional with the rows. Each is conditional on the life and its phase, so a late write cannot
overwrite a newer one. After a lost write, readers fall back to S3 until the janitor repairs the digest.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from burstcache.adapters.calls import call_aws, write_if
from burstcache.adapters.digest_reader import read_digest, routed_key
from burstcache.adapters.items import to_plain, to_values
from burstcache.core import table
from burstcache.core.backlog import Backlog
from burstcache.core.change_log import encode_entry, entries_to_cut
from burstcache.core.digest import LATE_S, Digest, RoutedKey, late_mark, prefix_of
from burstcache.core.parameters import US_PER_S
from burstcache.core.phases import KEY_PHASE_RANK, NODE_PHASE_RANK
from burstcache.core.rows import KeyRow, NodeRow
from burstcache.core.table import (
    CHANGES_ITEM,
    LATE_ITEM,
    RELAY_ITEM,
    DigestColumns,
    ItemKey,
    shown_node_item,
    shown_route_item,
)

if TYPE_CHECKING:
    from types_boto3_dynamodb.client import DynamoDBClient

_CHANGES = to_values(CHANGES_ITEM)
_CHANGES_NAMES = {"#sequence": "sequence", "#log": "log"}


@dataclass(frozen=True, slots=True)
class DigestTable:
    """The digest, for writers. Every method raises ServiceError if DynamoDB fails."""

    table_name: str
    client: DynamoDBClient

    def read(self) -> Digest:
        """Return the digest (strongly consistent)."""
        return read_digest(self.client, self.table_name)

    def read_key(self, hash_: str) -> RoutedKey | None:
        """Return one key's route in the digest, or None, at the cost of one read unit."""
        key = to_values(shown_route_item(hash_))
        response = call_aws(self.client.get_item, TableName=self.table_name, Key=key, ConsistentRead=True)
        return routed_key(response["Item"]) if "Item" in response else None

    def announce(self, hashes: Sequence[str], *, now_us: int, backlog: Backlog | None = None) -> int:
        """Append keys to the log of changed objects, in one write. Return the last change's sequence number.

        While few keys change this costs one write unit, because the item is cut before it exceeds 1 KB. A new log is
        numbered from the current time in us. The item accepts fewer than a million changes per second, so a reader
        never mistakes a new log for an earlier log.

        Args:
            hashes: The keys' hashes. Without any, only the backlog is new.
            now_us: The time [us].
            backlog: What the announcement of a batch of S3's events says about those that wait. None: nothing.
        """
        values: dict[str, Any] = {
            ":count": len(hashes),
            ":none": [],
            ":added": [encode_entry([prefix_of(hash_) for hash_ in hashes], now_us=now_us)],
            ":first": now_us,
        }
        if backlog is not None:
            values |= {":since": backlog.since_us, ":seen": backlog.seen_at_us}
        response = call_aws(
            self.client.update_item,
            TableName=self.table_name,
            Key=_CHANGES,
            UpdateExpression=table.APPEND_CHANGES.format("" if backlog is None else table.ALSO_BACKLOG),
            ExpressionAttributeNames=_CHANGES_NAMES,
            ExpressionAttributeValues=to_values(values),
            ReturnValues="ALL_NEW",
        )
        columns: DigestColumns = to_plain(response["Attributes"])  # type: ignore[assignment]
        if cut := entries_to_cut(columns["log"], now_us=now_us):
            self._cut(cut, columns.get("cuts", 0))
        return columns["sequence"]

    def mark_late(self, hashes: Sequence[str], *, now_us: int) -> set[str]:
        """Exclude keys with possibly stale copies from all tiers. Return the marks for `remove_marks`.

        Each write has its own mark, which a concurrent write of the same key cannot remove.
        """
        marks = {late_mark(hash_, now_us=now_us, token=secrets.token_hex(4)) for hash_ in hashes}
        expires_at = now_us // US_PER_S + 2 * LATE_S  # expires the item with marks left by dead functions
        self._update_late(table.MARK_LATE, {":marks": marks, ":expires": expires_at})
        return marks

    def remove_marks(self, marks: set[str]) -> None:
        """Remove marks. Readers use a key's tiers again once no mark is left."""
        self._update_late(table.REMOVE_MARKS, {":marks": marks})

    def _update_late(self, expression: str, values: dict[str, Any]) -> None:
        call_aws(
            self.client.update_item,
            TableName=self.table_name,
            Key=to_values(LATE_ITEM),
            UpdateExpression=expression,
            ExpressionAttributeValues=to_values(values),
        )

    def raise_fence(self, *, now_us: int) -> None:
        """Raise the fence, so that cache functions reload older copies before serving them.

        Readers send the fence with their requests. Each write that did not reach the cache functions raises the fence
        once. The fence is monotonic, even under clock skew.
        """
        raise_to: Any = {"TableName": self.table_name, "Key": to_values(RELAY_ITEM)}
        raised = write_if(
            self.client.update_item,
            **raise_to,
            UpdateExpression=table.RAISE_FENCE,
            ConditionExpression=table.IS_FENCE_OLDER,
            ExpressionAttributeValues=to_values({":now": now_us}),
        )
        if raised is None:
            by_one = to_values({":one": 1})
            call_aws(
                self.client.update_item,
                **raise_to,
                UpdateExpression=table.RAISE_FENCE_BY_ONE,
                ExpressionAttributeValues=by_one,
            )

    def show_key(self, row: KeyRow) -> bool:
        """Publish a key's route. Return False if the digest already has a later life or phase of the key."""
        columns = DigestColumns(
            tier=row.tier,
            deadline_at_us=row.deadline_at_us,
            expires_at=row.deadline_at_us // US_PER_S,
        )
        if row.tier == "redis":
            columns |= DigestColumns(node=row.node, generation=row.generation)
        return self._show(shown_route_item(row.hash), row.epoch, KEY_PHASE_RANK[row.phase], columns)

    def show_node(self, row: NodeRow) -> bool:
        """Publish a node's state. Return False if the digest already has a later run or phase."""
        columns = DigestColumns(is_running=int(row.phase == "running"), peers=list(row.peers), host=row.host)
        return self._show(shown_node_item(row.node), row.generation, NODE_PHASE_RANK[row.phase], columns)

    def remove_key(self, hash_: str, seen: RoutedKey) -> None:
        """Remove a key's route, unless another life or phase has been published since `seen`."""
        write_if(
            self.client.delete_item,
            TableName=self.table_name,
            Key=to_values(shown_route_item(hash_)),
            ConditionExpression=table.IS_SHOWN_AS_SEEN,
            ExpressionAttributeValues=to_values({":life": seen.epoch, ":phase_rank": seen.phase_rank}),
        )

    def _show(self, item: ItemKey, life: int, phase_rank: int, columns: DigestColumns) -> bool:
        shown: dict[str, Any] = {**DigestColumns(life=life, phase_rank=phase_rank), **columns}
        response = write_if(
            self.client.update_item,
            TableName=self.table_name,
            Key=to_values(item),
            UpdateExpression=table.SET_COLUMNS.format(", ".join(f"#{name} = :{name}" for name in shown)),
            ConditionExpression=table.IS_NOT_BEHIND,
            ExpressionAttributeNames={f"#{name}": name for name in shown},
            ExpressionAttributeValues=to_values({f":{name}": value for name, value in shown.items()}),
        )
        return response is not None

    def _cut(self, count: int, cuts: int) -> None:
        """Remove the oldest entries of the log, unless another writer has cut it. New ones may arrive concurrently."""
        # In falling order the indices are right, too, where each removal shifts the elements behind it.
        oldest = ", ".join(f"#log[{at}]" for at in reversed(range(count)))
        write_if(
            self.client.update_item,
            TableName=self.table_name,
            Key=_CHANGES,
            UpdateExpression=table.CUT_LOG.format(oldest),
            ConditionExpression=table.IS_LOG_AS_CUT if cuts else table.IS_LOG_UNCUT,
            ExpressionAttributeNames={"#log": "log"},
            ExpressionAttributeValues=to_values({":next": cuts + 1} | ({":seen": cuts} if cuts else {})),
        )
