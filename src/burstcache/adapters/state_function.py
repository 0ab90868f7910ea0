"""The state function as holders of databases call it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from burstcache.adapters.calls import ask
from burstcache.adapters.functions import payload_of
from burstcache.core import errors
from burstcache.core.errors import BurstcacheError, FunctionFailedError
from burstcache.core.messages.state import Acquire, DatabaseHeld, Keep, LetGo, StateOperation

if TYPE_CHECKING:
    from types_boto3_lambda.client import LambdaClient


@dataclass(frozen=True, slots=True)
class StateFunction:
    """One holder of one database. Every method raises ServiceError if the function cannot be called."""

    client: LambdaClient
    function_name: str
    database: str
    holder: str

    def acquire(self, for_s: int) -> DatabaseHeld:
        """Hold the database and have it wake up; raise what the function raises."""
        return self._ask(Acquire(op="acquire", database=self.database, holder=self.holder, for_s=for_s))

    def keep(self, for_s: int) -> DatabaseHeld:
        """Hold it for longer; raise what the function raises, LeaseLostError among it."""
        return self._ask(Keep(op="keep", database=self.database, holder=self.holder, for_s=for_s))

    def release(self) -> DatabaseHeld:
        """Hold it no longer."""
        return self._ask(LetGo(op="release", database=self.database, holder=self.holder))

    def _ask(self, operation: StateOperation) -> DatabaseHeld:
        answer = ask(self.client.invoke, FunctionName=self.function_name, Payload=json.dumps(operation).encode())
        returned = payload_of(answer)
        if "FunctionError" in answer:
            raise _named(returned.get("errorType", ""), str(returned.get("errorMessage", returned)))
        return cast(DatabaseHeld, returned)


def _named(name: str, message: str) -> BurstcacheError:
    """Return our error of that name, or FunctionFailedError for one that is not ours."""
    kind = getattr(errors, name, None)
    if isinstance(kind, type) and issubclass(kind, BurstcacheError):
        return kind(message)
    return FunctionFailedError(f"the state function failed: {name}: {message}")
