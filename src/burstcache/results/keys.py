"""Keys of results: SHA-256 hashes of the canonical form of the arguments that determine a result.

The canonical form is the form of `burstcache.results.forms`, as UTF-8 JSON with sorted names and without spaces.
Different values have different forms, even if they compare equal in Python. Examples are 1, 1.0 and True; an Enum
member and its value; and the same instant in two time zones. The order of dictionary keys does not matter.

A single string or bytes value may be large. It is hashed without JSON, after the prefix `s` or `b`. No JSON text begins
with these letters (`t`, `f` and `n` begin true, false and null).
"""

from __future__ import annotations

import hashlib
import inspect
import marshal
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from enum import Enum
from functools import cache
from operator import attrgetter
from pathlib import Path
from types import CellType, FunctionType
from typing import Any

from burstcache.core.errors import InvalidSettingError, NoCanonicalFormError
from burstcache.results.forms import FormWriter, class_name
from burstcache.results.type_forms import NoFormError, encode_sorted

_FORM = 2  # version of the key format, incremented when the form of a value changes
_NOT_IN_NAMES = re.compile(r"[^0-9A-Za-z_.]+")
_ACCEPTED = (
    "accepted: None, bool, int, float, str, bytes, list, tuple, set, dict, Decimal, UUID, times and dates, members of"
    " Enum, named tuples, dataclasses and pydantic models of these; choose the deciding arguments by arguments=[…] or"
    " key=…"
)
_HANDLERS = (["event", "context"], ["event", "_context"], ["event", "_"])  # parameters of a Lambda handler
_NOTHING = object()
CACHED_METHODS = {"GET", "HEAD", "POST"}  # HTTP methods
_write = FormWriter(class_name, is_sorted=True, is_exact=False).write
# For values that functions close over, since an ambiguous form is better than none.
_write_loosely = FormWriter(
    lambda kind: f"{kind.__module__}:{kind.__qualname__}", is_sorted=True, is_exact=False, is_json=True
).write

_OWNERS = ("self", "cls")  # first parameters of methods
_LEFT_OUT = tuple(f"-{name}" for name in _OWNERS)

Choose = Callable[[tuple[Any, ...]], Any]


def canonical(value: object) -> bytes:
    """Return the canonical form of a value.

    Raises:
        NoCanonicalFormError: The value, or a part of it, has an unsupported type.
    """
    try:
        return _canonical(value)
    except NoFormError as error:
        raise NoCanonicalFormError(f"{_refused(error)}; {_ACCEPTED}") from error


def _canonical(value: object) -> bytes:
    if type(value) is str:
        return b"s" + _to_bytes(value)
    if type(value) is bytes:
        return b"b" + value
    return _to_bytes(encode_sorted(_write(value)))


def _refused(error: NoFormError) -> str:
    return f"{_short_repr(error.value)} of {error} has no canonical form"


def _short_repr(value: object) -> str:
    try:
        return repr(value)[:60]
    except Exception:  # from the class's own `__repr__`, or for an integer of thousands of digits
        return "a value"


def _to_bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")  # lone surrogates are valid as well


class _LeftOut(Enum):
    """Placeholder for an argument that a call omits, since a decorator may have its own default."""

    TO_DECORATOR = 0


class KeyMaker:
    """Builds the keys of one function's results from the arguments of its calls."""

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        key: str | None = None,
        arguments: Sequence[str] | None = None,
        version: str | None = None,
        codec: str = "json",
    ) -> None:
        """Select the arguments that determine a result.

        Args:
            function: The function as defined, including `self` in a method.
            key: A JMESPath expression over the first argument (in a method, the one after `self`). Mutually exclusive
                with `arguments`.
            arguments: Names of arguments, or `name.attribute` for an attribute. `-self` names what a method leaves out.
                None: all, including `self`.
            version: Part of every key. None: the result of `code_version`.
            codec: Part of every key, since codecs cannot decode each other's results.

        Raises:
            InvalidSettingError: An argument is unknown, the expression is malformed, both options are set, or neither
                is set for a Lambda handler.
        """
        if key is not None and arguments is not None:
            raise InvalidSettingError(f"key={key!r} and arguments={list(arguments)!r} exclude each other")
        if not isinstance(version, str | None):
            raise InvalidSettingError(f"version={version!r}; accepted: a string, or None for the code's version")
        self.name = function_name(function)
        self._function = function
        is_named = key is not None or arguments is not None
        self._signature, self._is_wrapped = _signature(function, is_named=is_named)
        parameters = self._signature.parameters.values()
        is_plain = all(each.kind is each.POSITIONAL_OR_KEYWORD for each in parameters)
        self._length = len(parameters) if is_plain else -1
        self._parameters = [each.name for each in parameters]
        self.is_method = _takes_owner(self._parameters)
        self._event_at = int(self.is_method)
        if not is_named and self._parameters[self._event_at :] in _HANDLERS:
            raise InvalidSettingError(
                f"{self.name}: a Lambda context has no canonical form; accepted: key=…, a JMESPath expression into the"
                " event, or arguments=['event']"
            )
        if key is not None:
            self._choose = _by_expression(key, self._event_at, len(parameters), self.name)
        else:
            self._choose = _by_names(arguments, self._parameters, self.name)
        chosen = ["*"] if arguments is None else [name for name in arguments if name not in _LEFT_OUT]
        code = code_version(function) if version is None else [version]
        common_part = [_FORM, self.name, code, codec, key if key is not None else chosen]
        self._start = hashlib.sha256(_to_bytes(encode_sorted(common_part)))
        self._prefix = f"result:{_NOT_IN_NAMES.sub('-', self.name)}:"

    def make(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str | None:
        """Return the key of a call, or None if the call is not cacheable.

        A call is not cacheable if the expression finds nothing in its event, or if a selected value is nested too
        deeply. It is also not cacheable if a decorator's arguments do not fit the signature of the wrapped function.

        Raises:
            NoCanonicalFormError: A selected value, or a part of it, has no canonical form.
            TypeError: The function does not accept these arguments.
        """
        if kwargs or len(args) != self._length:
            try:
                bound = self._signature.bind(*args, **kwargs)
            except TypeError:
                if self._is_wrapped:
                    return None
                raise
            bound.apply_defaults()
            args = tuple(bound.arguments.values())
        if (chosen := self._choose(args)) is _NOTHING:
            return None
        digest = self._start.copy()
        try:
            digest.update(_canonical(chosen))
        except NoFormError as error:
            remedy = self._owner_remedy() if self.is_method and error.value is args[0] else _ACCEPTED
            raise NoCanonicalFormError(f"{self.name}: {_refused(error)}; {remedy}") from error
        except RecursionError:  # the value contains itself, or is nested too deeply
            return None
        return self._prefix + digest.hexdigest()

    def event(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Return the call's argument that the expression searches."""
        if kwargs or len(args) != self._length:
            args = tuple(self._signature.bind(*args, **kwargs).arguments.values())
        return _plain_event(args[self._event_at])

    def check_owner(self, args: tuple[Any, ...]) -> None:
        """Raise TypeError if a method's first argument is neither its instance nor its class."""
        if not (self.is_method and args and (owner := _class_of(self._function))):
            return
        first = args[0]
        if not isinstance(first, owner) and not (isinstance(first, type) and issubclass(first, owner)):
            accepted = f"{owner.__name__} or a subclass" if self._parameters[0] == "cls" else f"a {owner.__name__}"
            raise TypeError(
                f"{self.name}: {self._parameters[0]}={_short_repr(first)}; the first argument must be {accepted}"
            )

    def _owner_remedy(self) -> str:
        owner, *others = self._parameters
        of = "classes" if owner == "cls" else "instances"
        return (
            f"accepted: the attribute that tells {of} apart, as arguments={[f'{owner}.name', *others]}, or"
            f" {[f'-{owner}', *others]} if all {of} share results"
        )


def _takes_owner(parameters: Sequence[str]) -> bool:
    return bool(parameters) and parameters[0] in _OWNERS


def _class_of(function: Callable[..., Any]) -> type | None:
    """Return the class that defines a method, or None if its module does not have it by its name."""
    found: Any = sys.modules.get(function.__module__)
    for part in function.__qualname__.split(".")[:-1]:
        found = getattr(found, part, None)
    return found if isinstance(found, type) else None


def unnamed_owner(function: Callable[..., Any], arguments: Sequence[str] | None) -> str:
    """Return `self` or `cls` if a method has it and `arguments` do not mention it, otherwise an empty string."""
    scope = function.__qualname__.rpartition(".")[0]
    parameters = list(inspect.signature(function).parameters)
    if arguments is None or not scope or scope.endswith("<locals>") or not _takes_owner(parameters):
        return ""
    is_named = any(name.removeprefix("-").partition(".")[0] == parameters[0] for name in arguments)
    return "" if is_named else parameters[0]


def _signature(function: Callable[..., Any], *, is_named: bool) -> tuple[inspect.Signature, bool]:
    """Return a function's signature, and whether it is the signature of a function beneath a decorator.

    A decorator that takes arbitrary arguments may add arguments or change defaults. Therefore the wrapped function's
    signature only serves to find arguments by name. Its defaults are ignored.
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
    """Return a function that extracts arguments from a call: a single argument unchanged, several as a list."""
    if names is None:
        return (lambda args: args[0]) if len(parameters) == 1 else list
    if isinstance(names, str) or not names or not all(isinstance(name, str) for name in names):
        raise InvalidSettingError(f"arguments={names!r}; accepted: a list of names of arguments of {function}")
    parts: list[Choose] = []
    left_out = f"-{parameters[0]}" if _takes_owner(parameters) else ""
    for name in names:
        if name == left_out:
            continue
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
    """Return a function that searches the first argument after `self`. Many events yield null, which is not a key."""
    from burstcache.results.expressions import compile_expression

    if arguments <= position:
        raise InvalidSettingError(f"key={expression!r}: {function} has no argument to search")
    search = compile_expression(expression)

    def choose(args: tuple[Any, ...]) -> Any:
        event = _plain_event(args[position])
        if (value := search(event)) is None:
            return _NOTHING
        if (method := _http_method(event)) is None:
            return value
        # No expression returns a tuple, so this key differs from all others.
        return (method, value) if method in CACHED_METHODS else _NOTHING

    return choose


def _plain_event(event: Any) -> Any:
    """Return an event as a dictionary, even if it is a Powertools data class."""
    return event if isinstance(event, dict) else getattr(event, "raw_event", event)


def _http_method(event: Any) -> str | None:
    """Return the HTTP method in an event of a REST API, an HTTP API, a load balancer or a function URL."""
    if not isinstance(event, dict):
        return None
    method = event.get("httpMethod")
    if method is None and isinstance(context := event.get("requestContext"), dict):
        method = context["http"].get("method") if isinstance(context.get("http"), dict) else None
    return method.upper() if isinstance(method, str) else None


def function_name(function: Callable[..., Any]) -> str:
    """Return a function's `module.name`, which identifies its results."""
    return f"{function.__module__}.{function.__qualname__}"


def code_version(function: Callable[..., Any]) -> list[str]:
    """Return the version of a function's code, which differs between functions with the same name.

    The version consists of the Lambda function's name and version, a hash of the source file, and the function's
    position in the file, since all lambdas have the same name. It also includes the values of the closure and defaults
    that have a form. A function in the closure is represented by its code.
    """
    lambda_function = [os.environ.get(name, "") for name in ("AWS_LAMBDA_FUNCTION_NAME", "AWS_LAMBDA_FUNCTION_VERSION")]
    return [*lambda_function, *_code_forms(function, frozenset())]


def _code_forms(function: Callable[..., Any], outer: frozenset[int]) -> list[str]:
    """Return the forms of a function's code, and of the functions that it wraps.

    `outer` contains the ids of the functions with closures that led here. These are skipped, to end cycles.
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
        with suppress(ValueError, RecursionError, NoFormError):  # the value is unset, contains itself, or has no form
            value = cell.cell_contents
            if not isinstance(value, FunctionType):
                values[name] = encode_sorted(_write_loosely(value))
            elif id(inspect.unwrap(value)) not in outer:
                values[name] = _code_forms(value, outer)
    return hashlib.sha256(canonical(values)).hexdigest()


def _file_hash(path: str) -> str:
    """Return the SHA-256 of a source file in its current state, or an empty string if it cannot be read."""
    try:
        status = os.stat(path)
        return _hash_of(path, status.st_mtime_ns, status.st_size, status.st_ino)
    except (OSError, ValueError):
        return ""


@cache
def _hash_of(path: str, *_: int) -> str:
    """Return the SHA-256 of a file, cached by its stat values, since a module may be reloaded."""
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()
