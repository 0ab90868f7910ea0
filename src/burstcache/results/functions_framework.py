"""Results of an HTTP function of Google's Functions Framework, cached without a change of its code.

    echo "from burstcache.results.functions_framework import function" > cached_main.py
    export BURSTCACHE_HANDLER=main.thumbnail BURSTCACHE_RESULTS_FILE=results.json
    functions-framework --source cached_main.py --target function

`key` of the file is a JMESPath expression into the request's JSON, or into the fields of its query and form, of which a
repeated one is a list. Method and path decide as well. Answers are kept if they are successes, whole and set no cookie.

Source:
    Rosa 2022, section 4.2.1: a wrapper of the framework's functions that asks the cache before them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from burstcache.core.errors import InvalidSettingError
from burstcache.results.codecs import Codec
from burstcache.results.decorator import cached
from burstcache.results.expressions import compile_expression
from burstcache.results.keys import code_version, function_name
from burstcache.results.wrapped_handler import find_function, read_options

if TYPE_CHECKING:
    from flask import Request, Response

_OF_THE_CONNECTION = {"connection", "content-length", "date", "server", "transfer-encoding"}


def make_function() -> Callable[[Request], Response]:
    """Return the function that the environment names, with its answers cached.

    Raises:
        InvalidSettingError: A variable is missing, or the file or what it names is not accepted.
    """
    from flask import make_response, request

    function, options = find_function(), read_options()
    if "codec" in options:
        raise InvalidSettingError(f"codec={options['codec']!r}: answers over HTTP have one of their own")
    search = compile_expression(options.pop("key"))
    options.setdefault("version", "/".join(code_version(function)))

    def answer(method: str, path: str, found: Any) -> Response:
        return make_response(function(request))

    answer.__module__, answer.__qualname__ = function_name(function).rsplit(".", 1)
    cached_answer = cached(codec=Codec("http", _encode, _decode), **options)(answer)

    def serve(request: Request) -> Response:
        found = search(_fields(request))
        if found is None:
            return make_response(function(request))
        return cached_answer(request.method, request.path, found)

    return serve


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
    is_success = 200 <= response.status_code < 300 and response.status_code != 206
    if not is_success or response.is_streamed or "Set-Cookie" in response.headers:
        raise ValueError(f"an answer with status {response.status_code} that is no whole success, or sets a cookie")
    headers = [pair for pair in response.headers if pair[0].lower() not in _OF_THE_CONNECTION]
    return json.dumps([response.status_code, headers]).encode() + b"\n" + response.get_data()


def _decode(payload: bytes) -> Response:
    from flask import Response

    line, _, body = payload.partition(b"\n")
    status, headers = json.loads(line)
    return Response(body, status, headers)


def __getattr__(name: str) -> Any:
    """Make `function` when the framework asks for it."""
    if name != "function":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = make_function()
    return globals()[name]
