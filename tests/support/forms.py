"""Values of every type (form) that results and keys accept, for searches. A type added to the registry is included."""

from __future__ import annotations

import datetime
import enum
import math
import zoneinfo
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Hashable
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

import numpy
import pydantic
from boto3.dynamodb.types import Binary
from dateutil.tz import tzutc  # type: ignore[import-untyped]
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from burstcache.results.forms import CLASS_FORMS
from burstcache.results.type_forms import FORMS


class Colour(enum.Enum):
    RED = "red"
    BLUE = 1


class Mood(enum.Enum):
    """Enum with the names and values of `Colour`."""

    RED = "red"
    BLUE = 1


class Level(enum.IntEnum):
    LOW = 1


class Word(enum.StrEnum):
    RED = "red"


class Right(enum.Flag):
    READ = 1
    WRITE = 2


class Point(NamedTuple):
    x: Any
    y: Any


class Pair(NamedTuple):
    """Named tuple with the values of `Point`."""

    x: Any
    y: Any


@dataclass(frozen=True)
class Size:
    width: Any
    unit: Any = field(default="px", compare=False)


@dataclass(frozen=True)
class Area(Size):
    """Dataclass with the fields of `Size`."""


@dataclass(slots=True)
class Slotted:
    width: Any
    made: Any = field(default=None, init=False)


class Model(pydantic.BaseModel):
    width: Any
    unit: Any = "px"
    _hidden: Any = pydantic.PrivateAttr(default=None)


class Open(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")


@cache
def type_of(name: str) -> type[Any]:
    """Return a type of the registry by its name, or `object` if this version of the library lacks it."""
    registered: type[Any] = getattr(import_module(FORMS[name].module), name, object)
    return registered


_ZONES = st.sampled_from(
    [None, datetime.UTC, tzutc(), zoneinfo.ZoneInfo("Europe/Berlin"), zoneinfo.ZoneInfo("Europe/Paris")]
) | st.builds(
    lambda minutes, name: datetime.timezone(datetime.timedelta(minutes=minutes), *name),
    st.integers(-60, 60), st.just(()) | st.just(("CET",)),
)  # fmt: skip
_MOMENTS = (datetime.datetime(2026, 10, 25, 2, 30), datetime.datetime(2026, 3, 29, 2, 30), datetime.datetime(1, 1, 1))


def _small(strategy: SearchStrategy[Any], **arguments: Any) -> SearchStrategy[list[Any]]:
    return st.lists(strategy, max_size=3, **arguments)


def _special(inner: SearchStrategy[Any], keys: SearchStrategy[Any]) -> dict[str, SearchStrategy[Any]]:
    """Return strategies for types that have none in hypothesis, or too wide a one."""
    pairs = st.dictionaries(keys, inner, max_size=3)
    return {
        "int": st.sampled_from([0, 1, -1, 1 << 63, -1 << 63, 10**100]) | st.integers(),
        "float": st.sampled_from([0.0, -0.0, 1.0, math.inf, -math.inf, math.nan]) | st.floats(),
        "memoryview": st.binary(max_size=3).map(memoryview),
        "tuple": _small(inner).map(tuple),
        "set": _small(keys).map(set),
        "frozenset": _small(keys).map(frozenset),
        "range": st.builds(range, st.integers(-3, 3), st.integers(-3, 3), st.sampled_from([-1, 1, 2])),
        "slice": st.builds(slice, inner, inner, inner),
        "datetime": st.builds(
            lambda moment, zone, fold: moment.replace(tzinfo=zone, fold=fold),
            st.sampled_from(_MOMENTS) | st.datetimes(), _ZONES, st.integers(0, 1),
        ),
        "time": st.builds(
            lambda moment, zone, fold: moment.replace(tzinfo=zone, fold=fold),
            st.just(datetime.time(2, 30)) | st.times(), _ZONES, st.integers(0, 1),
        ),
        "timezone": _ZONES.filter(lambda zone: type(zone) is datetime.timezone),
        "ZoneInfo": st.sampled_from(["UTC", "Europe/Berlin"]).map(zoneinfo.ZoneInfo),
        "tzutc": st.builds(tzutc),
        "Binary": st.binary(max_size=3).map(Binary),
        "OrderedDict": pairs.map(OrderedDict) | pairs.map(lambda each: OrderedDict(reversed(each.items()))),
        "Counter": st.dictionaries(keys, st.integers(-2, 2), max_size=3).map(Counter),
        "defaultdict": st.builds(defaultdict, st.sampled_from([None, int, list]), pairs),
        "deque": st.builds(deque, _small(inner), st.sampled_from([None, 3, 4])),
        **{
            name: st.sampled_from(["", ".", "a", "a/b", "A", "é", "a\\b", "/a"]).map(type_of(name))
            for name in ("PosixPath", "PurePosixPath", "PureWindowsPath")
        },
        "WindowsPath": st.nothing(),  # exists on another system only
    }  # fmt: skip


def _numpy(name: str) -> SearchStrategy[Any]:
    kind: Any = type_of(name)
    if kind is object:  # the name exists in another version only
        return st.nothing()
    if name in ("str_", "bytes_"):
        return st.sampled_from(["", "a", "b"]).map(lambda text: kind(text if name == "str_" else text.encode()))
    return st.integers(0, 3).map(kind) if name.startswith("bool") else st.integers(0, 100).map(kind)


def _strategy(name: str, inner: SearchStrategy[Any], keys: SearchStrategy[Any]) -> SearchStrategy[Any]:
    if (special := _special(inner, keys).get(name)) is not None:
        return special
    return _numpy(name) if FORMS[name].module == "numpy" else st.from_type(type_of(name))


def _instances(inner: SearchStrategy[Any]) -> dict[str, SearchStrategy[Any]]:
    """Return strategies for class instances, by kind of class."""

    def hidden(model: Model, value: Any) -> Model:
        model._hidden = value
        return model

    return {
        "Enum": st.sampled_from([*Colour, *Mood, *Level, *Word, Right(0), *Right, Right.READ | Right.WRITE]),
        "namedtuple": st.builds(Point, inner, inner) | st.builds(Pair, inner, inner),
        "dataclass": st.builds(Size, inner, inner) | st.builds(Area, inner) | st.builds(Slotted, inner),
        "model": st.builds(Model, width=inner) | st.builds(hidden, st.builds(Model, width=inner), inner)
        | st.builds(Open, width=inner),
    }  # fmt: skip


def _is_hashable(value: Any) -> bool:
    try:
        return isinstance(value, Hashable) and hash(value) is not None
    except TypeError:
        return False


_LEAVES = st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from(
    [0.0, -0.0, 1.0, "", "a", "1", "true", "null", "$a", "$$a", "\ud800", "é", "e\u0301", b"a", b"", b"true"]
)  # fmt: skip


@cache
def values() -> SearchStrategy[Any]:
    """Return a strategy for nested values of all accepted types."""

    keys = st.one_of(*(values_of(name) for name in ALL_FORMS)).filter(_is_hashable)

    def around(inner: SearchStrategy[Any]) -> SearchStrategy[Any]:
        return st.one_of(
            _small(inner),
            st.dictionaries(keys, inner, max_size=3),
            *(_strategy(name, inner, keys) for name in FORMS),
            *_instances(inner).values(),
        )

    return st.recursive(_LEAVES, around, max_leaves=6)


def values_of(name: str) -> SearchStrategy[Any]:
    """Return a strategy for values of one type or class kind of the registry."""
    if name in CLASS_FORMS:
        return _instances(_LEAVES)[name]
    return _strategy(name, _LEAVES, _LEAVES)


ALL_FORMS = (*FORMS, *CLASS_FORMS)


def shape(value: Any) -> Any:
    """Return a value's identity, made of its types and parts, without the registry's help."""
    kind = type(value)
    name = f"{kind.__module__}.{kind.__qualname__}"
    if isinstance(value, enum.Enum):
        return name, value.name, repr(value.value)
    if isinstance(value, pydantic.BaseModel):
        state = value.__getstate__()
        return name, shape(state["__dict__"]), shape(state["__pydantic_extra__"]), shape(
            state["__pydantic_private__"]
        ), sorted(value.model_fields_set)  # fmt: skip
    if isinstance(value, dict):
        items = [(shape(each), shape(part)) for each, part in value.items()]
        order = items if kind is OrderedDict else sorted(items, key=repr)
        return name, repr(getattr(value, "default_factory", None)), order
    if isinstance(value, (set, frozenset)):
        return name, sorted(map(shape, value), key=repr)
    if isinstance(value, (list, tuple)):
        return name, [shape(part) for part in value]
    if isinstance(value, deque):
        return name, value.maxlen, [shape(part) for part in value]
    if isinstance(value, slice):
        return name, shape([value.start, value.stop, value.step])
    if isinstance(value, range):
        return name, value.start, value.stop, value.step
    if isinstance(value, (Size, Slotted)):
        return name, shape(value.width), shape(getattr(value, "unit", None))
    if isinstance(value, memoryview):
        return name, bytes(value)
    if isinstance(value, (datetime.datetime, datetime.time)):
        return name, value.replace(tzinfo=None).isoformat(), value.fold, shape(value.tzinfo)
    if isinstance(value, int) and not isinstance(value, numpy.generic):
        return name, int(value)
    return name, repr(value)
