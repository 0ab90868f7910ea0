"""Values of Secrets Manager secrets, read at first use and kept until a server refuses them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from burstcache.adapters.calls import ask

if TYPE_CHECKING:
    from types_boto3_secretsmanager.client import SecretsManagerClient


class Secrets:
    """The stack's secrets."""

    def __init__(self, client: SecretsManagerClient) -> None:
        self._client = client
        self._values: dict[str, dict[str, str]] = {}

    def read(self, arn: str) -> dict[str, str]:
        """Return the JSON object in the secret `arn`, for example {"password": "…"}.

        Raises:
            ServiceError: Secrets Manager does not give it; asking again is allowed.
            ValueError: The secret does not hold a JSON object.
        """
        if arn not in self._values:
            value = json.loads(ask(self._client.get_secret_value, SecretId=arn)["SecretString"])
            if not isinstance(value, dict):
                raise ValueError(f"secret {arn}: expected a JSON object, found {type(value).__name__}")
            self._values[arn] = value
        return self._values[arn]

    def forget(self) -> None:
        """Forget all secrets: a server refused one, so it may have been rotated."""
        self._values.clear()
