"""The system that queries read from: its names and clients."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from burstcache.adapters.clock import Clock
from burstcache.adapters.key_scan import scan_keys
from burstcache.adapters.key_table import KeyTable
from burstcache.adapters.node_table import NodeTable
from burstcache.adapters.pause_switch import PauseSwitch
from burstcache.adapters.pool_table import PoolTable
from burstcache.adapters.use_table import UseTable
from burstcache.core.recency import is_repeat
from burstcache.core.rows import KeyRow, SeenKey
from burstcache.queries.history import History

if TYPE_CHECKING:
    from types_boto3_dynamodb.client import DynamoDBClient
    from types_boto3_stepfunctions.client import SFNClient


@dataclass(frozen=True)
class System:
    """A deployed or local system: its names, and the clients that reach it.

    Attributes:
        table_name: The DynamoDB table.
        key_machine_arn: The state machine of the keys' lives.
        node_machine_arn: The state machine of the nodes' runs.
        node_names: All deployed Redis nodes, in the order of the template.
        dynamodb: A DynamoDB client.
        states: A Step Functions client.
        clock: The clock by which rows expire.
    """

    table_name: str
    key_machine_arn: str
    node_machine_arn: str
    node_names: tuple[str, ...]
    dynamodb: DynamoDBClient
    states: SFNClient
    clock: Clock

    @cached_property
    def keys(self) -> KeyTable:
        """The rows of keys."""
        return KeyTable(self.table_name, self.dynamodb, self.clock)

    @cached_property
    def nodes(self) -> NodeTable:
        """The rows of nodes."""
        return NodeTable(self.table_name, self.dynamodb, self.clock)

    @cached_property
    def uses(self) -> UseTable:
        """The uses of nodes with read-through entries, and the keys seen there."""
        return UseTable(self.table_name, self.dynamodb, self.clock)

    @cached_property
    def pool(self) -> PoolTable:
        """The rows of the pool."""
        return PoolTable(self.table_name, self.dynamodb)

    @cached_property
    def pauses(self) -> PauseSwitch:
        """The pause switch."""
        return PauseSwitch(self.table_name, self.dynamodb, self.clock)

    def key_rows(self) -> list[KeyRow]:
        """Scan the table, and return the rows of all keys.

        The key of a read-through entry may have no row. Its row is then built from the record of its last request.
        """
        rows, seen = dict[str, KeyRow](), list[SeenKey]()
        for item in scan_keys(self.table_name, self.dynamodb):
            if isinstance(item, KeyRow):
                rows[item.hash] = item
            else:
                seen.append(item)
        return list(self._with_seen(rows, seen).values())

    def key_rows_of(self, hashes: Collection[str]) -> dict[str, KeyRow]:
        """Return the rows of the given keys by hash, built as in `key_rows`."""
        rows = self.keys.read_many(hashes)
        missing = [hash_ for hash_ in hashes if hash_ not in rows]
        seen = (key for node in self.node_names for key in self.uses.seen(node, missing).values())
        return self._with_seen(rows, seen)

    def _with_seen(self, rows: dict[str, KeyRow], seen: Iterable[SeenKey]) -> dict[str, KeyRow]:
        """Add rows for keys that have none but were requested within the last day."""
        now_us = self.clock.now_us()
        recent = [key for key in seen if key.hash not in rows and is_repeat(key.seen_at_us, now_us)]
        newest_last = sorted(recent, key=lambda key: key.seen_at_us)  # a previous home node may have a record, too
        return rows | {key.hash: key.row for key in newest_last}

    def key_history(self, execution_name: str, *, with_data: bool = False) -> History:
        """Return the history of one life of a key."""
        return History.of(self.states, self.key_machine_arn, execution_name, with_data=with_data)

    def node_history(self, execution_name: str) -> History:
        """Return the history of one part of a node's run."""
        return History.of(self.states, self.node_machine_arn, execution_name)
