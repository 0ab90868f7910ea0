"""Values of Secrets Manager secrets, read at first use and kept for the life of the execution environment."""

from __future__ import annotations

import json
from functools import cache

from burstcache.adapters.quick_clients import quick_client


@cache
def secret(arn: str) -> dict[str, str]:
    """Return the JSON object in the secret `arn`, for example {"password": "…"}.

    Raises:
        botocore.exceptions.ClientError, BotoCoreError: Secrets Manager does not give it; asking again is allowed.
        ValueError: The secret does not hold a JSON object.
    """
    value = json.loads(quick_client("secretsmanager").get_secret_value(SecretId=arn)["SecretString"])
    if not isinstance(value, dict):
        raise ValueError(f"secret {arn}: expected a JSON object, found {type(value).__name__}")
    return value


def forget_secrets() -> None:
    """Read every secret anew at its next use: a server refused what we knew, so it may have been rotated."""
    secret.cache_clear()
