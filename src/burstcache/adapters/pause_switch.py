"""A stack's pause switch: one item, read before each start of a life or of a node's run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from burstcache.adapters.calls import call_aws, write_if
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
class PauseSwitch:
    """A stack's pause. Every method raises ServiceError if DynamoDB fails."""

    table_name: str
    client: DynamoDBClient
    clock: Clock

    def read(self) -> Pause | None:
        """Return the current pause, or None. The call costs one read unit."""
        response = call_aws(self.client.get_item, TableName=self.table_name, Key=_PAUSED, ConsistentRead=True)
        if "Item" not in response:
            return None
        columns = cast(PauseColumns, to_plain(response["Item"]))
        pause = Pause(columns["reason"], columns["since_us"], columns.get("until_us", 0))
        return None if 0 < pause.until_us <= self.clock.now_us() else pause

    def begin(self, reason: str) -> Pause:
        """Pause the stack until an operator ends the pause. The reason is shown to users."""
        pause = Pause(reason, self.clock.now_us())
        columns = PauseColumns(reason=reason, since_us=pause.since_us)
        call_aws(self.client.put_item, TableName=self.table_name, Item=to_values({**PAUSED_ITEM, **columns}))
        return pause

    def begin_until(self, until_us: int, reason: str) -> Pause | None:
        """Pause the stack until a given time [us]. Return None, without a change, if an operator has paused it."""
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
        """End the pause. Return False if there is none."""
        response = call_aws(self.client.delete_item, TableName=self.table_name, Key=_PAUSED, ReturnValues="ALL_OLD")
        return "Attributes" in response
