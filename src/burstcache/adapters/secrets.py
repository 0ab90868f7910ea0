"""The stack's secrets: SecureString parameters in Systems Manager, read on first use and cached until rejected."""

from __future__ import annotations

from typing import TYPE_CHECKING

from burstcache.adapters.calls import call_aws

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
            ServiceError: Systems Manager does not return the parameter. Failures are not cached.
        """
        if name not in self._values:
            response = call_aws(self._client.get_parameter, Name=name, WithDecryption=True)
            self._values[name] = response["Parameter"]["Value"]
        return self._values[name]

    def forget(self) -> None:
        """Clear the cache after a server has rejected a secret, which may have been rotated."""
        self._values.clear()
