"""moto's DynamoDB with its repair, in one process."""

from __future__ import annotations

import functools
import threading
from typing import Any

import pytest
from moto.dynamodb.models.dynamo_type import Item

from support.aws import TABLE, clients, make_stack, mocked_aws

KEY = {"pk": {"S": "p"}, "sk": {"S": "s"}}
_SOON_S = 0.05  # a write that need not wait takes a millisecond


def test_an_item_is_not_changed_before_the_answer_with_it_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    with mocked_aws():
        make_stack()
        put = functools.partial(clients().dynamodb.put_item, TableName=TABLE)
        put(Item={**KEY, "n": {"N": "1"}})
        write = threading.Thread(target=put, kwargs={"Item": {**KEY, "n": {"N": "2"}}})
        describe = Item.describe_attrs

        def describe_during_a_write(item: Item, *args: Any, **kwargs: Any) -> Any:
            write.start()
            write.join(_SOON_S)
            assert write.is_alive()
            return describe(item, *args, **kwargs)

        monkeypatch.setattr(Item, "describe_attrs", describe_during_a_write)

        found = clients().dynamodb.get_item(TableName=TABLE, Key=KEY)["Item"]

        write.join()
        assert found["n"] == {"N": "1"}
