"""The key table. Each conditional write states its precondition, and fails if another writer was first."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from burstcache.adapters.batches import read_items
from burstcache.adapters.calls import call_aws, write_if
from burstcache.adapters.clock import Clock
from burstcache.adapters.digest_table import DigestTable
from burstcache.adapters.hot_shards import HotShards
from burstcache.adapters.items import COLD_ROW_S, LIFE_ROW_S, to_plain, to_values
from burstcache.core import table
from burstcache.core.errors import ServiceError
from burstcache.core.parameters import US_PER_S
from burstcache.core.phases import KEY_PHASES_BEFORE, Tier
from burstcache.core.policy import RecordedRequest
from burstcache.core.recency import SEEN_WITHIN_US
from burstcache.core.rows import KeyRow
from burstcache.core.table import KeyColumn, KeyColumns, key_item
from burstcache.logs import logger

if TYPE_CHECKING:
    from types_boto3_dynamodb.client import DynamoDBClient

# The window is trimmed when it reaches this multiple of its useful length, so that an append needs no read.
_TRIM_FACTOR = 4


@dataclass(frozen=True, slots=True)
class KeyTable:
    """Rows of keys. Every method raises ServiceError if DynamoDB fails."""

    table_name: str
    client: DynamoDBClient
    clock: Clock

    def read(self, hash_: str) -> KeyRow | None:
        """Return a key's row (strongly consistent), or None."""
        key = to_values(key_item(hash_))
        response = call_aws(self.client.get_item, TableName=self.table_name, Key=key, ConsistentRead=True)
        return KeyRow.from_item(to_plain(response["Item"])) if "Item" in response else None

    def read_many(self, hashes: Iterable[str]) -> dict[str, KeyRow]:
        """Return the existing rows by hash (strongly consistent)."""
        items = read_items(self.client, self.table_name, map(key_item, hashes), self.clock, is_consistent=True)
        return {row.hash: row for row in map(KeyRow.from_item, items)}

    def started(self) -> set[str]:
        """Return the hashes of all keys with a started life (at most `MaxHotKeys`). Some of these lives may be over.

        This reads few items, whereas a scan would read every key ever requested.
        """
        return HotShards(self.table_name, self.client, self.clock).started()

    def append(
        self,
        hash_: str,
        key: str,
        requests: Iterable[RecordedRequest],
        *,
        etag: str,
        size_bytes: int,
        keep: int,
        within_us: int,
    ) -> KeyRow:
        """Append requests to the window and return the updated row, in one atomic write without a read.

        Args:
            hash_: Hash of the key.
            key: Key of the object.
            requests: Requests served by S3 or a reader's local cache.
            etag: ETag from S3.
            size_bytes: Size of the object, 0 if S3 did not send the size (a 304) [bytes].
            keep: Number of requests that the policy needs. The stored list is trimmed at a multiple of this number.
            within_us: Time for which a request counts toward making its key hot. The row is kept at least as long [us].
        """
        size = table.KNOWN_SIZE if size_bytes else table.SIZE_IF_NEW
        values = {
            ":key": key,
            ":etag": etag,
            ":size": size_bytes,
            ":expires": self._in_s(max(COLD_ROW_S, within_us // US_PER_S)),
            ":s3": "s3",
            ":none": [],
            ":added": [request.encode() for request in requests],
        }
        response = call_aws(
            self.client.update_item,
            TableName=self.table_name,
            Key=to_values(key_item(hash_)),
            UpdateExpression=table.APPEND_REQUEST.format(size=size),
            ExpressionAttributeNames={"#key": "key", "#window": "window"},
            ExpressionAttributeValues=to_values(values),
            ReturnValues="ALL_NEW",
        )
        columns = to_plain(response["Attributes"])
        row = KeyRow.from_item(columns)
        if len(columns["window"]) > keep * _TRIM_FACTOR:
            self._trim(hash_, columns["window"], [request.encode() for request in row.window[-keep:]])
        return row

    def learn(self, seen: KeyRow, use: bytes, newest: RecordedRequest, *, etag: str, size_bytes: int) -> KeyRow | None:
        """Compare-and-set a key's use and its latest request. Return None if the use has changed since `seen`."""
        values: dict[str, Any] = {
            ":key": seen.key,
            ":etag": etag,
            ":size": size_bytes,
            ":expires": self._in_s(SEEN_WITHIN_US // US_PER_S),
            ":s3": "s3",
            ":window": [newest.encode()],
            ":use": use,
        }
        if seen.use:
            values[":seen"] = seen.use
        response = write_if(
            self.client.update_item,
            TableName=self.table_name,
            Key=to_values(key_item(seen.hash)),
            UpdateExpression=table.LEARN_REQUEST,
            ConditionExpression=table.IS_KEY_USE_AS_SEEN if seen.use else table.IS_NEW_KEY_USE,
            ExpressionAttributeNames={"#key": "key", "#window": "window", "#use": "use"},
            ExpressionAttributeValues=to_values(values),
            ReturnValues="ALL_NEW",
        )
        return None if response is None else KeyRow.from_item(to_plain(response["Attributes"]))

    def update(
        self,
        hash_: str,
        *,
        epoch: int,
        set_: KeyColumns | None = None,
        remove: Collection[KeyColumn] = (),
        append_window: Iterable[RecordedRequest] = (),
        unless_held: bool = False,
        while_tier: Tier = "",
        while_held_by: str = "",
    ) -> KeyRow | None:
        """Update a life's row if the life is still current and its phase may precede the new one.

        A change of tier is also published to the digest.

        Args:
            hash_: Hash of the key.
            epoch: Epoch of the writer's life.
            set_: Columns and their new values.
            remove: Columns to remove.
            append_window: Requests to append to the window.
            unless_held: Also require that the key is not claimed by another cache invocation of this or a later
                attempt. A claim sets `holder` and `attempt`.
            while_tier: Also require that this tier serves the key. Empty: any tier, or none.
            while_held_by: Also require that this cache invocation holds the key. Empty: any holder, or none.

        Returns:
            The row after the write, or None if the condition did not hold.
        """
        columns: Mapping[str, Any] = {**(set_ or {}), **self.life_expiry()}
        names = {f"#{name}": name for name in (*columns, *remove)}
        values: dict[str, Any] = {":epoch": epoch} | {f":{name}": value for name, value in columns.items()}
        sets = [f"#{name} = :{name}" for name in columns]
        if appended := [request.encode() for request in append_window]:
            names["#window"], values[":none"], values[":added"] = "window", [], appended
            sets.append(table.EXTEND_WINDOW)
        removes = [f"#{name}" for name in remove]
        conditions = [table.IS_SAME_LIFE]
        if "phase" in columns:
            predecessors = {f":from_{phase}": phase for phase in KEY_PHASES_BEFORE[columns["phase"]]}
            conditions.append(f"#phase IN ({', '.join(predecessors)})")
            values |= predecessors
        else:
            conditions.append(table.IS_LIVE)
            values[":s3"] = "s3"
        if unless_held:
            conditions.append(table.IS_UNHELD)
        if while_tier:
            conditions.append(table.IS_SERVED_BY)
            names["#tier"], values[":served_by"] = "tier", while_tier
        if while_held_by:
            conditions.append(table.IS_HELD_BY)
            names["#holder"], values[":held_by"] = "holder", while_held_by
        response = write_if(
            self.client.update_item,
            TableName=self.table_name,
            Key=to_values(key_item(hash_)),
            UpdateExpression="SET " + ", ".join(sets) + (" REMOVE " + ", ".join(removes) if removes else ""),
            ConditionExpression=" AND ".join(conditions),
            ExpressionAttributeNames=names,
            ExpressionAttributeValues=to_values(values),
            ReturnValues="ALL_NEW",
        )
        if response is None:
            return None
        row = KeyRow.from_item(to_plain(response["Attributes"]))
        if "tier" in columns or "tier" in remove or (row.tier and "deadline_at_us" in columns):
            self._publish(row)
        return row

    def replace_holder(self, seen: KeyRow) -> bool:
        """Hand a key over to the next attempt of its cache function, while the key's node boots.

        Returns:
            False if the holder has been replaced since the row was read, or is no longer needed.
        """
        response = write_if(
            self.client.update_item,
            TableName=self.table_name,
            Key=to_values(key_item(seen.hash)),
            UpdateExpression=table.REPLACE_HOLDER,
            ConditionExpression=table.IS_HELD_IN_BOOTUP,
            ExpressionAttributeNames={"#attempt": "attempt", "#tier": "tier"},
            ExpressionAttributeValues=to_values(
                {
                    ":epoch": seen.epoch,
                    ":bootup": "redis_bootup",
                    ":lambda": "lambda",
                    ":attempt": seen.attempt,
                    ":next": seen.attempt + 1,
                    ":now": self.clock.now_us(),
                }
            ),
        )
        return response is not None

    def _publish(self, row: KeyRow) -> None:
        """Publish a key's tier to the digest. Readers do not need the digest, so a failure does not fail the life."""
        try:
            DigestTable(self.table_name, self.client).show_key(row)
        except ServiceError as error:
            logger().warning(
                "digest not updated; the janitor adds the key",
                reason=str(error),
                key=row.key,
                key_hash=row.hash,
            )

    def _trim(self, hash_: str, seen: list[str], newest: list[str]) -> None:
        """Trim the window, unless another writer has appended to it since. That writer will trim it."""
        write_if(
            self.client.update_item,
            TableName=self.table_name,
            Key=to_values(key_item(hash_)),
            UpdateExpression=table.REPLACE_WINDOW,
            ConditionExpression=table.IS_WINDOW_AS_SEEN,
            ExpressionAttributeNames={"#window": "window"},
            ExpressionAttributeValues=to_values({":newest": newest, ":seen": seen}),
        )

    def life_expiry(self) -> KeyColumns:
        """Return columns that retain the row for the longest possible life."""
        expires_at_s = self._in_s(LIFE_ROW_S)
        return KeyColumns(expires_at=expires_at_s, life_expires_at=expires_at_s)

    def _in_s(self, seconds: int) -> int:
        return self.clock.now_us() // US_PER_S + seconds
