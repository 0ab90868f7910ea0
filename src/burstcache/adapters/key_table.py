"""The rows of keys. Every conditional write names its precondition; if it fails, another writer was first."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from burstcache.adapters.batches import read_items
from burstcache.adapters.calls import ask, write_if
from burstcache.adapters.clock import Clock
from burstcache.adapters.digest_table import DigestTable
from burstcache.adapters.items import COLD_ROW_S, LIFE_ROW_S, to_plain, to_values
from burstcache.core import table
from burstcache.core.errors import ServiceError
from burstcache.core.parameters import US_PER_S
from burstcache.core.phases import KEY_PHASES_BEFORE, Tier
from burstcache.core.policy import Request
from burstcache.core.rows import KeyRow
from burstcache.core.seen import SEEN_WITHIN_US
from burstcache.core.table import HOT_ITEM, HotColumns, KeyColumn, KeyColumns, key_item
from burstcache.logs import logger

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
        key = to_values(key_item(hash_))
        answer = ask(self.client.get_item, TableName=self.table_name, Key=key, ConsistentRead=True)
        return KeyRow.from_item(to_plain(answer["Item"])) if "Item" in answer else None

    def read_many(self, hashes: Iterable[str]) -> dict[str, KeyRow]:
        """Return the rows that exist, by hash, as they are now."""
        items = read_items(self.client, self.table_name, map(key_item, hashes), self.clock, is_consistent=True)
        return {row.hash: row for row in map(KeyRow.from_item, items)}

    def started(self) -> set[str]:
        """Return the hashes of all keys that may have a life, as of now: no more than `MaxHotKeys`, and some have none.

        One item, where a scan would read every key that was ever asked for.
        """
        answer = ask(self.client.get_item, TableName=self.table_name, Key=to_values(HOT_ITEM), ConsistentRead=True)
        return set(cast(HotColumns, to_plain(answer.get("Item", {}))).get("live", set()))

    def append(
        self,
        hash_: str,
        key: str,
        requests: Iterable[Request],
        *,
        etag: str,
        size_bytes: int,
        keep: int,
        within_us: int,
    ) -> KeyRow:
        """Add requests to the window and return the row as it is then: one write, no read, no race.

        Args:
            hash_: The key's hash.
            key: The object's key.
            requests: What S3, or a reader's memory, served.
            etag: The object's ETag as S3 gave it.
            size_bytes: The object's size, 0 if S3 did not give it (a 304) [bytes].
            keep: How many requests the policy needs; the stored list is cut back when it is several times as long.
            within_us: How long they may make the key hot: its row stays at least so long [us].
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
        answer = ask(
            self.client.update_item,
            TableName=self.table_name,
            Key=to_values(key_item(hash_)),
            UpdateExpression=table.APPEND_REQUEST.format(size=size),
            ExpressionAttributeNames={"#key": "key", "#window": "window"},
            ExpressionAttributeValues=to_values(values),
            ReturnValues="ALL_NEW",
        )
        columns = to_plain(answer["Attributes"])
        row = KeyRow.from_item(columns)
        if len(columns["window"]) > keep * _TRIM_FACTOR:
            self._trim(hash_, columns["window"], [request.encode() for request in row.window[-keep:]])
        return row

    def learn(self, seen: KeyRow, use: bytes, newest: Request, *, etag: str, size_bytes: int) -> KeyRow | None:
        """Write the use of a key with its newest request; None if the use has changed since it was seen."""
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
        answer = write_if(
            self.client.update_item,
            TableName=self.table_name,
            Key=to_values(key_item(seen.hash)),
            UpdateExpression=table.LEARN_REQUEST,
            ConditionExpression=table.IS_KEY_USE_AS_SEEN if seen.use else table.IS_NEW_KEY_USE,
            ExpressionAttributeNames={"#key": "key", "#window": "window", "#use": "use"},
            ExpressionAttributeValues=to_values(values),
            ReturnValues="ALL_NEW",
        )
        return None if answer is None else KeyRow.from_item(to_plain(answer["Attributes"]))

    def update(
        self,
        hash_: str,
        *,
        epoch: int,
        set_: KeyColumns | None = None,
        remove: Collection[KeyColumn] = (),
        append_window: Iterable[Request] = (),
        unless_held: bool = False,
        while_tier: Tier = "",
        while_held_by: str = "",
    ) -> KeyRow | None:
        """Change the row of a life if it is still that life, in a phase that may come before the new one.

        Where the key is served from then is shown in the digest, too.

        Args:
            hash_: The key's hash.
            epoch: The life that the writer belongs to.
            set_: Columns and their new values.
            remove: Columns to delete.
            append_window: Requests to add to the window.
            unless_held: Also require that no other cache invocation of this attempt or a later one has announced
                itself: the announce is the claim, and sets `holder` and `attempt`.
            while_tier: Also require that this tier serves the key; empty: any, or none.
            while_held_by: Also require that this cache invocation holds the key; empty: any, or none.

        Returns:
            The row after the write; None if the condition did not hold.
        """
        columns: Mapping[str, Any] = {**(set_ or {}), **self.life_expiry()}
        names = {f"#{name}": name for name in (*columns, *remove)}
        values: dict[str, Any] = {":epoch": epoch} | {f":{name}": value for name, value in columns.items()}
        sets = [f"#{name} = :{name}" for name in columns]
        if added := [request.encode() for request in append_window]:
            names["#window"], values[":none"], values[":added"] = "window", [], added
            sets.append(table.EXTEND_WINDOW)
        removes = [f"#{name}" for name in remove]
        conditions = [table.IS_SAME_LIFE]
        if "phase" in columns:
            before = {f":from_{phase}": phase for phase in KEY_PHASES_BEFORE[columns["phase"]]}
            conditions.append(f"#phase IN ({', '.join(before)})")
            values |= before
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
        answer = write_if(
            self.client.update_item,
            TableName=self.table_name,
            Key=to_values(key_item(hash_)),
            UpdateExpression="SET " + ", ".join(sets) + (" REMOVE " + ", ".join(removes) if removes else ""),
            ConditionExpression=" AND ".join(conditions),
            ExpressionAttributeNames=names,
            ExpressionAttributeValues=to_values(values),
            ReturnValues="ALL_NEW",
        )
        if answer is None:
            return None
        row = KeyRow.from_item(to_plain(answer["Attributes"]))
        if "tier" in columns or "tier" in remove or (row.tier and "deadline_at_us" in columns):
            self._show(row)
        return row

    def replace_holder(self, seen: KeyRow) -> bool:
        """Leave a key that waits for its node to the next attempt of its cache function.

        Returns:
            False if its holder has been replaced since the row was seen, or is no longer asked for.
        """
        answer = write_if(
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
        return answer is not None

    def _show(self, row: KeyRow) -> None:
        """Show in the digest where a key is served from. Readers can do without, so a failure is none of the life."""
        try:
            DigestTable(self.table_name, self.client).show_key(row)
        except ServiceError as error:
            logger().warning(
                "the digest does not follow; the janitor adds the key",
                reason=str(error),
                key=row.key,
                key_hash=row.hash,
            )

    def _trim(self, hash_: str, seen: list[str], newest: list[str]) -> None:
        """Cut the window back, unless another writer has appended meanwhile; that one trims in turn."""
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
        """Return the columns that keep the row for as long as a life may need it."""
        expires_at_s = self._in_s(LIFE_ROW_S)
        return KeyColumns(expires_at=expires_at_s, life_expires_at=expires_at_s)

    def _in_s(self, seconds: int) -> int:
        return self.clock.now_us() // US_PER_S + seconds
