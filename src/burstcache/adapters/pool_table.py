"""The pool's rows in the table: one partition, read by one query."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Unpack

from burstcache.adapters.calls import call_aws, translated_errors, write_if
from burstcache.adapters.items import to_plain, to_values
from burstcache.core import table
from burstcache.core.parameters import US_PER_S
from burstcache.core.pool.retention import (
    HubStatus,
    MemberStatus,
    PoolChoice,
    PoolState,
    PoolTotals,
    ReclaimHistory,
    decode_members,
    decode_reclaims,
    encode_choice,
    encode_members,
    encode_reclaims,
    encode_totals,
)
from burstcache.core.table import (
    POOL_MEMBERS_ITEM,
    POOL_STATE_ITEM,
    PoolHubColumns,
    PoolMembersColumns,
    PoolStateColumns,
    hub_item,
)

if TYPE_CHECKING:
    from types_boto3_dynamodb.client import DynamoDBClient

_HUB_ROW_S = 24 * 3600  # a dead hub's row is kept until a round has counted its totals, for at most this long


@dataclass(frozen=True, slots=True)
class PoolRows:
    """The pool's state: its execution, members, reclaims and hubs."""

    state: PoolState = field(default_factory=PoolState)
    members: Mapping[str, MemberStatus] = field(default_factory=dict)
    reclaims: ReclaimHistory = field(default_factory=ReclaimHistory)
    hubs: tuple[HubStatus, ...] = ()

    def live_hubs(self, now_us: int) -> list[HubStatus]:
        """Return the hubs that still report, latest report first."""
        live = [hub for hub in self.hubs if hub.address["host"] and hub.is_live(now_us)]
        return sorted(live, key=lambda hub: -hub.reported_at_us)


@dataclass(frozen=True, slots=True)
class PoolTable:
    """Rows of the pool. Every method raises ServiceError if DynamoDB fails."""

    table_name: str
    client: DynamoDBClient

    def read(self) -> PoolRows:
        """Return all rows (strongly consistent)."""
        pages = self.client.get_paginator("query").paginate(
            TableName=self.table_name,
            KeyConditionExpression=table.ALL_OF_POOL,
            ExpressionAttributeValues=to_values({":pk": table.POOL_PARTITION}),
            ConsistentRead=True,
        )
        with translated_errors():
            items = {item["sk"]: item for page in pages for item in map(to_plain, page["Items"])}
        state, members = items.pop(POOL_STATE_ITEM["sk"], None), items.pop(POOL_MEMBERS_ITEM["sk"], None)
        return PoolRows(
            PoolState.from_item(state) if state else PoolState(),
            decode_members(members["members"]) if members else {},
            decode_reclaims(members["reclaims"]) if members else ReclaimHistory(),
            tuple(HubStatus.from_item(item) for item in items.values()),
        )

    def check_permissions(self) -> None:
        """Verify permissions with a read, and a conditional write with a condition that never holds."""
        self.read()
        self._update(PoolStateColumns(warmed_at_us=0), table.NEVER)

    def put_hub(self, hub: HubStatus, now_us: int) -> None:
        """Write a hub's row."""
        call_aws(self.client.put_item, TableName=self.table_name, Item=self._hub_item(hub, now_us))

    def count_hub(self, hub: HubStatus, now_us: int) -> bool:
        """Mark a hub's totals as counted. Return False if the hub has reported since."""
        response = write_if(
            self.client.put_item,
            TableName=self.table_name,
            Item=self._hub_item(replace(hub, counted=hub.totals, control=(0, 0)), now_us),
            ConditionExpression=table.IS_HUB_AS_SEEN,
            ExpressionAttributeValues=to_values({":seen": hub.reported_at_us}),
        )
        return response is not None

    @staticmethod
    def _hub_item(hub: HubStatus, now_us: int) -> Any:
        columns = PoolHubColumns(
            host=hub.address["host"],
            port=hub.address["port"],
            token=hub.address["token"],
            certificate=hub.address["certificate"],
            takes_readers=hub.takes_readers,
            reported_at_us=hub.reported_at_us,
            used_at_us=hub.used_at_us,
            totals=json.dumps(hub.totals),
            used=json.dumps(hub.used),
            counted=json.dumps(hub.counted),
            control_requests=hub.control[0],
            control_ms=hub.control[1],
            expires_at=now_us // US_PER_S + _HUB_ROW_S,
        )
        return to_values({**hub_item(hub.address["id"]), **columns})

    def drop_hub(self, hub: HubStatus) -> None:
        """Delete a hub's row, unless the hub has reported since."""
        write_if(
            self.client.delete_item,
            TableName=self.table_name,
            Key=to_values(hub_item(hub.address["id"])),
            ConditionExpression=table.IS_HUB_AS_SEEN,
            ExpressionAttributeValues=to_values({":seen": hub.reported_at_us}),
        )

    def change(self, seen: PoolState, **changes: Unpack[PoolStateColumns]) -> PoolState | None:
        """Compare-and-set the state. Return None if its execution or deadline has changed since `seen`."""
        values: dict[str, Any] = {}
        if seen.generation:
            values = {
                ":seen_generation": seen.generation,
                ":seen_part": seen.part,
                ":seen_deadline": seen.deadline_at_us,
            }
        return self._update(changes, table.IS_POOL_AS_SEEN if seen.generation else table.IS_POOL_NEW, values)

    def put_first_choice(self, choice: PoolChoice) -> PoolChoice:
        """Write the choice if none is stored. Return the stored choice."""
        changes = PoolStateColumns(choice=encode_choice(choice))
        if self._update(changes, table.HAS_NO_CHOICE) is None:
            return self.read().state.choice or choice
        return choice

    def put_reader(self, at_us: int) -> None:
        """Record the time of the latest read by a reader that needs a remote hub."""
        self._update(PoolStateColumns(reader_at_us=at_us))

    def claim_round(self, seen: PoolState, now_us: int) -> bool:
        """Claim the next round. Return False if another round has begun since `seen`."""
        condition = table.IS_ROUND_AS_SEEN if seen.warmed_at_us else table.IS_FIRST_ROUND
        values = {":seen_warmed": seen.warmed_at_us} if seen.warmed_at_us else {}
        return self._update(PoolStateColumns(warmed_at_us=now_us), condition, values) is not None

    def finish_round(
        self, members: Mapping[str, MemberStatus], reclaims: ReclaimHistory, choice: PoolChoice, totals: PoolTotals
    ) -> None:
        """Write the results of a round: members, reclaims, choice and totals."""
        columns = PoolMembersColumns(members=encode_members(members), reclaims=encode_reclaims(reclaims))
        call_aws(self.client.put_item, TableName=self.table_name, Item=to_values({**POOL_MEMBERS_ITEM, **columns}))
        self._update(PoolStateColumns(choice=encode_choice(choice), totals=encode_totals(totals)))

    def _update(
        self, changes: PoolStateColumns, condition: str = "", values: Mapping[str, Any] | None = None
    ) -> PoolState | None:
        names = {f"#{name}": name for name in changes}
        if "#part" in condition:
            names["#part"] = "part"
        response = write_if(
            self.client.update_item,
            TableName=self.table_name,
            Key=to_values(POOL_STATE_ITEM),
            UpdateExpression=table.SET_COLUMNS.format(", ".join(f"#{name} = :{name}" for name in changes)),
            ExpressionAttributeNames=names,
            ExpressionAttributeValues=to_values(
                {f":{name}": value for name, value in changes.items()} | dict(values or {})
            ),
            ReturnValues="ALL_NEW",
            **({"ConditionExpression": condition} if condition else {}),  # type: ignore[arg-type]
        )
        return PoolState.from_item(to_plain(response["Attributes"])) if response else None
