"""The rows of Redis nodes and the leases of keys on them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from burstcache.adapters.calls import ask, failures_named, write_if
from burstcache.adapters.items import to_plain, to_values
from burstcache.core.table import Lease, NodeRow

if TYPE_CHECKING:
    from types_boto3_dynamodb.client import DynamoDBClient


@dataclass(frozen=True, slots=True)
class NodeTable:
    """Reads and writes rows of nodes and leases. Every method raises ServiceError if DynamoDB fails."""

    table_name: str
    client: DynamoDBClient

    def read(self, node: str) -> NodeRow:
        """Return the node's row as it is now; a node that never ran is stopped."""
        answer = ask(self.client.get_item, TableName=self.table_name, Key=_node_key(node), ConsistentRead=True)
        return NodeRow.from_item(to_plain(answer["Item"])) if "Item" in answer else NodeRow(node)

    def change(self, seen: NodeRow, /, *, no_join_since: bool = False, **changes: Any) -> NodeRow | None:
        """Write changes to a node's row if its phase, generation and part are still as seen.

        Args:
            seen: The row as it was read.
            no_join_since: Also require that no lease has been put since.
            **changes: Attributes of NodeRow and their new values.

        Returns:
            The row after the write; None if it had changed.
        """
        names = {f"#{name}": name for name in changes} | {"#part": "part"}
        values = {f":{name}": value for name, value in changes.items()}
        if seen.generation:
            condition = "phase = :seen_phase AND generation = :seen_generation AND #part = :seen_part"
            values |= {":seen_phase": seen.phase, ":seen_generation": seen.generation, ":seen_part": seen.part}
        else:
            condition, names = "attribute_not_exists(generation)", {n: v for n, v in names.items() if v in changes}
        if no_join_since:
            condition += " AND joins = :seen_joins"
            values[":seen_joins"] = seen.joins
        answer = write_if(
            self.client.update_item,
            TableName=self.table_name,
            Key=_node_key(seen.node),
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
        item = {"pk": f"NODE#{lease.node}", "sk": f"LEASE#{lease.hash}", "epoch": lease.epoch, "key": lease.key}
        optional = {"waiter": lease.waiter, "held_until_us": lease.held_until_us}
        ask(
            self.client.put_item,
            TableName=self.table_name,
            Item=to_values(item | {name: v for name, v in optional.items() if v}),
        )
        answer = ask(
            self.client.update_item,
            TableName=self.table_name,
            Key=_node_key(lease.node),
            UpdateExpression="ADD joins :one",
            ExpressionAttributeValues=to_values({":one": 1}),
            ReturnValues="ALL_NEW",
        )
        return NodeRow.from_item(to_plain(answer["Attributes"]))

    def leases(self, node: str) -> list[Lease]:
        """Return all leases on the node as they are now."""
        pages = self.client.get_paginator("query").paginate(
            TableName=self.table_name,
            KeyConditionExpression="pk = :pk AND begins_with(sk, :lease)",
            ExpressionAttributeValues=to_values({":pk": f"NODE#{node}", ":lease": "LEASE#"}),
            ConsistentRead=True,
        )
        with failures_named():
            return [Lease.from_item(to_plain(item)) for page in pages for item in page["Items"]]

    def change_lease(self, lease: Lease, set_: Mapping[str, Any], *, remove: str = "") -> bool:
        """Write to a lease if it is still of the same life; False if it is not."""
        sets = ", ".join(f"#{name} = :{name}" for name in set_)
        return self._if_same_life(
            self.client.update_item,
            lease,
            UpdateExpression=f"SET {sets}" + (f" REMOVE #{remove}" if remove else ""),
            ExpressionAttributeNames={f"#{name}": name for name in (*set_, *filter(None, [remove]))},
            ExpressionAttributeValues=to_values({":epoch": lease.epoch, **{f":{n}": v for n, v in set_.items()}}),
        )

    def drop(self, lease: Lease) -> bool:
        """Delete a lease if it is still of the same life; False if it is gone or of a newer one."""
        return self._if_same_life(
            self.client.delete_item, lease, ExpressionAttributeValues=to_values({":epoch": lease.epoch})
        )

    def _if_same_life(self, write: Any, lease: Lease, **arguments: Any) -> bool:
        arguments |= {
            "TableName": self.table_name,
            "Key": to_values({"pk": f"NODE#{lease.node}", "sk": f"LEASE#{lease.hash}"}),
            "ConditionExpression": "epoch = :epoch",
        }
        return write_if(write, **arguments) is not None


def _node_key(node: str) -> dict[str, Any]:
    return to_values({"pk": f"NODE#{node}", "sk": "NODE"})
