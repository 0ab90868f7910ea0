"""The rows of keys. Every conditional write names its precondition; if it fails, another writer was first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from burstcache.adapters.calls import ask, failures_named, write_if
from burstcache.adapters.clock import Clock
from burstcache.adapters.items import ROW_LIFE_S, to_plain, to_values
from burstcache.core.parameters import US_PER_S
from burstcache.core.policy import Request
from burstcache.core.table import KeyRow

if TYPE_CHECKING:
    from types_boto3_dynamodb.client import DynamoDBClient

# Cut the window back when it has grown to this many times its useful length: appending needs no read before it.
_TRIM_FACTOR = 4


@dataclass(frozen=True, slots=True)
class KeyTable:
    """Reads and writes rows of keys. Every method raises ServiceError if DynamoDB fails."""

    table_name: str
    client: DynamoDBClient
    clock: Clock

    def read(self, hash_: str) -> KeyRow | None:
        """Return the row as it is now, or None."""
        answer = ask(self.client.get_item, TableName=self.table_name, Key=_key(hash_), ConsistentRead=True)
        return KeyRow.from_item(to_plain(answer["Item"])) if "Item" in answer else None

    def read_many(self, hashes: Iterable[str]) -> dict[str, KeyRow]:
        """Return the rows that exist, by hash, as they are now."""
        rows: dict[str, KeyRow] = {}
        wanted: list[Any] = [_key(hash_) for hash_ in hashes]
        while wanted:
            batch, wanted = wanted[:100], wanted[100:]
            answer = ask(
                self.client.batch_get_item, RequestItems={self.table_name: {"Keys": batch, "ConsistentRead": True}}
            )
            for item in answer["Responses"].get(self.table_name, ()):
                row = KeyRow.from_item(to_plain(item))
                rows[row.hash] = row
            if self.table_name in answer["UnprocessedKeys"]:
                wanted += answer["UnprocessedKeys"][self.table_name]["Keys"]
        return rows

    def scan_live(self) -> Iterator[KeyRow]:
        """Yield every row that is not in phase s3, expired ones included."""
        pages = self.client.get_paginator("scan").paginate(
            TableName=self.table_name,
            FilterExpression="sk = :route AND phase <> :s3",
            ExpressionAttributeValues=to_values({":route": "ROUTE", ":s3": "s3"}),
        )
        with failures_named():
            for page in pages:
                yield from (KeyRow.from_item(to_plain(item)) for item in page["Items"])

    def scan(self) -> Iterator[KeyRow]:
        """Yield every row as it is now."""
        pages = self.client.get_paginator("scan").paginate(
            TableName=self.table_name,
            FilterExpression="sk = :route",
            ExpressionAttributeValues=to_values({":route": "ROUTE"}),
            ConsistentRead=True,
        )
        with failures_named():
            for page in pages:
                yield from (KeyRow.from_item(to_plain(item)) for item in page["Items"])

    def append(self, hash_: str, key: str, request: Request, *, etag: str, size_bytes: int, keep: int) -> KeyRow:
        """Add one request to the window and return the row as it is then: one write, no read, no race.

        Args:
            hash_: The key's hash.
            key: The object's key.
            request: What S3 served.
            etag: The object's ETag as S3 gave it.
            size_bytes: The object's size, 0 if S3 did not give it (a 304) [bytes].
            keep: How many requests the policy needs; the stored list is cut back when it is several times as long.
        """
        size = ":size" if size_bytes else "if_not_exists(size_bytes, :size)"
        answer = ask(
            self.client.update_item,
            TableName=self.table_name,
            Key=_key(hash_),
            UpdateExpression=(
                f"SET #key = :key, etag = :etag, size_bytes = {size}, expires_at = :expires,"
                " phase = if_not_exists(phase, :s3), #window = list_append(if_not_exists(#window, :none), :one)"
            ),
            ExpressionAttributeNames={"#key": "key", "#window": "window"},
            ExpressionAttributeValues=to_values(
                {
                    ":key": key,
                    ":etag": etag,
                    ":size": size_bytes,
                    ":expires": self._expires_at_s(),
                    ":s3": "s3",
                    ":none": [],
                    ":one": [str(request)],
                }
            ),
            ReturnValues="ALL_NEW",
        )
        item = to_plain(answer["Attributes"])
        row = KeyRow.from_item(item)
        if len(item["window"]) > keep * _TRIM_FACTOR:
            self._trim(hash_, item["window"], [str(r) for r in row.window[-keep:]])
        return row

    def update(
        self,
        hash_: str,
        *,
        epoch: int,
        set_: Mapping[str, Any] | None = None,
        remove: Iterable[str] = (),
        append_window: Iterable[Request] = (),
        unless_held: bool = False,
    ) -> KeyRow | None:
        """Change the row of a life on condition that it is still that life.

        Args:
            hash_: The key's hash.
            epoch: The life that the writer belongs to.
            set_: Attributes and their new values.
            remove: Attributes to delete.
            append_window: Requests to add to the window.
            unless_held: Also require that no cache invocation has announced itself: the announce is the claim.

        Returns:
            The row after the write; None if the condition did not hold.
        """
        values: dict[str, Any] = {":epoch": epoch, ":expires": self._expires_at_s(), ":s3": "s3"}
        names = {"#expires": "expires_at"}
        sets = ["#expires = :expires"]
        for i, (name, value) in enumerate((set_ or {}).items()):
            names[f"#s{i}"], values[f":s{i}"] = name, value
            sets.append(f"#s{i} = :s{i}")
        if added := [str(request) for request in append_window]:
            names["#window"], values[":none"], values[":added"] = "window", [], added
            sets.append("#window = list_append(if_not_exists(#window, :none), :added)")
        removes = []
        for i, name in enumerate(remove):
            names[f"#r{i}"] = name
            removes.append(f"#r{i}")
        expression = "SET " + ", ".join(sets) + (" REMOVE " + ", ".join(removes) if removes else "")
        condition = "epoch = :epoch AND phase <> :s3" + (" AND attribute_not_exists(holder)" if unless_held else "")
        answer = write_if(
            self.client.update_item,
            TableName=self.table_name,
            Key=_key(hash_),
            UpdateExpression=expression,
            ConditionExpression=condition,
            ExpressionAttributeNames=names,
            ExpressionAttributeValues=to_values(values),
            ReturnValues="ALL_NEW",
        )
        return KeyRow.from_item(to_plain(answer["Attributes"])) if answer else None

    def _expires_at_s(self) -> int:
        return self.clock.now_us() // US_PER_S + ROW_LIFE_S

    def _trim(self, hash_: str, seen: list[str], newest: list[str]) -> None:
        """Cut the window back, unless another writer has appended meanwhile; that one trims in turn."""
        write_if(
            self.client.update_item,
            TableName=self.table_name,
            Key=_key(hash_),
            UpdateExpression="SET #window = :newest",
            ConditionExpression="#window = :seen",
            ExpressionAttributeNames={"#window": "window"},
            ExpressionAttributeValues=to_values({":newest": newest, ":seen": seen}),
        )


def _key(hash_: str) -> dict[str, Any]:
    return to_values({"pk": f"KEY#{hash_}", "sk": "ROUTE"})
