"""A scan of all keys in the table, for operators only. No automatic process scans the table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from burstcache.adapters.calls import translated_errors
from burstcache.adapters.items import to_plain, to_values
from burstcache.core import table
from burstcache.core.rows import KeyRow, SeenKey

if TYPE_CHECKING:
    from types_boto3_dynamodb.client import DynamoDBClient


def scan_keys(table_name: str, client: DynamoDBClient) -> Iterator[KeyRow | SeenKey]:
    """Yield every key's row and every node's seen keys (strongly consistent). Raise ServiceError if DynamoDB fails.

    A key may have a row, and also be a seen key of several nodes.
    """
    pages = client.get_paginator("scan").paginate(
        TableName=table_name,
        FilterExpression=table.ALL_KEYS,
        ExpressionAttributeValues=to_values({":route": table.ROUTE_SORT_KEY, ":seen": table.SEEN_PREFIX}),
        ConsistentRead=True,
    )
    with translated_errors():
        for page in pages:
            for item in map(to_plain, page["Items"]):
                is_row = item["sk"] == table.ROUTE_SORT_KEY
                yield KeyRow.from_item(item) if is_row else SeenKey.from_item(item)
