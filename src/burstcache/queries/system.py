"""The system that a query asks about."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from burstcache.adapters.clock import Clock
from burstcache.adapters.key_scan import scan_keys
from burstcache.adapters.key_table import KeyTable
from burstcache.adapters.node_table import NodeTable
from burstcache.adapters.pauses import Pauses
from burstcache.adapters.pool_table import PoolTable
from burstcache.adapters.use_table import UseTable
from burstcache.core.rows import KeyRow, SeenKey
from burstcache.core.seen import is_repeat
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
        node_names: All Redis nodes that are deployed, in the order of the template.
        dynamodb: A client of DynamoDB.
        states: A client of Step Functions.
        clock: What expired rows are judged by.
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
        """The uses of nodes that take guests, and the keys that they were asked for."""
        return UseTable(self.table_name, self.dynamodb, self.clock)

    @cached_property
    def pool(self) -> PoolTable:
        """The rows of the pool."""
        return PoolTable(self.table_name, self.dynamodb)

    @cached_property
    def pauses(self) -> Pauses:
        """The pause."""
        return Pauses(self.table_name, self.dynamodb, self.clock)

    def key_rows(self) -> list[KeyRow]:
        """Return the rows of all keys: a scan of the table.

        A key that a node takes as a guest may have none: what the table has of it is returned as one.
        """
        rows, seen = dict[str, KeyRow](), list[SeenKey]()
        for found in scan_keys(self.table_name, self.dynamodb):
            if isinstance(found, KeyRow):
                rows[found.hash] = found
            else:
                seen.append(found)
        return list(self._with_seen(rows, seen).values())

    def key_rows_of(self, hashes: Collection[str]) -> dict[str, KeyRow]:
        """Return what `key_rows` has of some keys, by hash."""
        rows = self.keys.read_many(hashes)
        missing = [hash_ for hash_ in hashes if hash_ not in rows]
        seen = (key for node in self.node_names for key in self.uses.seen(node, missing).values())
        return self._with_seen(rows, seen)

    def _with_seen(self, rows: dict[str, KeyRow], seen: Iterable[SeenKey]) -> dict[str, KeyRow]:
        """Return rows together with those of keys that have none and were seen within the last day."""
        now_us = self.clock.now_us()
        lately = [key for key in seen if key.hash not in rows and is_repeat(key.seen_at_us, now_us)]
        newest_last = sorted(lately, key=lambda key: key.seen_at_us)  # a key has another home once there are more nodes
        return rows | {key.hash: key.row for key in newest_last}

    def key_history(self, execution_name: str) -> History:
        """Return the history of one life of a key."""
        return History.of(self.states, self.key_machine_arn, execution_name)

    def node_history(self, execution_name: str) -> History:
        """Return the history of one part of a node's run."""
        return History.of(self.states, self.node_machine_arn, execution_name)
