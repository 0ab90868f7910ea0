"""Forms: a JSON notation for keys and stored results, from which the same value can be restored.

JSON values are their own forms: None, bool, finite floats, integers of at most 63 bits, strings, lists, and
dictionaries with string keys. The form of any other value is an object with a single name. This name is `$` followed
by the type's name, for example `{"$Decimal": "1.10"}`. Dictionary keys that begin with `$` are escaped by a second `$`.
`type_forms.FORMS` lists the supported types. Forms of Enum members, named tuples, dataclasses and pydantic models
include the name of their class.

Only values of exactly these types have a form, since a subclass may have state or an equality that the form would
lose. Because each form can be read back, different values have different forms.
"""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Callable
from enum import Enum, Flag
from functools import cached_property
from importlib import import_module
from typing import Any

from burstcache.results.type_forms import FORMS, NoFormError, encode_sorted

_LARGE = 1 << 63  # larger integers are written in hex, since Python refuses to write thousands of decimal digits
_PLAIN: dict[type, Callable[[Any], Any]] = {str: str.__str__, int: int.__pos__, float: float.__pos__}
_ENUM, _NAMEDTUPLE, _DATACLASS, _MODEL = "Enum", "namedtuple", "dataclass", "model"
CLASS_FORMS = (_ENUM, _NAMEDTUPLE, _DATACLASS, _MODEL)


def class_name(kind: type[Any]) -> str:
    """Return `module:Class`, or `module:Class[module:Class]` for a parameterised generic model.

    Raises:
        LookupError: The class is not found in its module by its name, so the name would be ambiguous.
    """
    if not isinstance(kind, type):
        raise LookupError(f"{kind!r} is not a class")
    origin, arguments = model_parameters(kind)
    if origin is not None and origin[arguments] is kind:
        return f"{class_name(origin)}[{', '.join(map(class_name, arguments))}]"
    found: Any = sys.modules.get(kind.__module__)
    for part in kind.__qualname__.split("."):
        found = getattr(found, part, None)
    if found is not kind:
        raise LookupError(f"{kind.__qualname__} is not found in {kind.__module__}")
    return f"{kind.__module__}:{kind.__qualname__}"


def model_parameters(kind: type[Any]) -> tuple[Any, tuple[Any, ...]]:
    """Return the generic model and the parameters of a parameterised model, or None and () for any other class."""
    generic = vars(kind).get("__pydantic_generic_metadata__") or {}
    return generic.get("origin"), generic.get("args", ())


class FormWriter:
    """Writes the forms of values.

    Args:
        name_class: Returns the name of a class, or raises LookupError.
        is_sorted: Whether equal dictionaries have the same form regardless of their order.
        is_exact: Whether to reject dataclasses with non-field attributes, which the form would lose.
        is_json: Whether to write instances of subclasses of dict, list, str and so on as plain JSON.
    """

    def __init__(
        self,
        name_class: Callable[[type[Any]], str],
        *,
        is_sorted: bool = False,
        is_exact: bool = True,
        is_json: bool = False,
    ) -> None:
        self._name_class = name_class
        self._is_sorted = is_sorted
        self._is_exact = is_exact
        self._is_json = is_json

    def write(self, value: Any) -> Any:
        """Return the form of a value.

        Raises:
            NoFormError: The value, or a part of it, has no form.
            RecursionError: The value contains itself, or is nested too deeply.
        """
        kind = type(value)
        if kind is str or kind is bool or value is None:
            return value
        if (kind is int and -_LARGE < value < _LARGE) or (kind is float and math.isfinite(value)):
            return value
        if kind is dict:
            return self._write_dict(value)
        if kind is list:
            return [self.write(each) for each in value]
        try:
            form = FORMS.get(kind.__qualname__)
            if form is not None and getattr(sys.modules.get(form.module), kind.__qualname__, None) is kind:
                return {f"${kind.__qualname__}": form.write(value, self.write)}
            return self._write_instance(value, kind)
        except NoFormError as error:
            if not (self._is_json and error.value is value):
                raise
        except RecursionError:
            raise
        except Exception as error:  # for example a property that raises, or a time zone with a missing file
            raise NoFormError(value, f"of which a part cannot be read ({type(error).__name__})") from error
        return self._write_derived(value)

    def _write_dict(self, value: dict[Any, Any]) -> Any:
        write = self.write
        if all(type(name) is str for name in value):
            return {f"${name}" if name[:1] == "$" else name: write(each) for name, each in value.items()}
        items = [[write(name), write(each)] for name, each in value.items()]
        return {"$dict": sorted(items, key=encode_sorted) if self._is_sorted else items}

    def _write_instance(self, value: Any, kind: type[Any]) -> Any:
        if issubclass(kind, Enum):
            member = self.write(value._value_) if issubclass(kind, Flag) else value._name_
            if not issubclass(kind, Flag) and kind.__members__.get(member) is not value:
                raise NoFormError(value, "that its class does not have under its name")
            return {f"${_ENUM}": [self._name(value, kind), member]}
        if _is_namedtuple(kind) and not _attributes(value):
            return {f"${_NAMEDTUPLE}": [self._name(value, kind), [self.write(part) for part in value]]}
        if dataclasses.is_dataclass(kind):
            fields = {name: self.write(part) for name, part in self._fields(value, kind).items()}
            return {f"${_DATACLASS}": [self._name(value, kind), fields]}
        if _is_model(kind):
            return {f"${_MODEL}": [self._name(value, kind), self.write(_model_state(value, kind))]}
        raise NoFormError(value)

    def _write_derived(self, value: Any) -> Any:
        """Return a subclass instance's form, as `json.dumps` would write it."""
        if isinstance(value, dict):
            return self._write_dict(dict(dict.items(value)))
        if isinstance(value, (list, tuple)):
            return [self.write(each) for each in value]
        for kind, plain in _PLAIN.items():
            if isinstance(value, kind):
                return self.write(plain(value))
        raise NoFormError(value)

    def _name(self, value: Any, kind: type[Any]) -> str:
        try:
            return self._name_class(kind)
        except LookupError:
            raise NoFormError(value, "a class that its module does not have under its name") from None

    def _fields(self, value: Any, kind: type[Any]) -> dict[str, Any]:
        names = [field.name for field in dataclasses.fields(value)]
        of_class: Any = kind
        if of_class.__new__ is not object.__new__:
            raise NoFormError(value, "a dataclass that derives from a built-in type")
        if of_class.__eq__ is object.__eq__:
            raise NoFormError(value, "whose instances equal only themselves (eq=False)")
        others = {name for name in _attributes(value) if name not in names and not _is_computed(kind, name)}
        if others and (self._is_exact or not _compares_fields(kind)):
            raise NoFormError(value, f"whose attribute {min(others)!r} is not a field")
        try:
            return {name: getattr(value, name) for name in names}
        except AttributeError as error:
            raise NoFormError(value, str(error)) from error


class FormReader:
    """Reads forms. `find_class` returns the class with a name if it is allowed, and raises an error otherwise."""

    def __init__(self, find_class: Callable[[str], type[Any]]) -> None:
        self._find_class = find_class

    def read(self, plain: Any) -> Any:
        """Restore a value from its form. A malformed form may raise any exception."""
        if type(plain) is list:
            return [self.read(each) for each in plain]
        if type(plain) is not dict:
            return plain
        if len(plain) == 1:
            ((name, inner),) = plain.items()
            if name[:1] == "$" and name[1:2] != "$":
                return self._read_form(name[1:], inner)
        return {name[1:] if name[:1] == "$" else name: self.read(each) for name, each in plain.items()}

    def _read_form(self, name: str, inner: Any) -> Any:
        read = self.read
        if (form := FORMS.get(name)) is not None:
            return form.read(inner, getattr(import_module(form.module), name), read)
        if name == "dict":
            return {read(each): read(value) for each, value in inner}
        if name not in CLASS_FORMS:
            raise ValueError(f"{name!r} is not a form")
        name_of_class, state = inner
        kind = self._find_class(name_of_class)
        if name == _ENUM and issubclass(kind, Enum):
            return kind(read(state)) if issubclass(kind, Flag) else kind[state]
        if name == _NAMEDTUPLE and _is_namedtuple(kind) and len(state) == len(kind._fields):
            return tuple.__new__(kind, map(read, state))
        if name == _DATACLASS and dataclasses.is_dataclass(kind):
            return _restore(kind, {each: read(value) for each, value in state.items()})
        if name == _MODEL and _is_model(kind):
            return _restore_model(kind, read(state))
        raise ValueError(f"{name_of_class} is not a {name}, or has other parts now")


def _is_namedtuple(kind: Any) -> bool:
    return issubclass(kind, tuple) and hasattr(kind, "_fields") and kind.__eq__ is tuple.__eq__


def _is_model(kind: type[Any]) -> bool:
    """Whether a class is a pydantic 2 model. If a model exists, pydantic has already been imported."""
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and issubclass(kind, pydantic.BaseModel) and hasattr(kind, "__pydantic_fields_set__")


def _model_state(value: Any, kind: Any) -> dict[str, Any]:
    """Return the state that a model's `__eq__` compares, including the names of the fields that were set."""
    state: dict[str, Any] = sys.modules["pydantic"].BaseModel.__getstate__(value)
    fields = {name: part for name, part in state["__dict__"].items() if name in kind.model_fields}
    if missing := kind.model_fields.keys() - fields.keys():
        raise NoFormError(value, f"which lacks the field {min(missing)!r}")
    return {**state, "__dict__": fields}


def _attributes(value: Any) -> set[str]:
    """Return the names of an instance's attributes, from its `__dict__` and its slots."""
    state = object.__getstate__(value)
    parts = state if isinstance(state, tuple) else (state,)
    return {name for part in parts if part for name in part} - {"__orig_class__"}  # set when a generic alias is called


def _is_computed(kind: type[Any], name: str) -> bool:
    return isinstance(getattr(kind, name, None), cached_property)


def _compares_fields(kind: type[Any]) -> bool:
    """Whether `__eq__` was generated by the dataclass decorator, and therefore compares only fields."""
    equality = vars(kind).get("__eq__")
    return "__dataclass_params__" in vars(kind) and getattr(equality, "__code__", None) is not None and (
        equality.__code__.co_filename == "<string>"
    )  # fmt: skip


def _restore(kind: type[Any], fields: dict[str, Any]) -> Any:
    if {field.name for field in dataclasses.fields(kind)} != fields.keys():
        raise ValueError(f"{kind.__qualname__} has other fields now")
    made = object.__new__(kind)
    for name, value in fields.items():
        object.__setattr__(made, name, value)
    return made


def _restore_model(kind: Any, state: dict[str, Any]) -> Any:
    if state["__dict__"].keys() != kind.model_fields.keys():
        raise ValueError(f"{kind.__qualname__} has other fields now")
    made = object.__new__(kind)
    sys.modules["pydantic"].BaseModel.__setstate__(made, state)
    return made
