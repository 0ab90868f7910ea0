"""HTTP answers as results: of handlers behind API Gateway, a load balancer or a function URL, and of web frameworks.

An answer is kept and served as HTTP's rules for a shared cache allow, for the function's `ttl_s` at most. One that
depends on fields of the request (Vary) is served to requests that agree in them. The first is kept under the result's
key, others under keys made of that key and of those fields.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

from burstcache.adapters.clock import Instant
from burstcache.results.cache import Opened
from burstcache.results.codecs import NotKeptError
from burstcache.results.entries import ANY, Entry
from burstcache.results.function_results import FunctionResults
from burstcache.results.http_rules import Fields, join_fields, life_of_answer, may_be_shared, variant, varying

_VARIANT_LENGTH = 32
_HEADERS = ("headers", "multiValueHeaders")


class Answer(NamedTuple):
    """An HTTP answer as the rules see it."""

    status: int
    fields: Fields


class Request(Protocol):
    """A request, and how answers to it are seen."""

    is_authorized: bool  # whether answers to it are for one caller, unless they say otherwise

    def fields(self) -> Fields:
        """Return the request's fields."""
        ...

    def answer(self, value: Any) -> Answer | None:
        """Return a result as an HTTP answer, or None if it is something else."""
        ...


class AnswerRules:
    """Rules of one call whose result may be an HTTP answer."""

    def __init__(self, results: FunctionResults, request: Request) -> None:
        self.packing, self.wait_s = results.packing, results.wait_s
        self.encode_error = results.encode_error
        self._results = results
        self._request = request
        self._other = ""  # what is behind the key of an answer to requests like this one

    def encode(self, value: Any, made: Instant) -> Entry | None:
        """Return the entry of a result; None if it is not to be kept."""
        results = self._results
        if (answer := self._request.answer(value)) is None:
            return results.encode(value, made)
        try:
            life = life_of_answer(*answer, ttl_s=results.ttl_s, stale_s=results.stale_s, now_s=made.at_us / 1e6)
            if self._request.is_authorized and not may_be_shared(answer.fields):
                raise NotKeptError(
                    "Authorization in the request", "an answer for all callers says so by `Cache-Control: public`"
                )
        except NotKeptError as why:
            results.not_kept(why)
            return None
        found = variant(varying(answer.fields), self._request.fields())
        if found != ANY:
            found += os.urandom(4).hex()  # so that a new answer under the key ends those under keys made of it
        return results.encode_for(value, made, fresh_s=life.fresh_s, stale_s=life.stale_s, variant=found)

    def open(self, entry: Entry) -> Opened | None:
        """Return what an entry says, or None if it is no answer to this request."""
        opened = self._results.open(entry)
        if opened is None or entry.variant == ANY or (answer := self._request.answer(opened.value)) is None:
            return opened
        mine = variant(varying(answer.fields), self._request.fields())
        if mine == entry.variant[:_VARIANT_LENGTH]:
            return opened
        self._other = mine + entry.variant[_VARIANT_LENGTH:]
        return None

    def other_key(self, key: str) -> str | None:
        """Return the key of answers to requests like this one, if that of an answer to others was found."""
        other, self._other = self._other, ""
        return f"{key}:{other}" if other else None


class EventRequest:
    """The event of an HTTP request, as Lambda's handlers get it.

    A client's Authorization and Cache-Control decide nothing here: by `key` the function's author has said what does,
    and a client must not be able to have answers computed anew. Fields that an answer's Vary names do decide.
    """

    is_authorized = False

    def __init__(self, event: Any) -> None:
        self._event = event

    def fields(self) -> Fields:
        """Return the request's fields; an HTTP API and a function URL give cookies apart from the headers."""
        pairs = list(_pairs(self._event))
        if isinstance(self._event, dict) and isinstance(cookies := self._event.get("cookies"), list):
            pairs.append(("cookie", "; ".join(map(str, cookies))))
        return join_fields(pairs)

    def answer(self, value: Any) -> Answer | None:
        """Return a result as an HTTP answer: a dictionary with a status code."""
        if not isinstance(value, dict) or value.get("statusCode") is None:
            return None
        pairs = list(_pairs(value))
        if value.get("cookies"):
            pairs.append(("set-cookie", ""))
        return Answer(_status(value["statusCode"]), join_fields(pairs))


def _status(stated: Any) -> int:
    """Return a status code; 0 if it is none: then a gateway answers with an error of its own, which is not kept."""
    try:
        status = int(stated)
    except (TypeError, ValueError, OverflowError):
        return 0
    return status if 100 <= status < 600 else 0


def _pairs(message: Any) -> Iterator[tuple[str, str]]:
    """Yield the fields of an event or an answer; a name that has several values has them in `multiValueHeaders`."""
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
