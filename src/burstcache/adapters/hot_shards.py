"""Shards of the set of started keys, and the room that they borrow from `MaxHotKeys`.

`HOT`/`HOT` is the bank. It counts the room that it has lent to shards. In a stack with few slots it holds the started
keys itself, as it did in every stack before there were shards. Each write that changes a shard's room changes the
bank's count in the same transaction, so the rooms and the bank's own keys never add up to more than `MaxHotKeys`.

A shard holds a key in 16 bytes, so it stays below 1 KB (one write unit) with up to 60 keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from burstcache.adapters.batches import read_items
from burstcache.adapters.calls import call_aws, write_if
from burstcache.adapters.clock import Clock
from burstcache.adapters.items import to_plain, to_values
from burstcache.adapters.transactions import transact_if
from burstcache.core import table
from burstcache.core.table import HOT_ITEM, ItemKey, hot_shard_item

if TYPE_CHECKING:
    from types_boto3_dynamodb.client import DynamoDBClient


@dataclass(frozen=True, slots=True)
class HotShard:
    """A shard as read."""

    number: int
    live: frozenset[str] = frozenset()  # hashes of started keys
    starts: int = 0
    room: int = 0  # borrowed from the bank
    most: int = 0  # `MaxHotKeys` at the last loan

    @property
    def free(self) -> int:
        """The room that no started key takes."""
        return max(0, self.room - len(self.live))


@dataclass(frozen=True, slots=True)
class HotBank:
    """The bank as read."""

    live: frozenset[str] = frozenset()
    starts: int = 0
    lent: int = 0
    shards: int = 0  # shards with a higher number have never borrowed

    def room(self, most: int) -> int:
        """Return the room for started keys of the bank's own, which is negative after `MaxHotKeys` was lowered."""
        return most - self.lent

    def free(self, most: int) -> int:
        """Return the room that is neither lent nor taken by a started key of the bank's own."""
        return self.room(most) - len(self.live)


@dataclass(frozen=True, slots=True)
class HotShards:
    """The rows of started keys. Every method raises ServiceError if DynamoDB fails."""

    table_name: str
    client: DynamoDBClient
    clock: Clock

    def read_bank(self) -> HotBank:
        """Return the bank (strongly consistent)."""
        item = self._read(HOT_ITEM)
        return HotBank(
            frozenset(item.get("live", ())), item.get("starts", 0), item.get("lent", 0), item.get("shards", 0)
        )

    def read_shard(self, number: int) -> HotShard:
        """Return a shard (strongly consistent). A shard that has never borrowed is empty."""
        return _shard(number, self._read(hot_shard_item(number)))

    def read_shards(self, bank: HotBank) -> list[HotShard]:
        """Return all shards that have ever borrowed (strongly consistent)."""
        numbers = {hot_shard_item(number)["sk"]: number for number in range(bank.shards)}
        item_keys = map(hot_shard_item, numbers.values())
        items = read_items(self.client, self.table_name, item_keys, self.clock, is_consistent=True)
        return [_shard(numbers[item["sk"]], item) for item in items]

    def started(self) -> set[str]:
        """Return the hashes of all keys with a started life. Some of these lives may be over."""
        bank = self.read_bank()
        return set(bank.live).union(*(shard.live for shard in self.read_shards(bank)))

    def lend(self, shard: HotShard, bank: HotBank, amount: int, *, most: int) -> HotShard | None:
        """Lend room to a shard. Return the shard, or None if the shard or the bank has changed.

        A loan of 0 confirms a shard's room after `MaxHotKeys` has changed.
        """
        lent = replace(shard, room=shard.room + amount, most=most)
        bank_after = replace(bank, lent=bank.lent + amount, shards=max(bank.shards, shard.number + 1))
        values = {":room": lent.room, ":most": most, ":seen_room": shard.room, ":seen_most": shard.most}
        update = self._update(
            hot_shard_item(shard.number),
            table.LEND,
            table.IS_SHARD_AS_SEEN if shard.most else table.IS_NEW_SHARD,
            values if shard.most else {":room": lent.room, ":most": most},
        )
        return lent if not transact_if(self.client, [update, self._bank(bank, bank_after, most)]) else None

    def reclaim(self, shard: HotShard, bank: HotBank, cold: AbstractSet[str]) -> HotBank | None:
        """Remove cold keys from a shard and return its free room. Return the bank, or None if either has changed."""
        room = len(shard.live - cold)
        after = replace(bank, lent=bank.lent - shard.room + room)
        values: dict[str, Any] = {":room": room, ":seen_room": shard.room, ":seen_most": shard.most}
        expression, condition = table.RECLAIM, table.IS_SHARD_AS_SEEN
        if shard.starts:
            condition, values[":seen"] = f"{condition} AND {table.HAS_NO_NEW_START}", shard.starts
        else:
            condition = f"{condition} AND {table.HAS_NO_START}"
        if cold:
            expression, values[":cold"] = f"{expression} {table.FORGET_STARTED}", _packed(cold)
        update = self._update(hot_shard_item(shard.number), expression, condition, values)
        return after if not transact_if(self.client, [update, self._bank(bank, after)]) else None

    def forget(self, bank: HotBank, cold: AbstractSet[str]) -> HotBank | None:
        """Remove cold keys from the bank. Return it, or None if a key, even a cold one, has been started meanwhile."""
        update = self._update(
            HOT_ITEM, table.FORGET_STARTED, table.HAS_NO_NEW_START, {":cold": set(cold), ":seen": bank.starts}
        )
        return None if write_if(self.client.update_item, **update) is None else replace(bank, live=bank.live - cold)

    def admission_to_bank(self, bank: HotBank, hash_: str, cold: AbstractSet[str], *, most: int) -> dict[str, Any]:
        """Return the update that adds a key to the bank, in place of cold keys if there are any."""
        lent = {":lent": bank.lent}
        if cold:
            values = {":rest": set(bank.live - cold | {hash_}), ":one": 1, ":seen": bank.starts, **lent}
            condition = f"{table.HAS_NO_NEW_START} AND {table.IS_LENT_AS_SEEN}"
            return self._update(HOT_ITEM, table.REPLACE_STARTED, condition, values)
        values = {":this": {hash_}, ":one": 1, ":hash": hash_, ":room": bank.room(most), **lent}
        return self._update(HOT_ITEM, table.COUNT_START, f"{table.IS_LENT_AS_SEEN} AND {table.HAS_ROOM}", values)

    def admission_to_shard(self, shard: HotShard, hash_: str, cold: AbstractSet[str], *, most: int) -> dict[str, Any]:
        """Return the update that adds a key to a shard, in place of cold keys if there are any."""
        item = hot_shard_item(shard.number)
        if cold:
            values = {":rest": _packed(shard.live - cold | {hash_}), ":one": 1, ":seen": shard.starts}
            values |= {":seen_room": shard.room, ":seen_most": most}
            condition = f"{table.HAS_NO_NEW_START} AND {table.IS_SHARD_AS_SEEN}"
            return self._update(item, table.REPLACE_STARTED, condition, values)
        packed = bytes.fromhex(hash_)
        values = {":this": {packed}, ":one": 1, ":hash": packed, ":most": most, ":none": 0}
        return self._update(item, table.COUNT_START, table.SHARD_HAS_ROOM, values)

    def _bank(self, seen: HotBank, after: HotBank, most: int | None = None) -> dict[str, Any]:
        """Return the update of the bank's count. With `most` the rooms must not exceed it."""
        values = {":lent": seen.lent, ":after": after.lent, ":shards": after.shards, ":seen_shards": seen.shards}
        condition = f"{table.IS_LENT_AS_SEEN} AND {table.HAS_SHARDS_AS_SEEN}"
        if most is not None:
            condition, values[":room"] = f"{condition} AND {table.HAS_ROOM_TO_LEND}", after.room(most)
        return self._update(HOT_ITEM, table.COUNT_LENT, condition, values)

    def _update(self, item: ItemKey, expression: str, condition: str, values: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "TableName": self.table_name,
            "Key": to_values(item),
            "UpdateExpression": expression,
            "ConditionExpression": condition,
            "ExpressionAttributeValues": to_values(values),
        }

    def _read(self, item: ItemKey) -> Mapping[str, Any]:
        key = to_values(item)
        response = call_aws(self.client.get_item, TableName=self.table_name, Key=key, ConsistentRead=True)
        return to_plain(response.get("Item", {}))


def _shard(number: int, item: Mapping[str, Any]) -> HotShard:
    live = frozenset(packed.hex() for packed in item.get("live", ()))
    return HotShard(number, live, item.get("starts", 0), item.get("room", 0), item.get("most", 0))


def _packed(hashes: AbstractSet[str]) -> set[bytes]:
    return {bytes.fromhex(hash_) for hash_ in hashes}
