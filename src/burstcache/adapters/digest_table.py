"""The digest as it is written: routes and nodes after their rows, changes after the tiers' copies have followed them.

None of it is in one transaction with a row. A write is conditional on the life and on how far that has come, so a
late one does not replace a newer one; one that is missing costs readers a detour through S3 until the janitor adds it.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from burstcache.adapters.calls import ask, write_if
from burstcache.adapters.digest_reader import read_digest, routed_key
from burstcache.adapters.items import to_values
from burstcache.core import table
from burstcache.core.digest import KEPT_CHANGES, LATE_S, MOST_CHANGES, Digest, RoutedKey, late_mark, prefix_of
from burstcache.core.keys import next_number
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
_CHANGES_NAMES = {"#sequence": "sequence", "#changes": "changes"}
_CUT_CHANGES = MOST_CHANGES - KEPT_CHANGES


@dataclass(frozen=True, slots=True)
class DigestTable:
    """Writes the digest. Every method raises ServiceError if DynamoDB fails."""

    table_name: str
    client: DynamoDBClient

    def read(self) -> Digest:
        """Return the digest as it is now."""
        return read_digest(self.client, self.table_name)

    def read_key(self, hash_: str) -> RoutedKey | None:
        """Return what the digest shows of one key, or None: one read unit."""
        key = to_values(shown_route_item(hash_))
        answer = ask(self.client.get_item, TableName=self.table_name, Key=key, ConsistentRead=True)
        return routed_key(answer["Item"]) if "Item" in answer else None

    def announce(self, hash_: str, *, now_us: int) -> int:
        """Add to the log that a key's object changed; return the number of the change.

        One write unit: the log's item is cut back before it outgrows 1 KB. A new log counts from the time in ms: the
        item takes fewer writes than that, so no reader that knows an earlier log under this name takes it for its own.
        """
        added = [bytes.fromhex(prefix_of(hash_))]
        answer = ask(
            self.client.update_item,
            TableName=self.table_name,
            Key=_CHANGES,
            UpdateExpression=table.APPEND_CHANGE,
            ExpressionAttributeNames=_CHANGES_NAMES,
            ExpressionAttributeValues=to_values(
                {":one": 1, ":none": [], ":added": added, ":first": next_number(0, now_us=now_us)}
            ),
            ReturnValues="ALL_NEW",
        )
        if len(answer["Attributes"]["changes"]["L"]) >= MOST_CHANGES:
            self._trim()
        return int(answer["Attributes"]["sequence"]["N"])

    def mark_late(self, hash_: str, *, now_us: int) -> str:
        """Have no reader ask a tier for a key that may have an older copy of it; return the mark for `remove_mark`.

        Each write has a mark of its own: another one of the same key, whose tiers have followed, does not end this one.
        """
        mark = late_mark(hash_, now_us=now_us, token=secrets.token_hex(4))
        expires_at = now_us // US_PER_S + 2 * LATE_S  # the item, with the marks of functions that died
        self._update_late(table.MARK_LATE, {":marks": {mark}, ":expires": expires_at})
        return mark

    def remove_mark(self, mark: str) -> None:
        """Let readers ask tiers for a key again, as far as this mark kept them from it."""
        self._update_late(table.REMOVE_MARK, {":marks": {mark}})

    def _update_late(self, expression: str, values: dict[str, Any]) -> None:
        ask(
            self.client.update_item,
            TableName=self.table_name,
            Key=to_values(LATE_ITEM),
            UpdateExpression=expression,
            ExpressionAttributeValues=to_values(values),
        )

    def raise_fence(self, *, now_us: int) -> None:
        """Have every copy in a cache function that is older than this loaded anew before a reader gets it.

        Readers carry the fence along when they ask. It only rises, also where clocks differ: each write that did not
        reach the cache functions has one of its own.
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
            ask(
                self.client.update_item,
                **raise_to,
                UpdateExpression=table.RAISE_FENCE_BY_ONE,
                ExpressionAttributeValues=by_one,
            )

    def show_key(self, row: KeyRow) -> bool:
        """Show where a key is served from; False if the digest already has a later life or phase."""
        columns = DigestColumns(
            tier=row.tier,
            deadline_at_us=row.deadline_at_us,
            expires_at=row.deadline_at_us // US_PER_S,
        )
        if row.tier == "redis":
            columns |= DigestColumns(node=row.node, generation=row.generation)
        return self._show(shown_route_item(row.hash), row.epoch, KEY_PHASE_RANK[row.phase], columns)

    def show_node(self, row: NodeRow) -> bool:
        """Show whether a node serves; False if the digest already has a later run or phase."""
        columns = DigestColumns(is_running=int(row.phase == "running"), peers=list(row.peers))
        return self._show(shown_node_item(row.node), row.generation, NODE_PHASE_RANK[row.phase], columns)

    def remove_key(self, hash_: str, seen: RoutedKey) -> None:
        """Remove a key, unless it has been shown in another life or phase since it was seen."""
        write_if(
            self.client.delete_item,
            TableName=self.table_name,
            Key=to_values(shown_route_item(hash_)),
            ConditionExpression=table.IS_SHOWN_AS_SEEN,
            ExpressionAttributeValues=to_values({":life": seen.epoch, ":phase_rank": seen.phase_rank}),
        )

    def _show(self, item: ItemKey, life: int, phase_rank: int, columns: DigestColumns) -> bool:
        shown: dict[str, Any] = {**DigestColumns(life=life, phase_rank=phase_rank), **columns}
        answer = write_if(
            self.client.update_item,
            TableName=self.table_name,
            Key=to_values(item),
            UpdateExpression=table.SET_COLUMNS.format(", ".join(f"#{name} = :{name}" for name in shown)),
            ConditionExpression=table.IS_NOT_BEHIND,
            ExpressionAttributeNames={f"#{name}": name for name in shown},
            ExpressionAttributeValues=to_values({f":{name}": value for name, value in shown.items()}),
        )
        return answer is not None

    def _trim(self) -> None:
        """Cut the oldest changes off, unless another writer has done so. New ones may come meanwhile."""
        write_if(
            self.client.update_item,
            TableName=self.table_name,
            Key=_CHANGES,
            UpdateExpression=table.CUT_CHANGES.format(", ".join(f"#changes[{at}]" for at in range(_CUT_CHANGES))),
            ConditionExpression=table.HAS_MOST_CHANGES,
            ExpressionAttributeNames={"#changes": "changes"},
            ExpressionAttributeValues=to_values({":most": MOST_CHANGES}),
        )
