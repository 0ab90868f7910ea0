"""From an arrival to a read: every refusal of a request happens here, before any tier is asked."""

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
    """Return the read that a request asks for.

    Args:
        arrival: What the front door handed over.
        request_id: Identifies the request, so that a repeated report of it counts once.
        at_us: When it arrived [us since 1970].
        prefixes: Patterns of the prefixes that the claims of a token give a right to; none: every key may be named.
        allowed: Methods that the front door takes of objects, this or another function of it.

    Raises:
        RefusedRequestError: 400, 403, 404 or 405, with what is accepted.
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
