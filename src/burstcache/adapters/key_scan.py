"""All rows of keys: for people who look at the table. Nothing that runs by itself reads it as a whole."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from burstcache.adapters.calls import failures_named
from burstcache.adapters.items import to_plain, to_values
from burstcache.core import table
from burstcache.core.rows import KeyRow

if TYPE_CHECKING:
    from types_boto3_dynamodb.client import DynamoDBClient


def scan_keys(table_name: str, client: DynamoDBClient) -> Iterator[KeyRow]:
    """Yield every row as it is now; raise ServiceError if DynamoDB fails."""
    pages = client.get_paginator("scan").paginate(
        TableName=table_name,
        FilterExpression=table.ALL_KEYS,
        ExpressionAttributeValues=to_values({":route": table.ROUTE_SORT_KEY}),
        ConsistentRead=True,
    )
    with failures_named():
        for page in pages:
            yield from (KeyRow.from_item(to_plain(item)) for item in page["Items"])
