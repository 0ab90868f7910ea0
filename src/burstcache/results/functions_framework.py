"""Functions Framework adapter: caches the responses of an unmodified HTTP function of Google's framework.

    echo "from burstcache.results.functions_framework import function" > cached_main.py
    export BURSTCACHE_HANDLER=main.thumbnail BURSTCACHE_RESULTS_FILE=results.json
    functions-framework --source cached_main.py --target function

`key` in the file is a JMESPath expression over the request's JSON body, or over its query and form fields. A repeated
field is a list. Method and path are part of the key. Responses to GET, HEAD and POST are cached if HTTP allows it in a
shared cache (`burstcache.results.http_rules`). Responses to POST are cached because the author has chosen a `key`.

Source:
    Rosa 2022, section 4.2.1: a wrapper that reads the cache before it calls the framework's function.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from flask import Request, Response, make_response, request

from burstcache.core.errors import InvalidSettingError
from burstcache.results.codecs import Codec, NotKeptError
from burstcache.results.decorator import cached, revalidate
from burstcache.results.expressions import compile_expression
from burstcache.results.function_results import FunctionResults
from burstcache.results.http_answers import Answer, AnswerRules
from burstcache.results.http_rules import Fields, join_fields, request_directives, stated_age_s
from burstcache.results.keys import CACHED_METHODS, code_version, function_name
from burstcache.results.steps import run
from burstcache.results.wrapped_handler import find_function, read_options

# Fields that are not stored, because RFC 9111, 3.1, excludes them or the server sets them itself.
_CONNECTION_FIELDS = {
    "connection", "content-length", "keep-alive", "proxy-authenticate", "proxy-authentication-info",
    "proxy-authorization", "proxy-connection", "server", "te", "trailer", "transfer-encoding", "upgrade",
}  # fmt: skip
_SAFE_METHODS = {"GET", "HEAD", "OPTIONS", "TRACE"}
# Requests with these fields bypass the cache: conditional writes and range requests (partial responses are not cached).
_PASSED_ON = {"if-match", "if-unmodified-since", "if-range", "range"}
_CONDITIONS = {"if-none-match", "if-modified-since"}


def make_function() -> Callable[[Request], Response]:
    """Return the function named in environment variables, with its responses cached.

    Raises:
        InvalidSettingError: A variable is missing, or the file or one of its values is invalid.
    """
    function, options = find_function(), read_options()
    if "codec" in options:
        raise InvalidSettingError(f"codec={options['codec']!r}: HTTP answers have their own codec")
    search = compile_expression(options.pop("key"))
    options.setdefault("version", "/".join(code_version(function)))

    def answer(method: str, path: str, key: Any) -> Response:
        return make_response(function(request))

    answer.__module__, answer.__qualname__ = function_name(function).rsplit(".", 1)
    results = cached(codec=Codec("http", _encode, _decode), **options)(answer).results

    def serve(request: Request) -> Response:
        value = search(_fields(request))
        if value is None:
            return make_response(function(request))
        return _serve(request, results, value, lambda: make_response(function(request)))

    return serve


def _serve(request: Request, results: FunctionResults, value: Any, compute: Callable[[], Response]) -> Response:
    """Return the response to a request in which `key` has found this value."""
    http_request = FrameworkRequest(request)
    directives = request_directives(http_request.fields())
    cache, rules = results.cache, AnswerRules(results, http_request)
    is_passed_on = bool(_PASSED_ON & http_request.fields().keys())
    if request.method not in CACHED_METHODS or not directives.may_store or is_passed_on:
        results.count("bypassed")
        answer = compute()
        if request.method not in _SAFE_METHODS and answer.status_code < 400:  # RFC 9111, 4.4
            for method in CACHED_METHODS:
                results.forget(method, request.path, value)
        return answer
    key = str(results.key(request.method, request.path, value))
    hit = None
    if directives.may_use_cached:
        hit = cache.recall(key, rules)
        if hit is None:
            hit, key = run(cache.search(key, rules))
    if hit is not None:
        age_s = hit.age_ms / 1000 + stated_age_s(join_fields(hit.decoded.value.headers))
        if directives.accepts(age_s, (hit.entry.fresh_ms - hit.age_ms) / 1000):
            if hit.is_stale:
                revalidate(cache, key, rules, compute)
            return _with_age(results.answer(hit), int(age_s), request)
    if directives.only_if_cached:
        return Response(status=504)
    flow = cache.compute if directives.may_use_cached and hit is None else cache.refresh
    return results.conclude(run(flow(key, rules), compute))  # type: ignore[no-any-return]


def _with_age(answer: Response, age_s: int, request: Request) -> Response:
    """Return a cached response with its Age, or a 304 if it matches the validator of a conditional request."""
    answer.headers["Age"] = str(age_s)
    if answer.status_code == 200 and any(name in request.headers for name in _CONDITIONS):
        answer.make_conditional(request)
    return answer


class FrameworkRequest:
    """Adapter for Flask requests. Responses to requests with Authorization are private by default."""

    def __init__(self, request: Request) -> None:
        self._fields = join_fields(request.headers)
        self.is_authorized = "authorization" in self._fields

    def fields(self) -> Fields:
        """Return the request's header fields."""
        return self._fields

    def answer(self, value: Response) -> Answer:
        """Return the status and header fields of a response."""
        return Answer(value.status_code, join_fields(value.headers))


def _fields(request: Request) -> Any:
    """Return the request's JSON body, or its query and form fields, where a repeated field is a list."""
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
    omitted = _CONNECTION_FIELDS | {name.strip().lower() for name in headers.get("Connection", "").split(",")}
    stored = [pair for pair in headers if pair[0].lower() not in omitted]
    return json.dumps([response.status_code, stored]).encode() + b"\n" + body


def _decode(payload: bytes) -> Response:
    line, _, body = payload.partition(b"\n")
    status, headers = json.loads(line)
    return Response(body, status, headers)


def __getattr__(name: str) -> Any:
    """Create `function` on its first use by the framework."""
    if name != "function":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = make_function()
    return globals()[name]
