"""Evaluation of JSONata expressions (`{% … %}`) in state machine fields."""

from __future__ import annotations

import hashlib
import json
import threading
import uuid
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from jsonata import Jsonata
from jsonata.jexception import JException
from jsonata.utils import Utils

from burstcache_local.stepfunctions.errors import QUERY, StateError

_OPENING, _CLOSING = "{%", "%}"


def check(template: Any) -> None:
    """Parse every expression in a field. Raise a ValueError that names the first malformed expression."""
    for text in _texts(template):
        if is_expression(text):
            _check_expression(text)


@lru_cache(maxsize=1024)
def _check_expression(text: str) -> None:
    try:
        Jsonata(_body(text))
    except JException as error:
        raise ValueError(f"the JSONata expression {text!r} cannot be parsed: {error}") from error


def is_expression(value: Any) -> bool:
    """Return whether a value is an expression."""
    return isinstance(value, str) and value.startswith(_OPENING) and value.endswith(_CLOSING)


def evaluate(template: Any, variables: Mapping[str, Any], *, now_us: int) -> Any:
    """Evaluate all expressions in a field, and return plain JSON.

    Args:
        template: The field's JSON value, with expressions as strings.
        variables: Variables by name: `states`, and variables assigned by earlier states.
        now_us: Time for `$millis()` and `$now()`, since 1970 [us].

    Raises:
        StateError: `States.QueryEvaluationError`. An expression failed, returned nothing, or returned a value that is
            not JSON.
    """
    if isinstance(template, dict):
        return {name: evaluate(part, variables, now_us=now_us) for name, part in template.items()}
    if isinstance(template, list):
        return [evaluate(part, variables, now_us=now_us) for part in template]
    if not is_expression(template):
        return template
    functions = {
        "hash": Jsonata.JLambda(_digest),
        "millis": Jsonata.JLambda(lambda: now_us // 1000),
        "uuid": Jsonata.JLambda(lambda: str(uuid.uuid4())),
    }
    try:
        value = _compiled(_body(template), threading.get_ident()).evaluate(None, {**functions, **variables})
        if value is None:
            raise ValueError("it returned nothing (undefined)")
        return json.loads(json.dumps(value, default=_plain))
    except Exception as error:  # the evaluator also raises built-in exceptions
        raise StateError(QUERY, f"The JSONata expression {template!r} failed: {error}") from error


@lru_cache(maxsize=1024)
def _compiled(body: str, thread: int) -> Jsonata:
    """Compile an expression for one thread, because the evaluator is not thread-safe."""
    expression = Jsonata(body)
    expression.set_output_convert_nulls(False)  # distinguish null from undefined
    return expression


def _plain(value: Any) -> None:
    if value is not Utils.NULL_VALUE:
        raise ValueError(f"it returned a value that is not JSON: {value!r}")


def _digest(text: str, algorithm: str = "SHA-256") -> str:
    """Implement `$hash`, which returns the digest in hexadecimal."""
    return hashlib.new(algorithm.replace("-", "").lower(), text.encode()).hexdigest()


def _body(text: str) -> str:
    return text[len(_OPENING) : -len(_CLOSING)].strip()


def _texts(template: Any) -> list[str]:
    if isinstance(template, dict):
        return [text for part in template.values() for text in _texts(part)]
    if isinstance(template, list):
        return [text for part in template for text in _texts(part)]
    return [template] if isinstance(template, str) else []
