"""Passwords in SecureString parameters, which cost nothing by the month and which CloudFormation cannot make."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any

_BYTES = 20  # of chance; as hex digits they need no quotes in any configuration file


def make_passwords(parameters: Any, names: Sequence[str]) -> None:
    """Put a new password into each parameter that does not exist; one that exists keeps its own.

    Args:
        parameters: A boto3 client of Systems Manager.
        names: The parameters.

    Raises:
        botocore.exceptions.ClientError: A parameter cannot be written.
    """
    for name in names:
        try:
            parameters.put_parameter(Name=name, Value=secrets.token_hex(_BYTES), Type="SecureString")
        except parameters.exceptions.ParameterAlreadyExists:  # Lambda may deliver CloudFormation's request twice
            continue


def delete_parameters(parameters: Any, names: Sequence[str]) -> None:
    """Delete parameters, whether or not they exist.

    Raises:
        botocore.exceptions.ClientError: Systems Manager refuses.
    """
    parameters.delete_parameters(Names=list(names))
