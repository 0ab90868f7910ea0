"""The Lambda tier: the cache function that holds the object, asked over the relay."""

from __future__ import annotations

import json
from dataclasses import dataclass

from burstcache.adapters.relay import RelayRequests
from burstcache.core.errors import KeyFailedError, SilentHolderError
from burstcache.web.entry import Entry, decode
from burstcache.web.request import Request

_TIMEOUT_S = 1.0


@dataclass(frozen=True, slots=True)
class LambdaTier:
    """All cache functions of the stack; the relay knows which one holds a key."""

    relay: RelayRequests
    timeout_s: float = _TIMEOUT_S  # how long a cache function may take to answer

    def fetch(self, request: Request) -> Entry | None:
        """Return the object, or None if no cache function holds it (yet, or any longer).

        Raises:
            KeyFailedError: The cache function that holds it does not answer.
            RelayDownError: The relay does not answer.
            ValueError: The answer is not an entry.
        """
        payload = {"at_us": request.at_us, "request_id": request.request_id, "method": request.method}
        try:
            answer = self.relay.request(f"get.{request.hash}", json.dumps(payload).encode(), timeout_s=self.timeout_s)
        except SilentHolderError as error:
            raise KeyFailedError(str(error)) from error
        return None if answer is None else decode(answer)
