"""Client of the state function, for database holders."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from burstcache.adapters.calls import call_aws
from burstcache.adapters.functions import read_payload
from burstcache.core import errors
from burstcache.core.errors import BurstcacheError, FunctionFailedError
from burstcache.core.messages.state import Acquire, DatabaseHeld, Keep, Look, ReleaseLease, StateOperation

if TYPE_CHECKING:
    from types_boto3_lambda.client import LambdaClient


@dataclass(frozen=True, slots=True)
class StateFunction:
    """A client for one holder of a database, which `look` does not need.

    Every method raises ServiceError if the function is unreachable.
    """

    client: LambdaClient
    function_name: str
    database: str
    holder: str

    def acquire(self, for_s: int) -> DatabaseHeld:
        """Acquire the lease and start the database. Errors in the function propagate."""
        return self._invoke(Acquire(op="acquire", database=self.database, holder=self.holder, for_s=for_s))

    def renew(self, for_s: int) -> DatabaseHeld:
        """Renew the lease. Errors in the function propagate, such as LeaseLostError."""
        return self._invoke(Keep(op="keep", database=self.database, holder=self.holder, for_s=for_s))

    def release(self) -> DatabaseHeld:
        """Release the lease."""
        return self._invoke(ReleaseLease(op="release", database=self.database, holder=self.holder))

    def look(self) -> DatabaseHeld:
        """Return the database's phase and address, without a lease."""
        return self._invoke(Look(op="look", database=self.database))

    def _invoke(self, operation: StateOperation) -> DatabaseHeld:
        payload = json.dumps(operation).encode()
        response = call_aws(self.client.invoke, FunctionName=self.function_name, Payload=payload)
        result = read_payload(response)
        if "FunctionError" in response:
            raise _error_named(result.get("errorType", ""), str(result.get("errorMessage", result)))
        return cast(DatabaseHeld, result)


def _error_named(name: str, message: str) -> BurstcacheError:
    """Return the Burstcache error with this class name, or FunctionFailedError for any other name."""
    kind = getattr(errors, name, None)
    if isinstance(kind, type) and issubclass(kind, BurstcacheError):
        return kind(message)
    return FunctionFailedError(f"the state function failed: {name}: {message}")
