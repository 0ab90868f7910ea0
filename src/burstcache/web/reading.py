"""Reading: parsing and validation of GET and HEAD requests. Invalid requests never reach a tier."""

from __future__ import annotations

from collections.abc import Sequence

from burstcache.core.errors import RefusedRequestError
from burstcache.core.keys import key_hash
from burstcache.web.front_door import Arrival
from burstcache.web.headers import is_safe
from burstcache.web.keys import requested_key
from burstcache.web.methods import READS, check_method
from burstcache.web.prefixes import check_prefix
from burstcache.web.ranges import parse_range
from burstcache.web.request import Request

_PASSED_ON = ("if-match", "if-none-match", "if-modified-since", "if-unmodified-since", "if-range", "range")


def read_request(
    arrival: Arrival,
    *,
    request_id: str,
    at_us: int,
    prefixes: Sequence[str] = (),
    allowed: Sequence[str] = READS,
) -> Request:
    """Parse and validate a read request.

    Args:
        arrival: The request as the front door sent it.
        request_id: The request's id, which makes its reports idempotent.
        at_us: Time of its arrival [us since 1970].
        prefixes: Patterns of the key prefixes that a token's claims permit. Empty: all keys are permitted.
        allowed: Methods supported by all functions behind the front door together.

    Raises:
        RefusedRequestError: 400, 403, 404 or 405. The message names the accepted values.
    """
    key = requested_key(arrival.path, arrival.query)
    if prefixes:
        check_prefix(key, prefixes, arrival.claims)
    check_method(arrival.method, READS, allowed=allowed)
    for name in _PASSED_ON:
        if not is_safe(arrival.headers.get(name, "")):
            raise RefusedRequestError(400, "MalformedHeader", f"{name}: only printable ASCII is accepted")
    return Request(
        method=arrival.method,
        key=key,
        hash=key_hash(key),
        headers=arrival.headers,
        range=parse_range(arrival.headers.get("range", "").strip()),
        request_id=request_id,
        at_us=at_us,
    )
