"""Hot keys: a life starts in one transaction over the key's row and the set of hot keys.

The transaction never lets the set exceed `MaxHotKeys`. The row `HOT`/`HOT` is the set of started keys. The end of a
life leaves the set unchanged, since the final state writes only one item. Once the set is full, the next start removes
keys that have gone cold.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast

from burstcache.adapters.calls import call_aws, write_if
from burstcache.adapters.clock import Clock
from burstcache.adapters.items import to_plain, to_values
from burstcache.adapters.key_table import KeyTable
from burstcache.core import table
from burstcache.core.errors import ContendedRowTransientError, ServiceError
from burstcache.core.rows import KeyRow
from burstcache.core.table import HOT_ITEM, HotColumns, KeyColumns, key_item

if TYPE_CHECKING:
    from types_boto3_dynamodb.client import DynamoDBClient

Admission = Literal["started", "lost", "full"]

_ATTEMPTS = 8
_FULL_FOR_S = 5.0
_HOT = to_values(HOT_ITEM)


@dataclass(slots=True)
class HotKeys:
    """Admission of keys to a life, at most `max_hot_keys` at a time."""

    keys: KeyTable
    max_hot_keys: int
    client: DynamoDBClient
    clock: Clock
    chance: Callable[[], float] = random.random  # from 0 to 1, for jitter between attempts after a collision
    _full_of: AbstractSet[str] = frozenset()  # hot hashes when the set was last full
    _full_at_s: float = float("-inf")  # time when the set was last full

    def start(self, life: KeyRow, *, former_epoch: int, now_us: int, take_over: bool = False) -> Admission:
        """Write the first row of a life if the key is cold and the set has room.

        Args:
            life: Row to write. The window in the table is kept.
            former_epoch: Epoch as last read. 0: the key had no life.
            now_us: Current time. A row whose deadline has passed is cold [us].
            take_over: Whether the previous life is known to be dead, although its deadline has not passed.

        Returns:
            `started`, `lost` (another scheduler has started the key) or `full` (`max_hot_keys` keys are hot).

        Raises:
            ContendedRowTransientError: Every attempt collided with other writers.
        """
        for attempt in range(_ATTEMPTS):
            outcome = self._try_start(life, former_epoch, now_us, take_over)
            if outcome == "full" and not self._sweep(now_us):
                return "full"
            if outcome in ("started", "lost"):
                return outcome
            self.clock.sleep(self.chance() * 0.01 * 2**attempt)  # back off after a collision with another start
        raise ContendedRowTransientError(f"{life.key!r} could not be admitted in {_ATTEMPTS} attempts")

    def _try_start(
        self, life: KeyRow, former_epoch: int, now_us: int, take_over: bool
    ) -> Literal["started", "lost", "full", "collided"]:
        updates: list[Any] = [
            {"Update": _first_row(self.keys, life, former_epoch, now_us, take_over)},
            {"Update": _admission(self.keys.table_name, life.hash, self.max_hot_keys)},
        ]
        try:
            call_aws(self.client.transact_write_items, TransactItems=updates)
        except ServiceError as error:
            if error.code != "TransactionCanceledException":
                raise
            row_reason, hot_reason = error.reasons
            if row_reason == "ConditionalCheckFailed":
                return "lost"
            return "full" if hot_reason == "ConditionalCheckFailed" else "collided"
        return "started"

    def is_full_for(self, hash_: str) -> bool:
        """Return True if the set was full recently. This saves an attempt, since DynamoDB bills failed attempts."""
        is_recent = self.clock.monotonic_s() - self._full_at_s < _FULL_FOR_S
        return is_recent and hash_ not in self._full_of

    def live(self, now_us: int) -> frozenset[str]:
        """Return the hashes of the keys that are hot at this time, excluding started keys that have gone cold."""
        started = self._read().get("live", set())
        rows = self.keys.read_many(started)
        return frozenset(hash_ for hash_, row in rows.items() if row.is_live(now_us))

    def _read(self) -> HotColumns:
        response = call_aws(self.client.get_item, TableName=self.keys.table_name, Key=_HOT, ConsistentRead=True)
        return cast(HotColumns, to_plain(response.get("Item", {})))

    def _sweep(self, now_us: int) -> bool:
        """Remove cold keys from the full set. Return True if it may have room now."""
        hot = self._read()
        started = hot.get("live", set())
        rows = self.keys.read_many(started)
        cold = {hash_ for hash_ in started if hash_ not in rows or not rows[hash_].is_live(now_us)}
        if not cold:
            self._full_of, self._full_at_s = started, self.clock.monotonic_s()
            return False
        write_if(  # fails if any key, even a cold one, has been started meanwhile. The next attempt reads again
            self.client.update_item,
            TableName=self.keys.table_name,
            Key=_HOT,
            UpdateExpression=table.FORGET_STARTED,
            ConditionExpression=table.HAS_NO_NEW_START,
            ExpressionAttributeValues=to_values({":cold": cold, ":seen": hot["starts"]}),
        )
        return True


def _first_row(keys: KeyTable, life: KeyRow, former_epoch: int, now_us: int, take_over: bool) -> dict[str, Any]:
    columns: Mapping[str, Any] = keys.life_expiry() | KeyColumns(
        phase=life.phase,
        epoch=life.epoch,
        entry=life.entry,
        node=life.node,
        trigger=life.trigger.encode() if life.trigger else "",
        changed_at_us=life.changed_at_us,
        deadline_at_us=life.deadline_at_us,
        failures=life.failures,
    )
    values = {f":{name}": value for name, value in columns.items()} | {":former": former_epoch}
    condition = table.IS_FORMER_LIFE if former_epoch else table.HAD_NO_LIFE
    if not take_over:
        condition += f" AND {table.IS_COLD}"
        values |= {":s3": "s3", ":now": now_us}
    return {
        "TableName": keys.table_name,
        "Key": to_values(key_item(life.hash)),
        "UpdateExpression": (
            "SET "
            + ", ".join(f"#{name} = :{name}" for name in columns)
            + " REMOVE "
            + ", ".join(f"#{name}" for name in table.REMOVED_AT_START)
        ),
        "ConditionExpression": condition,
        "ExpressionAttributeNames": {f"#{name}": name for name in (*columns, *table.REMOVED_AT_START)},
        "ExpressionAttributeValues": to_values(values),
    }


def _admission(table_name: str, hash_: str, max_hot_keys: int) -> dict[str, Any]:
    return {
        "TableName": table_name,
        "Key": _HOT,
        "UpdateExpression": table.COUNT_START,
        "ConditionExpression": table.HAS_ROOM,
        "ExpressionAttributeValues": to_values({":this": {hash_}, ":one": 1, ":hash": hash_, ":most": max_hot_keys}),
    }
