"""HTTP responses as results of web frameworks, and of handlers behind API Gateway, a load balancer or a function URL.

A response is cached if HTTP allows it in a shared cache, for at most the function's `ttl_s`. A response that varies by
request fields (Vary) is served only to requests with equal fields. The first variant is stored at the result's key,
and other variants at keys derived from that key and the fields.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

from burstcache.adapters.clock import Instant
from burstcache.results.cache import Decoded
from burstcache.results.codecs import NotKeptError
from burstcache.results.entries import ANY, ResultEntry
from burstcache.results.function_results import FunctionResults
from burstcache.results.http_rules import Fields, join_fields, life_of_answer, may_be_shared, variant, varying

_VARIANT_LENGTH = 32
_HEADERS = ("headers", "multiValueHeaders")


class Answer(NamedTuple):
    """Status and header fields of an HTTP response."""

    status: int
    fields: Fields


class RequestAdapter(Protocol):
    """Adapter for a framework's requests and responses."""

    is_authorized: bool  # whether responses are private to one caller unless they state otherwise

    def fields(self) -> Fields:
        """Return the request's header fields."""
        ...

    def answer(self, value: Any) -> Answer | None:
        """Return a result as an HTTP response, or None if it is not one."""
        ...


class AnswerRules:
    """Rules for one call that may return an HTTP response."""

    def __init__(self, results: FunctionResults, request: RequestAdapter) -> None:
        self.packing, self.wait_s = results.packing, results.wait_s
        self.encode_error = results.encode_error
        self._results = results
        self._request = request
        self._other = ""  # key suffix of this request's variant

    def encode(self, value: Any, made: Instant) -> ResultEntry | None:
        """Return the entry of a result, or None if it is not cacheable."""
        results = self._results
        if (answer := self._request.answer(value)) is None:
            return results.encode(value, made)
        try:
            life = life_of_answer(*answer, ttl_s=results.ttl_s, stale_s=results.stale_s, now_s=made.at_us / 1e6)
            if self._request.is_authorized and not may_be_shared(answer.fields):
                raise NotKeptError(
                    "Authorization in the request", "mark an answer for all callers by `Cache-Control: public`"
                )
        except NotKeptError as why:
            results.not_kept(why)
            return None
        own_variant = variant(varying(answer.fields), self._request.fields())
        if own_variant != ANY:
            own_variant += os.urandom(4).hex()  # random, so that a new response invalidates variants at derived keys
        return results.encode_for(value, made, fresh_s=life.fresh_s, stale_s=life.stale_s, variant=own_variant)

    def decode(self, entry: ResultEntry) -> Decoded | None:
        """Return an entry's result, or None if it does not match this request."""
        decoded = self._results.decode(entry)
        if decoded is None or entry.variant == ANY or (answer := self._request.answer(decoded.value)) is None:
            return decoded
        own_variant = variant(varying(answer.fields), self._request.fields())
        if own_variant == entry.variant[:_VARIANT_LENGTH]:
            return decoded
        self._other = own_variant + entry.variant[_VARIANT_LENGTH:]
        return None

    def other_key(self, key: str) -> str | None:
        """Return the key of this request's variant if the last decoded entry was another variant, or None."""
        other, self._other = self._other, ""
        return f"{key}:{other}" if other else None


class EventRequest:
    """The event of an HTTP request in a Lambda handler.

    A client's Authorization and Cache-Control are ignored, since the function's author chooses `key` and clients must
    not be able to force computations. Request fields listed in a response's Vary are respected.
    """

    is_authorized = False

    def __init__(self, event: Any) -> None:
        self._event = event

    def fields(self) -> Fields:
        """Return the request's header fields. HTTP APIs and function URLs pass cookies separately."""
        pairs = list(_pairs(self._event))
        if isinstance(self._event, dict) and isinstance(cookies := self._event.get("cookies"), list):
            pairs.append(("cookie", "; ".join(map(str, cookies))))
        return join_fields(pairs)

    def answer(self, value: Any) -> Answer | None:
        """Return a dictionary with a status code as an HTTP response, or None for any other result."""
        if not isinstance(value, dict) or value.get("statusCode") is None:
            return None
        pairs = list(_pairs(value))
        if value.get("cookies"):
            pairs.append(("set-cookie", ""))
        return Answer(_status(value["statusCode"]), join_fields(pairs))


def _status(stated: Any) -> int:
    """Return a status code, or 0 if it is invalid. A gateway then sends its own error, so the result is not cached."""
    try:
        status = int(stated)
    except (TypeError, ValueError, OverflowError):
        return 0
    return status if 100 <= status < 600 else 0


def _pairs(message: Any) -> Iterator[tuple[str, str]]:
    """Yield the header fields of an event or a response. `multiValueHeaders` contains fields with several values."""
    if not isinstance(message, dict):
        return
    single, multiple = ({} if not isinstance(each := message.get(name), dict) else each for name in _HEADERS)
    lines = [
        (str(name), str(value))
        for name, values in multiple.items()
        for value in (values if isinstance(values, list) else [values])
    ]
    repeated = {(name.lower(), value) for name, value in lines}
    yield from (
        (str(name), str(value)) for name, value in single.items() if (str(name).lower(), str(value)) not in repeated
    )
    yield from lines
