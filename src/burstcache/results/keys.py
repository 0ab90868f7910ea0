"""Keys of results: what decides a result, in a canonical form, hashed by SHA-256.

The canonical form is the one of `burstcache.results.forms`, as JSON in UTF-8 with sorted names and without spaces.
Values that differ have different forms. So have some that Python calls equal: 1, 1.0 and True, an Enum's member and its
value, two times of one instant in different zones. Dictionaries that differ in the order of names alone have one form.

A text or bytes alone may be large: they are hashed as they are, behind a letter with which no JSON begins: not the `t`
of true, nor `f` or `n`.
"""

from __future__ import annotations

import hashlib
import inspect
import marshal
import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from enum import Enum
from functools import cache
from operator import attrgetter
from pathlib import Path
from types import CellType, FunctionType
from typing import Any

from burstcache.core.errors import InvalidSettingError, NoCanonicalFormError
from burstcache.results.forms import Writer, class_name
from burstcache.results.type_forms import NoFormError, encode_sorted

_FORM = 2  # of keys: another one when values get other forms
_NOT_IN_NAMES = re.compile(r"[^0-9A-Za-z_.]+")
_ACCEPTED = (
    "accepted: None, bool, int, float, str, bytes, list, tuple, set, dict, Decimal, UUID, times and dates, members of"
    " Enum, named tuples, dataclasses and pydantic models of these; name what decides the result by arguments=[…] or"
    " key=…"
)
_NOTHING = object()
_KEPT_METHODS = {"GET", "HEAD", "POST"}  # of HTTP; an answer to any other is not cached
_write = Writer(class_name, is_sorted=True, is_exact=False).write
# Of what functions close over: a form that others may share is better than none.
_write_loosely = Writer(
    lambda kind: f"{kind.__module__}:{kind.__qualname__}", is_sorted=True, is_exact=False, is_json=True
).write

Choose = Callable[[tuple[Any, ...]], Any]


def canonical(value: object) -> bytes:
    """Return the canonical form of a value.

    Raises:
        NoCanonicalFormError: The value, or a part of it, is of another type.
    """
    if type(value) is str:
        return b"s" + _to_bytes(value)
    if type(value) is bytes:
        return b"b" + value
    try:
        return _to_bytes(encode_sorted(_write(value)))
    except NoFormError as error:
        raise NoCanonicalFormError(f"{_shown(error.value)} of {error} has no canonical form; {_ACCEPTED}") from error


def _shown(value: object) -> str:
    try:
        return repr(value)[:60]
    except Exception:  # a class's own, or of an integer of thousands of digits
        return "a value"


def _to_bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")  # half a surrogate pair is a text, too


class _LeftOut(Enum):
    """The value of an argument that a call leaves out, where a decorator may have a default of its own."""

    TO_DECORATOR = 0


class KeyMaker:
    """Makes the keys of one function's results from the arguments of its calls."""

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        key: str | None = None,
        arguments: Sequence[str] | None = None,
        version: str | None = None,
        codec: str = "json",
    ) -> None:
        """Read what decides a result.

        Args:
            function: The function as it is defined: a method has `self`.
            key: A JMESPath expression into the first argument (of a method: behind `self`); excludes `arguments`.
            arguments: Names of arguments, `name.attribute` for an attribute of one; None for all, `self` included.
            version: Part of every key; None for what `code_version` returns.
            codec: Part of every key: one cannot read what another wrote.

        Raises:
            InvalidSettingError: There is no such argument, the expression is malformed, or both are given.
        """
        if key is not None and arguments is not None:
            raise InvalidSettingError(f"key={key!r} and arguments={list(arguments)!r} exclude each other")
        if not isinstance(version, str | None):
            raise InvalidSettingError(f"version={version!r}; accepted: a text, or None for the code's")
        self.name = function_name(function)
        is_named = key is not None or arguments is not None
        self._signature, self._is_of_wrapped = _signature(function, is_named=is_named)
        parameters = self._signature.parameters
        is_plain = all(each.kind is each.POSITIONAL_OR_KEYWORD for each in parameters.values())
        self._length = len(parameters) if is_plain else -1
        self._event_at = int(list(parameters)[:1] in (["self"], ["cls"]))
        if key is not None:
            self._choose = _by_expression(key, self._event_at, len(parameters), self.name)
        else:
            self._choose = _by_names(arguments, list(parameters), self.name)
        chosen = ["*"] if arguments is None else list(arguments)
        code = code_version(function) if version is None else [version]
        about = [_FORM, self.name, code, codec, key if key is not None else chosen]
        self._start = hashlib.sha256(_to_bytes(encode_sorted(about)))
        self._prefix = f"result:{_NOT_IN_NAMES.sub('-', self.name)}:"

    def make(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str | None:
        """Return the key of a call.

        It is None if the expression finds nothing in its event, if what decides is too deep, or if a decorator takes
        other arguments than the function beneath it, among which those that decide cannot be found.

        Raises:
            NoCanonicalFormError: What decides the result has a part without a canonical form.
            TypeError: The function does not take these arguments.
        """
        if kwargs or len(args) != self._length:
            try:
                bound = self._signature.bind(*args, **kwargs)
            except TypeError:
                if self._is_of_wrapped:
                    return None
                raise
            bound.apply_defaults()
            args = tuple(bound.arguments.values())
        if (chosen := self._choose(args)) is _NOTHING:
            return None
        digest = self._start.copy()
        try:
            digest.update(canonical(chosen))
        except RecursionError:  # it contains itself, or is deeper than what JSON takes
            return None
        return self._prefix + digest.hexdigest()

    def event(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Return the argument of a call into which the expression looks."""
        if kwargs or len(args) != self._length:
            args = tuple(self._signature.bind(*args, **kwargs).arguments.values())
        return _plain_event(args[self._event_at])


def _signature(function: Callable[..., Any], *, is_named: bool) -> tuple[inspect.Signature, bool]:
    """Return a function's signature, and whether it is that of another one, which a decorator has wrapped.

    A decorator that takes any arguments may add some, or have other defaults. So the wrapped function's names serve to
    find arguments that are named, and its defaults nothing.
    """
    own = inspect.signature(function, follow_wrapped=False)
    is_open = any(each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD) for each in own.parameters.values())
    if not (is_named and is_open and hasattr(function, "__wrapped__")):
        return own, False
    wrapped = inspect.signature(function)
    parameters = [
        each if each.default is each.empty else each.replace(default=_LeftOut.TO_DECORATOR)
        for each in wrapped.parameters.values()
    ]
    return wrapped.replace(parameters=parameters), True


def _by_names(names: Sequence[str] | None, parameters: list[str], function: str) -> Choose:
    """Return what takes arguments out of a call: the only one as it is, several as a list."""
    if names is None:
        return (lambda args: args[0]) if len(parameters) == 1 else list
    if isinstance(names, str) or not names or not all(isinstance(name, str) for name in names):
        raise InvalidSettingError(f"arguments={names!r}; accepted: a list of names of arguments of {function}")
    parts: list[Choose] = []
    for name in names:
        argument, _, path = name.partition(".")
        if argument not in parameters:
            raise InvalidSettingError(f"arguments: {function} has no argument {argument!r}; it has {parameters}")
        parts.append(_part(parameters.index(argument), path))
    if len(parts) == 1:
        return parts[0]
    return lambda args: [part(args) for part in parts]


def _part(position: int, path: str) -> Choose:
    if not path:
        return lambda args: args[position]
    attribute = attrgetter(path)
    return lambda args: args[position] if args[position] is _LeftOut.TO_DECORATOR else attribute(args[position])


def _by_expression(expression: str, position: int, arguments: int, function: str) -> Choose:
    """Return what searches the first argument that is not `self`; null is no key, or all events without it were one."""
    from burstcache.results.expressions import compile_expression

    if arguments <= position:
        raise InvalidSettingError(f"key={expression!r}: {function} has no argument to look into")
    search = compile_expression(expression)

    def choose(args: tuple[Any, ...]) -> Any:
        event = _plain_event(args[position])
        if (found := search(event)) is None:
            return _NOTHING
        if (method := _http_method(event)) is None:
            return found
        return (method, found) if method in _KEPT_METHODS else _NOTHING  # a tuple, which no expression finds

    return choose


def _plain_event(event: Any) -> Any:
    """Return the dictionary of an event, also of one that Powertools has put into a data class."""
    return event if isinstance(event, dict) else getattr(event, "raw_event", event)


def _http_method(event: Any) -> str | None:
    """Return the method of an HTTP request, as a REST API, an HTTP API, a load balancer or a function URL sends it."""
    if not isinstance(event, dict):
        return None
    method = event.get("httpMethod")
    if method is None and isinstance(context := event.get("requestContext"), dict):
        method = context["http"].get("method") if isinstance(context.get("http"), dict) else None
    return method.upper() if isinstance(method, str) else None


def function_name(function: Callable[..., Any]) -> str:
    """Return `module.name` of a function, by which its results are known."""
    return f"{function.__module__}.{function.__qualname__}"


def code_version(function: Callable[..., Any]) -> list[str]:
    """Return what tells a function from another of its name, and changes with its code.

    That is the Lambda function and its version, a hash of the source file, where in it the function is (all lambdas
    have one name), what it closes over and its defaults, as far as these have a form: a function has that of its code.
    """
    lambda_function = [os.environ.get(name, "") for name in ("AWS_LAMBDA_FUNCTION_NAME", "AWS_LAMBDA_FUNCTION_VERSION")]
    return [*lambda_function, *_code_forms(function, frozenset())]


def _code_forms(function: Callable[..., Any], outer: frozenset[int]) -> list[str]:
    """Return what tells the code of a function from another, and that of the functions that it wraps.

    `outer` identifies functions that close over it.
    """
    chain = [function]
    while isinstance(wrapped := getattr(chain[-1], "__wrapped__", None), FunctionType) and wrapped not in chain:
        chain.append(wrapped)
    outer |= {id(each) for each in chain}
    return [form for each in chain for form in _forms_of_one(each, outer)]


def _forms_of_one(function: Callable[..., Any], outer: frozenset[int]) -> list[str]:
    code = function.__code__
    source = _file_hash(code.co_filename) or hashlib.sha256(marshal.dumps(code)).hexdigest()
    place = hashlib.sha256(repr(list(code.co_positions())).encode()).hexdigest()
    cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
    for parameter in inspect.signature(function, follow_wrapped=False).parameters.values():
        if parameter.default is not parameter.empty:
            cells[parameter.name] = CellType(parameter.default)
    return [source, place, _forms(cells, outer)]


def _forms(cells: Mapping[str, CellType], outer: frozenset[int]) -> str:
    values: dict[str, object] = {}
    for name, cell in cells.items():
        with suppress(ValueError, RecursionError, NoFormError):  # it is not set yet, has itself, or no form
            value = cell.cell_contents
            if not isinstance(value, FunctionType):
                values[name] = encode_sorted(_write_loosely(value))
            elif id(inspect.unwrap(value)) not in outer:
                values[name] = _code_forms(value, outer)
    return hashlib.sha256(canonical(values)).hexdigest()


def _file_hash(path: str) -> str:
    """Return the SHA-256 of a source file as it is now; empty if there is none, as for what was typed in."""
    try:
        seen = os.stat(path)
        return _hash_of(path, seen.st_mtime_ns, seen.st_size, seen.st_ino)
    except (OSError, ValueError):
        return ""


@cache
def _hash_of(path: str, *_: int) -> str:
    """Return the SHA-256 of a file, once for each of its states: a module that is reloaded has another."""
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()
