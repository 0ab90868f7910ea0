"""Hot keys: a life starts in one transaction over the key's row and a shard of the set of started keys.

The transaction never lets the set exceed `MaxHotKeys`. The end of a life leaves the set unchanged, since the final
state writes only one item. A start that finds its shard full replaces keys that have gone cold. Only if there are none,
the shard borrows more room, in small loans, so shards stay small whatever `MaxHotKeys` is. Once all room is lent,
shards return what they do not use. A start is thus refused only if `MaxHotKeys` keys are hot in all shards together.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from burstcache.adapters.clock import Clock, back_off
from burstcache.adapters.hot_shards import HotBank, HotShards
from burstcache.adapters.items import to_values
from burstcache.adapters.key_table import KeyTable
from burstcache.adapters.transactions import UNMET, transact_if
from burstcache.core import table
from burstcache.core.errors import ContendedRowTransientError
from burstcache.core.rows import KeyRow
from burstcache.core.table import KeyColumns, key_item

if TYPE_CHECKING:
    from types_boto3_dynamodb.client import DynamoDBClient

Admission = Literal["started", "lost", "full"]

_ATTEMPTS = 8
_FULL_FOR_S = 5.0
_MOST_IN_BANK = 28  # keys in an item below 1 KB. A stack with so few slots has no shards
_KEYS_PER_SHARD = 32  # on average if all slots are taken; 60 fit into 1 KB
_LOAN = 8  # slots

# The write that admits a key; `full`; or None if other writers have changed the rows or the start made room itself.
_Way = dict[str, Any] | Literal["full"] | None


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
            ServiceError: DynamoDB refused the start for another reason, which is the error's `code`.
        """
        first_row = _first_row(self.keys, life, former_epoch, now_us, take_over)
        for attempt in range(_ATTEMPTS):
            way = self._way_into_bank(life.hash, now_us) if self._has_no_shards else self._way_in(life.hash, now_us)
            if way == "full":
                return "full"
            if way is not None:
                reasons = transact_if(self.client, [first_row, way])
                if not reasons:
                    return "started"
                if reasons[0] == UNMET:
                    return "lost"
            back_off(self.clock, attempt, self.chance)
        raise ContendedRowTransientError(f"{life.key!r} could not be admitted in {_ATTEMPTS} attempts")

    def is_full_for(self, hash_: str) -> bool:
        """Return True if the set was full recently. This saves an attempt, since DynamoDB bills failed attempts."""
        is_recent = self.clock.monotonic_s() - self._full_at_s < _FULL_FOR_S
        return is_recent and hash_ not in self._full_of

    def live(self, now_us: int) -> frozenset[str]:
        """Return the hashes of the keys that are hot at this time, excluding started keys that have gone cold."""
        started = self._shards.started()
        return frozenset(started - self._cold(started, now_us))

    @property
    def _shards(self) -> HotShards:
        return HotShards(self.keys.table_name, self.client, self.clock)

    @property
    def _has_no_shards(self) -> bool:
        return self.max_hot_keys <= _MOST_IN_BANK

    def _way_into_bank(self, hash_: str, now_us: int) -> _Way:
        """Return the way of a key into a set of few slots, which is the bank itself."""
        bank = self._shards.read_bank()
        cold: AbstractSet[str] = frozenset()
        if hash_ not in bank.live and bank.free(self.max_hot_keys) <= 0:
            cold = self._cold(bank.live, now_us)
            if bank.free(self.max_hot_keys) + len(cold) <= 0:  # or shards have borrowed when there were more slots
                drained = self._drained(bank, cold)
                return None if drained is None else self._recalled(drained, now_us)
        return self._shards.admission_to_bank(bank, hash_, cold, most=self.max_hot_keys)

    def _way_in(self, hash_: str, now_us: int) -> _Way:
        """Return the way of a key into its shard, which may borrow for it."""
        shards, most = self._shards, self.max_hot_keys
        shard = shards.read_shard(_shard_of(hash_, most))
        needs_room, cold = hash_ not in shard.live and not shard.free, frozenset[str]()
        if needs_room:
            cold = self._cold(shard.live, now_us)
        borrows = needs_room and len(cold) < _LOAN // 2  # with fewer slots the next sweep would follow too soon
        if borrows or shard.most != most:
            read = shards.read_bank()
            bank = self._drained(read, self._cold(read.live, now_us))
            if bank is None:
                return None
            free = bank.free(most)
            if free > 0 or (free == 0 and not borrows):
                lent = shards.lend(shard, bank, min(free, _LOAN) if borrows else 0, most=most)
                if lent is None:
                    return None
                shard = lent
            elif shard.most != most or not cold:
                return self._recalled(bank, now_us)
        return shards.admission_to_shard(shard, hash_, cold, most=most)

    def _drained(self, bank: HotBank, cold: frozenset[str]) -> HotBank | None:
        """Return the bank without its cold keys, or None if it has changed. A bank that lends takes no new keys."""
        return self._shards.forget(bank, cold) if cold else bank

    def _recalled(self, bank: HotBank, now_us: int) -> _Way:
        """Reclaim unused room from shards, then the room of cold keys. Return `full` if there is neither."""
        shards, most = self._shards, self.max_hot_keys
        found = shards.read_shards(bank)
        started = bank.live.union(*(shard.live for shard in found))
        for shard in sorted(found, key=lambda shard: shard.free, reverse=True):
            if bank.free(most) <= 0 and shard.free:
                if (after := shards.reclaim(shard, bank, frozenset())) is None:
                    return None
                bank = after
        if bank.free(most) > 0:
            return None
        cold = self._cold(started - bank.live, now_us)
        for shard in found:
            if bank.free(most) <= 0 and cold & shard.live:
                shard = replace(shard, room=len(shard.live))
                if (after := shards.reclaim(shard, bank, cold & shard.live)) is None:
                    return None
                bank = after
        if bank.free(most) > 0:
            return None
        self._full_of, self._full_at_s = started, self.clock.monotonic_s()
        return "full"

    def _cold(self, started: AbstractSet[str], now_us: int) -> frozenset[str]:
        rows = self.keys.read_many(started)
        return frozenset(hash_ for hash_ in started if hash_ not in rows or not rows[hash_].is_live(now_us))


def _shard_of(hash_: str, most: int) -> int:
    """Return the number of a key's shard. It changes with `MaxHotKeys`."""
    return int(hash_[-8:], 16) % -(-most // _KEYS_PER_SHARD)


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
