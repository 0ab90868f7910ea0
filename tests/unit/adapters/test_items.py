"""Items in DynamoDB's notation are what boto3 makes of the same values."""

from __future__ import annotations

from typing import Any

import pytest
from boto3.dynamodb.types import TypeDeserializer, TypeSerializer

from burstcache.adapters.items import to_plain, to_values

_VALUES = [0, -7, 10**37 + 1, "", "text", b"", b"\x00bytes", True, False, [], ["a", 1, b"b", ["c"]], {"one"}, {b"one"}]


@pytest.mark.parametrize("value", _VALUES, ids=repr)
def test_a_value_goes_as_boto3_would_write_it_and_comes_back_as_it_was(value: Any) -> None:
    written = to_values({"column": value})

    assert written == {"column": TypeSerializer().serialize(value)}
    assert to_plain(written) == {"column": value}
    assert TypeDeserializer().deserialize(written["column"]) == value


def test_a_tuple_goes_as_a_list_and_a_set_of_texts_in_any_order() -> None:
    written = to_values({"tuple": ("a", 1), "set": frozenset({"a", "b"})})

    assert to_plain(written) == {"tuple": ["a", 1], "set": {"a", "b"}}


@pytest.mark.parametrize("value", [None, 0.5, {"a": 1}, {1}, {b"a", "a"}, object])
def test_a_value_that_no_item_has_is_refused(value: object) -> None:
    with pytest.raises(TypeError, match="cannot be part of an item"):
        to_values({"column": value})


@pytest.mark.parametrize("value", [{"NULL": True}, {"M": {}}, {"NS": ["1"]}])
def test_an_item_of_others_is_refused(value: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="accepted: S, N, B, BOOL, L, SS"):
        to_plain({"column": value})
