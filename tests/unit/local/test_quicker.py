"""moto's DynamoDB, quicker: a transaction that is refused."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError
from moto.dynamodb.models import Item, Table

from burstcache_local import speed
from support.aws import TABLE, clients, make_stack, mocked_aws


def _key(name: str) -> dict[str, Any]:
    return {"pk": {"S": name}, "sk": {"S": "s"}}


def test_a_refused_transaction_changes_nothing_and_copies_no_table(monkeypatch: pytest.MonkeyPatch) -> None:
    with mocked_aws():
        make_stack()
        dynamodb = clients().dynamodb
        before = [{**_key(name), "n": {"N": "1"}} for name in ("deleted", "replaced", "updated")]
        for item in before:
            dynamodb.put_item(TableName=TABLE, Item=item)
        add = {"UpdateExpression": "ADD n :one", "ExpressionAttributeValues": {":one": {"N": "1"}}}
        operations: dict[str, dict[str, dict[str, Any]]] = {
            "replaced": {"Put": {"Item": _key("replaced")}},
            "put": {"Put": {"Item": _key("put")}},
            "deleted": {"Delete": {"Key": _key("deleted")}},
            "updated": {"Update": {"Key": _key("updated"), **add}},
            "made": {"Update": {"Key": _key("made"), **add}},
            "refused": {"ConditionCheck": {"Key": _key("none"), "ConditionExpression": "attribute_exists(pk)"}},
        }
        items: list[Any] = [
            {name: {"TableName": TABLE, **operation} for name, operation in each.items()}
            for each in operations.values()
        ]
        monkeypatch.setattr(Table, "__deepcopy__", None, raising=False)

        with pytest.raises(ClientError, match=r"\[None, None, None, None, None, ConditionalCheckFailed\]"):
            dynamodb.transact_write_items(TransactItems=items)

        left = sorted(dynamodb.scan(TableName=TABLE)["Items"], key=lambda item: item["pk"]["S"])
        assert left == before


@pytest.mark.skipif(not speed.ENABLED, reason="moto itself scans the table")
def test_a_query_looks_at_the_items_of_its_key_alone_and_returns_them_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    with mocked_aws():
        make_stack()
        dynamodb = clients().dynamodb
        for name in "ab":
            for sort in "213":
                dynamodb.put_item(TableName=TABLE, Item={"pk": {"S": name}, "sk": {"S": sort}})
        looked_at: list[int] = []
        every = Table.all_items

        def counted(table: Table) -> list[Item]:
            found: list[Item] = every(table)
            looked_at.append(len(found))
            return found

        monkeypatch.setattr(Table, "all_items", counted)

        def query(name: str, **more: Any) -> list[str]:
            values = {":pk": {"S": name}}
            found = dynamodb.query(
                TableName=TABLE, KeyConditionExpression="pk = :pk", ExpressionAttributeValues=values, **more
            )
            return [item["sk"]["S"] for item in found["Items"]]

        assert query("a") == ["1", "2", "3"]
        assert query("b", ScanIndexForward=False, Limit=2) == ["3", "2"]
        assert query("c") == []
        assert looked_at == [3, 3, 0]
        assert len(dynamodb.scan(TableName=TABLE)["Items"]) == 6
