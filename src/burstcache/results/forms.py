"""Forms of values: a notation in JSON for keys and for stored results, from which the same value can be read again.

What JSON has stands as it is: None, bool, finite floats, integers below 64 bits, text, lists, and dictionaries whose
names are text. Any other value is an object with one name, `$` and its type's name, as in `{"$Decimal": "1.10"}`. A
dictionary's own name that begins with `$` gets a second one. `type_forms.FORMS` lists types by name. Members of Enum,
named tuples, dataclasses and pydantic models are written with the name of their class.

A value is written only if its type is exactly one of these: a derived class may have state, or a notion of equality,
that the form does not show. As each form can be read back, two values that differ have different forms.
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

_LARGE = 1 << 63  # Python refuses to write integers of thousands of decimal digits
_PLAIN: dict[type, Callable[[Any], Any]] = {str: str.__str__, int: int.__pos__, float: float.__pos__}
_ENUM, _NAMEDTUPLE, _DATACLASS, _MODEL = "Enum", "namedtuple", "dataclass", "model"
CLASS_FORMS = (_ENUM, _NAMEDTUPLE, _DATACLASS, _MODEL)


def class_name(kind: type[Any]) -> str:
    """Return `module:Class`, of a generic model that has its parameters `module:Class[module:Class]`.

    Raises:
        LookupError: The class is not found there: another one of that name could not be told from it.
    """
    if not isinstance(kind, type):
        raise LookupError(f"{kind!r} is no class")
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
    """Return the generic model of which a class is one with its parameters given, and these; None if it is not."""
    generic = vars(kind).get("__pydantic_generic_metadata__") or {}
    return generic.get("origin"), generic.get("args", ())


class Writer:
    """Writes the forms of values.

    Args:
        name_class: Returns the name of a class whose instance is written, or raises LookupError.
        is_sorted: Whether dictionaries that are equal have one form, whatever the order of their names.
        is_exact: Whether a dataclass is refused if it has attributes that are no fields: they would not come back.
        is_json: Whether instances of classes derived from dict, list, str and so on are written as JSON has them.
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
            NoFormError: The value, or a part of it, has none.
            RecursionError: The value contains itself, or is nested too deep.
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
        except Exception as error:  # of a property of the value's own, of a zone whose file is gone
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
        """Return an instance of a derived class as `json.dumps` writes it."""
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
            raise NoFormError(value, f"whose attribute {min(others)!r} is no field")
        try:
            return {name: getattr(value, name) for name in names}
        except AttributeError as error:
            raise NoFormError(value, str(error)) from error


class Reader:
    """Reads forms. `find_class` returns a class by its name, or raises ValueError: what is stored chooses no class."""

    def __init__(self, find_class: Callable[[str], type[Any]]) -> None:
        self._find_class = find_class

    def read(self, plain: Any) -> Any:
        """Return the value that a form shows; any error may be raised for what is no form."""
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
            raise ValueError(f"{name!r} is no form")
        class_named, state = inner
        kind = self._find_class(class_named)
        if name == _ENUM and issubclass(kind, Enum):
            return kind(read(state)) if issubclass(kind, Flag) else kind[state]
        if name == _NAMEDTUPLE and _is_namedtuple(kind) and len(state) == len(kind._fields):
            return tuple.__new__(kind, map(read, state))
        if name == _DATACLASS and dataclasses.is_dataclass(kind):
            return _restore(kind, {each: read(value) for each, value in state.items()})
        if name == _MODEL and _is_model(kind):
            return _restore_model(kind, read(state))
        raise ValueError(f"{class_named} is no {name}, or has other parts now")


def _is_namedtuple(kind: Any) -> bool:
    return issubclass(kind, tuple) and hasattr(kind, "_fields") and kind.__eq__ is tuple.__eq__


def _is_model(kind: type[Any]) -> bool:
    """Whether a class is a model of pydantic 2, which is there if one of its models is."""
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and issubclass(kind, pydantic.BaseModel) and hasattr(kind, "__pydantic_fields_set__")


def _model_state(value: Any, kind: Any) -> dict[str, Any]:
    """Return all that a model's equality looks at, and which fields were given."""
    state: dict[str, Any] = sys.modules["pydantic"].BaseModel.__getstate__(value)
    fields = {name: part for name, part in state["__dict__"].items() if name in kind.model_fields}
    if missing := kind.model_fields.keys() - fields.keys():
        raise NoFormError(value, f"which lacks the field {min(missing)!r}")
    return {**state, "__dict__": fields}


def _attributes(value: Any) -> set[str]:
    """Return the names of all that an instance has, in its dictionary and in slots."""
    state = object.__getstate__(value)
    parts = state if isinstance(state, tuple) else (state,)
    return {name for part in parts if part for name in part} - {"__orig_class__"}  # how a generic was called


def _is_computed(kind: type[Any], name: str) -> bool:
    return isinstance(getattr(kind, name, None), cached_property)


def _compares_fields(kind: type[Any]) -> bool:
    """Whether the decorator has written a dataclass's own `__eq__`, which compares fields and nothing else."""
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
