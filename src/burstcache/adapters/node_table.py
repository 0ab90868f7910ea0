"""Rows of Redis nodes in the table, and keys' leases on the nodes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Unpack

from burstcache.adapters.batches import read_items
from burstcache.adapters.calls import call_aws, translated_errors, write_if
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
    """Rows of nodes and leases. Every method raises ServiceError if DynamoDB fails."""

    table_name: str
    client: DynamoDBClient
    clock: Clock

    def read(self, node: str) -> NodeRow:
        """Return the node's row (strongly consistent). A node that has never run counts as stopped."""
        key = to_values(node_item(node))
        response = call_aws(self.client.get_item, TableName=self.table_name, Key=key, ConsistentRead=True)
        return NodeRow.from_item(to_plain(response["Item"])) if "Item" in response else NodeRow(node)

    def read_many(self, names: Iterable[str]) -> list[NodeRow]:
        """Return the rows that exist (strongly consistent), at one read unit each."""
        items = read_items(self.client, self.table_name, map(node_item, names), self.clock, is_consistent=True)
        return [NodeRow.from_item(item) for item in items]

    def change(
        self, seen: NodeRow, /, *, no_join_since: bool = False, is_join: bool = False, **changes: Unpack[NodeColumns]
    ) -> NodeRow | None:
        """Compare-and-set a node's row: its phase, generation and part must still equal the values in `seen`.

        Args:
            seen: The row as last read.
            no_join_since: Also require that no lease or hold has been added since.
            is_join: Also increment the join count, since the change adds a hold.
            **changes: New values by column.

        Returns:
            The row after the write, or None if the row had changed.

        Raises:
            IllegalPhaseError: The new phase may not follow the phase of `seen`.
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
        if changes.get("task"):  # two steps may run tasks for one boot
            condition += f" AND {table.IS_TASK_AS_SEEN}"
            values[":seen_task"] = seen.task
        if no_join_since and seen.joins:
            condition += f" AND {table.HAS_NO_NEW_JOIN}"
            values[":seen_joins"] = seen.joins
        elif no_join_since:
            condition += f" AND {table.HAS_NO_JOIN}"
        if is_join:
            values[":one"] = 1
        sets = ", ".join(f"#{name} = :{name}" for name in changes)
        response = write_if(
            self.client.update_item,
            TableName=self.table_name,
            Key=to_values(node_item(seen.node)),
            UpdateExpression=f"SET {sets} {table.COUNT_JOIN if is_join else ''}",
            ConditionExpression=condition,
            ExpressionAttributeNames=names,
            ExpressionAttributeValues=to_values(values),
            ReturnValues="ALL_NEW",
        )
        return NodeRow.from_item(to_plain(response["Attributes"])) if response else None

    def join(self, lease: Lease) -> NodeRow:
        """Add a lease, then increment the join count. Return the node's updated row.

        The order matters. A caller that has read the new count finds the lease by a query. For a caller that has read
        the old count, a change with `no_join_since` fails once this join is counted.
        """
        item = to_values({**lease_item(lease.node, lease.hash), **lease.columns()})
        call_aws(self.client.put_item, TableName=self.table_name, Item=item)
        response = call_aws(
            self.client.update_item,
            TableName=self.table_name,
            Key=to_values(node_item(lease.node)),
            UpdateExpression=table.COUNT_JOIN,
            ExpressionAttributeValues=to_values({":one": 1}),
            ReturnValues="ALL_NEW",
        )
        return NodeRow.from_item(to_plain(response["Attributes"]))

    def leases(self, node: str) -> list[Lease]:
        """Return the node's leases (strongly consistent)."""
        pages = self.client.get_paginator("query").paginate(
            TableName=self.table_name,
            KeyConditionExpression=table.ALL_LEASES,
            ExpressionAttributeValues=to_values({":pk": node_item(node)["pk"], ":lease": table.LEASE_PREFIX}),
            ConsistentRead=True,
        )
        with translated_errors():
            return [Lease.from_item(to_plain(item)) for page in pages for item in page["Items"]]

    def change_lease(self, lease: Lease, set_: LeaseColumns, *, remove: Literal["", "waiter"] = "") -> bool:
        """Update a lease of the same life. Return False if it is deleted or belongs to another life."""
        sets = ", ".join(f"#{name} = :{name}" for name in set_)
        response = write_if(
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
        return response is not None

    def extend(self, lease: Lease, *, held_until_us: int, now_us: int) -> bool:
        """Extend a holder's lease. Return False if it is deleted or expired."""
        response = write_if(
            self.client.update_item,
            TableName=self.table_name,
            Key=to_values(lease_item(lease.node, lease.hash)),
            UpdateExpression=table.SET_HELD,
            ConditionExpression=table.IS_HELD,
            ExpressionAttributeValues=to_values({":until": held_until_us, ":now": now_us}),
        )
        return response is not None

    def drop(self, lease: Lease, *, is_over: bool = False) -> bool:
        """Delete a lease of the same life. Return False if it is already deleted or belongs to a newer life.

        With `is_over`, the caller has read an expired lease. The lease is then kept if its holder has renewed it since.
        """
        held = {":held": lease.held_until_us} if is_over and lease.held_until_us else {}
        response = write_if(
            self.client.delete_item,
            TableName=self.table_name,
            Key=to_values(lease_item(lease.node, lease.hash)),
            ConditionExpression=table.IS_SAME_HOLD if held else table.IS_SAME_LIFE,
            ExpressionAttributeValues=to_values({":epoch": lease.epoch, **held}),
        )
        return response is not None
