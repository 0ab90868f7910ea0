"""Passwords are made once, are hard to guess, and go with the stack."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from moto import mock_aws

from custom_resources.passwords import delete_parameters, make_passwords

_NAMES = ["/stack/relay/1/proxy", "/stack/relay/1/cache"]


@pytest.fixture
def parameters() -> Iterator[Any]:
    with mock_aws():
        yield boto3.client("ssm", "eu-central-1", aws_access_key_id="test", aws_secret_access_key="test")


def passwords(parameters: Any) -> dict[str, str]:
    found = parameters.get_parameters_by_path(Path="/stack", Recursive=True, WithDecryption=True)["Parameters"]
    assert {parameter["Type"] for parameter in found} <= {"SecureString"}
    return {parameter["Name"]: parameter["Value"] for parameter in found}


def test_each_parameter_gets_a_password_of_its_own(parameters: Any) -> None:
    make_passwords(parameters, _NAMES)

    made = passwords(parameters)
    assert set(made) == set(_NAMES)
    assert len(set(made.values())) == len(_NAMES)
    assert all(re.fullmatch("[0-9a-f]{40}", password) for password in made.values())


def test_a_password_that_exists_is_kept(parameters: Any) -> None:
    make_passwords(parameters, _NAMES[:1])
    before = passwords(parameters)

    make_passwords(parameters, _NAMES)

    assert passwords(parameters).items() >= before.items()


def test_deleting_takes_what_there_is(parameters: Any) -> None:
    make_passwords(parameters, _NAMES[:1])

    delete_parameters(parameters, _NAMES)

    assert passwords(parameters) == {}
