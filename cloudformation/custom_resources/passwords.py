"""Passwords in SecureString parameters, which are free of charge and which CloudFormation cannot create."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any

_BYTES = 20  # of randomness; hex digits need no quotes in any configuration file


def make_passwords(parameters: Any, names: Sequence[str]) -> None:
    """Put a new password into each parameter that does not exist, and leave existing ones unchanged.

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
