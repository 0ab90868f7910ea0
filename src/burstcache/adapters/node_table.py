"""The rows of Redis nodes and the leases of keys on them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Unpack

from burstcache.adapters.batches import read_items
from burstcache.adapters.calls import ask, failures_named, write_if
from burstcache.adapters.clock import Clock
from burstcache.adapters.items import to_plain, to_values
from burstcache.core import table
from burstcache.core.errors import IllegalPhaseError
from burstcache.core.phases import NODE_PHASES_BEFORE
from burstcache.core.rows import Lease, NodeRow
from burstcache.core.table import LeaseColumns, NodeColumns, lease_item, node_item

if TYPE_CHECKING:
    from types_boto3_dynamodb.client import DynamoDBClient


@dataclass(frozen=True, slots=True)
class NodeTable:
    """Reads and writes rows of nodes and leases. Every method raises ServiceError if DynamoDB fails."""

    table_name: str
    client: DynamoDBClient
    clock: Clock

    def read(self, node: str) -> NodeRow:
        """Return the node's row as it is now; a node that never ran is stopped."""
        key = to_values(node_item(node))
        answer = ask(self.client.get_item, TableName=self.table_name, Key=key, ConsistentRead=True)
        return NodeRow.from_item(to_plain(answer["Item"])) if "Item" in answer else NodeRow(node)

    def read_many(self, names: Iterable[str]) -> list[NodeRow]:
        """Return the rows of the nodes that ever ran, as they are now: one read unit each."""
        items = read_items(self.client, self.table_name, map(node_item, names), self.clock, is_consistent=True)
        return [NodeRow.from_item(item) for item in items]

    def change(
        self, seen: NodeRow, /, *, no_join_since: bool = False, **changes: Unpack[NodeColumns]
    ) -> NodeRow | None:
        """Write changes to a node's row if its phase, generation and part are still as seen.

        Args:
            seen: The row as it was read.
            no_join_since: Also require that no lease has been put since.
            **changes: Columns and their new values.

        Returns:
            The row after the write; None if it had changed.

        Raises:
            IllegalPhaseError: The new phase may not follow the one that was seen.
        """
        if "phase" in changes and seen.phase not in NODE_PHASES_BEFORE[changes["phase"]]:
            raise IllegalPhaseError(f"node {seen.node}: {changes['phase']} may not follow {seen.phase}")
        names = {f"#{name}": name for name in changes}
        values: dict[str, Any] = {f":{name}": value for name, value in changes.items()}
        if seen.generation:
            condition = table.IS_NODE_AS_SEEN
            names["#part"] = "part"
            values |= {":seen_phase": seen.phase, ":seen_generation": seen.generation, ":seen_part": seen.part}
        else:
            condition = table.IS_NEW_NODE
        if no_join_since and seen.joins:
            condition += f" AND {table.HAS_NO_NEW_JOIN}"
            values[":seen_joins"] = seen.joins
        elif no_join_since:
            condition += f" AND {table.HAS_NO_JOIN}"
        answer = write_if(
            self.client.update_item,
            TableName=self.table_name,
            Key=to_values(node_item(seen.node)),
            UpdateExpression="SET " + ", ".join(f"#{name} = :{name}" for name in changes),
            ConditionExpression=condition,
            ExpressionAttributeNames=names,
            ExpressionAttributeValues=to_values(values),
            ReturnValues="ALL_NEW",
        )
        return NodeRow.from_item(to_plain(answer["Attributes"])) if answer else None

    def join(self, lease: Lease) -> NodeRow:
        """Put a lease, then count the join; return the node's row after it.

        The order is the protocol: a reader that sees an old count before it queries the leases has not missed this one.
        """
        item = to_values({**lease_item(lease.node, lease.hash), **lease.columns()})
        ask(self.client.put_item, TableName=self.table_name, Item=item)
        answer = ask(
            self.client.update_item,
            TableName=self.table_name,
            Key=to_values(node_item(lease.node)),
            UpdateExpression=table.COUNT_JOIN,
            ExpressionAttributeValues=to_values({":one": 1}),
            ReturnValues="ALL_NEW",
        )
        return NodeRow.from_item(to_plain(answer["Attributes"]))

    def leases(self, node: str) -> list[Lease]:
        """Return all leases on the node as they are now."""
        pages = self.client.get_paginator("query").paginate(
            TableName=self.table_name,
            KeyConditionExpression=table.ALL_LEASES,
            ExpressionAttributeValues=to_values({":pk": node_item(node)["pk"], ":lease": table.LEASE_PREFIX}),
            ConsistentRead=True,
        )
        with failures_named():
            return [Lease.from_item(to_plain(item)) for page in pages for item in page["Items"]]

    def change_lease(self, lease: Lease, set_: LeaseColumns, *, remove: Literal["", "waiter"] = "") -> bool:
        """Write to a lease if it is still of the same life; False if it is not."""
        sets = ", ".join(f"#{name} = :{name}" for name in set_)
        answer = write_if(
            self.client.update_item,
            TableName=self.table_name,
            Key=to_values(lease_item(lease.node, lease.hash)),
            UpdateExpression=f"SET {sets}" + (f" REMOVE #{remove}" if remove else ""),
            ConditionExpression=table.IS_SAME_LIFE,
            ExpressionAttributeNames={f"#{name}": name for name in (*set_, *filter(None, [remove]))},
            ExpressionAttributeValues=to_values(
                {":epoch": lease.epoch, **{f":{name}": value for name, value in set_.items()}}
            ),
        )
        return answer is not None

    def extend(self, lease: Lease, *, held_until_us: int, now_us: int) -> bool:
        """Write until when a holder's lease holds; False if it is gone or has run out."""
        answer = write_if(
            self.client.update_item,
            TableName=self.table_name,
            Key=to_values(lease_item(lease.node, lease.hash)),
            UpdateExpression=table.SET_HELD,
            ConditionExpression=table.IS_HELD,
            ExpressionAttributeValues=to_values({":until": held_until_us, ":now": now_us}),
        )
        return answer is not None

    def drop(self, lease: Lease, *, is_over: bool = False) -> bool:
        """Delete a lease if it is still of the same life; False if it is gone or of a newer one.

        `is_over`: a hold has run out, so it stays if its holder has extended it or put it anew since it was read.
        """
        held = {":held": lease.held_until_us} if is_over and lease.held_until_us else {}
        answer = write_if(
            self.client.delete_item,
            TableName=self.table_name,
            Key=to_values(lease_item(lease.node, lease.hash)),
            ConditionExpression=table.IS_SAME_HOLD if held else table.IS_SAME_LIFE,
            ExpressionAttributeValues=to_values({":epoch": lease.epoch, **held}),
        )
        return answer is not None
