"""Secrets of the stack, SecureString parameters of Systems Manager: read at first use and kept until refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

from burstcache.adapters.calls import ask

if TYPE_CHECKING:
    from types_boto3_ssm.client import SSMClient


class Secrets:
    """The stack's secrets."""

    def __init__(self, client: SSMClient) -> None:
        self._client = client
        self._values: dict[str, str] = {}

    def read(self, name: str) -> str:
        """Return the value of the parameter `name`.

        Raises:
            ServiceError: Systems Manager does not give it; asking again is allowed.
        """
        if name not in self._values:
            answer = ask(self._client.get_parameter, Name=name, WithDecryption=True)
            self._values[name] = answer["Parameter"]["Value"]
        return self._values[name]

    def forget(self) -> None:
        """Forget all secrets: a server refused one, so it may have been replaced."""
        self._values.clear()
