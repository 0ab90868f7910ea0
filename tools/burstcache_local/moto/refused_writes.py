"""Writes that DynamoDB refuses and moto accepts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from functools import wraps
from typing import Any

from burstcache_local.moto.registry import repair

_DIGITS, _SMALLEST, _LARGEST = 38, -130, 125  # significant digits and powers of ten of a number
_BATCH = 25
_SETS = ("SS", "NS", "BS")


@repair
def impossible_writes_are_refused() -> None:
    """Refuse numbers out of range, sets with duplicates, and batches that repeat a key or are too long.

    moto accepts them, so code that makes them would pass every test and fail on AWS.
    """
    from moto.dynamodb.responses import DynamoHandler

    for name, check in (
        ("put_item", _check_values),
        ("update_item", _check_values),
        ("transact_write_items", _check_values),
        ("batch_write_item", _check_batch),
    ):
        setattr(DynamoHandler, name, _checked(getattr(DynamoHandler, name), check))


def _checked(answer: Any, check: Any) -> Any:
    @wraps(answer)
    def checked(self: Any) -> Any:
        check(self)
        return answer(self)

    return checked


def _check_batch(handler: Any) -> None:
    _check_values(handler)
    tables = handler.body["RequestItems"]
    if sum(map(len, tables.values())) > _BATCH:
        raise _validation_error("Too many items requested for the BatchWriteItem call")
    for name, requests in tables.items():
        key = handler.dynamodb_backend.get_table(name).attribute_keys
        parts = [
            each["PutRequest"]["Item"] if "PutRequest" in each else each["DeleteRequest"]["Key"] for each in requests
        ]
        if len({json.dumps([part.get(each) for each in key], default=repr) for part in parts}) < len(parts):
            raise _validation_error("Provided list of item keys contains duplicates")


def _check_values(handler: Any) -> None:
    for message in _problems(handler.body):
        raise _validation_error(message)


def _problems(value: Any) -> Iterator[str]:
    """Yield what is wrong with the values anywhere in a request."""
    if isinstance(value, list):
        for part in value:
            yield from _problems(part)
    if not isinstance(value, dict):
        return
    for name, part in value.items():
        if name == "N" and isinstance(part, str):
            yield from _number_problems(part)
        elif name in _SETS and isinstance(part, list):
            if name == "NS":
                for number in part:
                    yield from _number_problems(number)
            if len(set(part)) < len(part):
                yield f"One or more parameter values were invalid: Input collection {part} contains duplicates."
        elif isinstance(part, dict | list):
            yield from _problems(part)


def _number_problems(text: str) -> Iterator[str]:
    if len(text) <= _DIGITS and text.isdecimal():
        return
    try:
        number = Decimal(text)
    except InvalidOperation:
        yield f"The parameter cannot be converted to a numeric value: {text}"
        return
    if not number.is_finite():
        yield f"The parameter cannot be converted to a numeric value: {text}"
    elif len("".join(map(str, number.as_tuple().digits)).strip("0")) > _DIGITS:
        yield "Attempting to store more than 38 significant digits in a Number"
    elif number and number.adjusted() > _LARGEST:
        yield "Number overflow. Attempting to store a number with magnitude larger than supported range"
    elif number and number.adjusted() < _SMALLEST:
        yield "Number underflow. Attempting to store a number with magnitude smaller than supported range"


def _validation_error(message: str) -> Exception:
    from moto.dynamodb.exceptions import MockValidationException

    error: Exception = MockValidationException(message)
    return error
