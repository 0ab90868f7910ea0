"""Results of an HTTP function of Google's Functions Framework, cached without a change of its code.

    echo "from burstcache.results.functions_framework import function" > cached_main.py
    export BURSTCACHE_HANDLER=main.thumbnail BURSTCACHE_RESULTS_FILE=results.json
    functions-framework --source cached_main.py --target function

`key` of the file is a JMESPath expression into the request's JSON, or into the fields of its query and form, of which a
repeated one is a list. Method and path decide as well. Answers to GET, HEAD and POST are kept, as HTTP's rules for a
shared cache allow (`burstcache.results.http_rules`); the author's `key` is what makes a POST one of them.

Source:
    Rosa 2022, section 4.2.1: a wrapper of the framework's functions that asks the cache before them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from flask import Request, Response, make_response, request

from burstcache.core.errors import InvalidSettingError
from burstcache.results.codecs import Codec, NotKeptError
from burstcache.results.decorator import cached, renew
from burstcache.results.expressions import compile_expression
from burstcache.results.function_results import FunctionResults
from burstcache.results.http_answers import Answer, AnswerRules
from burstcache.results.http_rules import Fields, join_fields, stated_age_s, wanted
from burstcache.results.keys import code_version, function_name
from burstcache.results.steps import run
from burstcache.results.wrapped_handler import find_function, read_options

# RFC 9111, 3.1, and what the server writes itself.
_OF_THE_CONNECTION = {
    "connection", "content-length", "keep-alive", "proxy-authenticate", "proxy-authentication-info",
    "proxy-authorization", "proxy-connection", "server", "te", "trailer", "transfer-encoding", "upgrade",
}  # fmt: skip
_KEPT_METHODS = {"GET", "HEAD", "POST"}
_SAFE_METHODS = {"GET", "HEAD", "OPTIONS", "TRACE"}
# Of these the function decides: conditions of a write, and parts, which are not kept.
_PASSED_ON = {"if-match", "if-unmodified-since", "if-range", "range"}
_CONDITIONS = {"if-none-match", "if-modified-since"}


def make_function() -> Callable[[Request], Response]:
    """Return the function that the environment names, with its answers cached.

    Raises:
        InvalidSettingError: A variable is missing, or the file or what it names is not accepted.
    """
    function, options = find_function(), read_options()
    if "codec" in options:
        raise InvalidSettingError(f"codec={options['codec']!r}: answers over HTTP have one of their own")
    search = compile_expression(options.pop("key"))
    options.setdefault("version", "/".join(code_version(function)))

    def answer(method: str, path: str, found: Any) -> Response:
        return make_response(function(request))

    answer.__module__, answer.__qualname__ = function_name(function).rsplit(".", 1)
    results = cached(codec=Codec("http", _encode, _decode), **options)(answer).results

    def serve(request: Request) -> Response:
        found = search(_fields(request))
        if found is None:
            return make_response(function(request))
        return _serve(request, results, found, lambda: make_response(function(request)))

    return serve


def _serve(request: Request, results: FunctionResults, found: Any, compute: Callable[[], Response]) -> Response:
    """Return the answer to a request whose key is found."""
    seen = HttpRequest(request)
    wants = wanted(seen.fields())
    cache, rules = results.cache, AnswerRules(results, seen)
    if request.method not in _KEPT_METHODS or not wants.may_be_kept or _PASSED_ON & seen.fields().keys():
        results.count("bypassed")
        answer = compute()
        if request.method not in _SAFE_METHODS and answer.status_code < 400:  # RFC 9111, 4.4
            for method in _KEPT_METHODS:
                results.forget(method, request.path, found)
        return answer
    key = str(results.key(request.method, request.path, found))
    kept = None
    if wants.may_be_found:
        kept = cache.recall(key, rules)
        if kept is None:
            kept, key = run(cache.search(key, rules))
    if kept is not None:
        age_s = kept.age_ms / 1000 + stated_age_s(join_fields(kept.opened.value.headers))
        if wants.accepts(age_s, (kept.entry.fresh_ms - kept.age_ms) / 1000):
            if kept.is_stale:
                renew(cache, key, rules, compute)
            return _of_age(results.answer(kept), int(age_s), request)
    if wants.only_if_cached:
        return Response(status=504)
    flow = cache.compute if wants.may_be_found and kept is None else cache.refresh
    return results.conclude(run(flow(key, rules), compute))  # type: ignore[no-any-return]


def _of_age(answer: Response, age_s: int, request: Request) -> Response:
    """Return a kept answer with its age, or without its body if the request's condition finds it unchanged."""
    answer.headers["Age"] = str(age_s)
    if answer.status_code == 200 and any(name in request.headers for name in _CONDITIONS):
        answer.make_conditional(request)
    return answer


class HttpRequest:
    """A request of Flask, to which answers are for one caller if it carries Authorization."""

    def __init__(self, request: Request) -> None:
        self._fields = join_fields(request.headers)
        self.is_authorized = "authorization" in self._fields

    def fields(self) -> Fields:
        """Return the request's fields."""
        return self._fields

    def answer(self, value: Response) -> Answer:
        """Return an answer as the rules see it."""
        return Answer(value.status_code, join_fields(value.headers))


def _fields(request: Request) -> Any:
    """Return what the request carries: its JSON, or its query and form, of which a repeated field is a list."""
    sent = request.get_json(silent=True)
    if sent is not None:
        return sent
    fields: dict[str, list[str]] = {}
    for part in (request.args, request.form):
        for name, values in part.lists():
            fields.setdefault(name, []).extend(values)
    return {name: values if len(values) > 1 else values[0] for name, values in fields.items()}


def _encode(response: Response) -> bytes:
    if response.is_streamed:
        raise NotKeptError("a streamed answer", "return its whole body")
    headers, body = response.headers, response.get_data()
    if headers.get("Content-Length", str(len(body))) != str(len(body)):
        raise NotKeptError("Content-Length is not the body's")
    left_out = _OF_THE_CONNECTION | {name.strip().lower() for name in headers.get("Connection", "").split(",")}
    kept = [pair for pair in headers if pair[0].lower() not in left_out]
    return json.dumps([response.status_code, kept]).encode() + b"\n" + body


def _decode(payload: bytes) -> Response:
    line, _, body = payload.partition(b"\n")
    status, headers = json.loads(line)
    return Response(body, status, headers)


def __getattr__(name: str) -> Any:
    """Make `function` when the framework asks for it."""
    if name != "function":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = make_function()
    return globals()[name]
