"""The pause of a stack: one item of the table, which is read where a life or a run of a node would start."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from burstcache.adapters.calls import ask, write_if
from burstcache.adapters.clock import Clock
from burstcache.adapters.items import to_plain, to_values
from burstcache.core import table
from burstcache.core.parameters import US_PER_S
from burstcache.core.rows import Pause
from burstcache.core.table import PAUSED_ITEM, PauseColumns

if TYPE_CHECKING:
    from types_boto3_dynamodb.client import DynamoDBClient

_PAUSED = to_values(PAUSED_ITEM)


@dataclass(frozen=True, slots=True)
class Pauses:
    """Reads and writes the pause. Every method raises ServiceError if DynamoDB fails."""

    table_name: str
    client: DynamoDBClient
    clock: Clock

    def read(self) -> Pause | None:
        """Return the pause that the stack is in now, or None: one read unit."""
        answer = ask(self.client.get_item, TableName=self.table_name, Key=_PAUSED, ConsistentRead=True)
        if "Item" not in answer:
            return None
        columns = cast(PauseColumns, to_plain(answer["Item"]))
        pause = Pause(columns["reason"], columns["since_us"], columns.get("until_us", 0))
        return None if 0 < pause.until_us <= self.clock.now_us() else pause

    def begin(self, reason: str) -> Pause:
        """Pause the stack, for a reason that people read, until one of them ends that."""
        pause = Pause(reason, self.clock.now_us())
        columns = PauseColumns(reason=reason, since_us=pause.since_us)
        ask(self.client.put_item, TableName=self.table_name, Item=to_values({**PAUSED_ITEM, **columns}))
        return pause

    def begin_until(self, until_us: int, reason: str) -> Pause | None:
        """Pause the stack until an instant [us]; None if it is paused until a person ends that, which stays so."""
        pause = Pause(reason, self.clock.now_us(), until_us)
        columns = PauseColumns(
            reason=reason, since_us=pause.since_us, until_us=until_us, expires_at=until_us // US_PER_S
        )
        written = write_if(
            self.client.put_item,
            TableName=self.table_name,
            Item=to_values({**PAUSED_ITEM, **columns}),
            ConditionExpression=table.IS_PAUSED_FOR_A_TIME_OR_NOT,
        )
        return None if written is None else pause

    def end(self) -> bool:
        """End the pause; False if there is none."""
        answer = ask(self.client.delete_item, TableName=self.table_name, Key=_PAUSED, ReturnValues="ALL_OLD")
        return "Attributes" in answer
