"""Forms of values: each accepted value comes back as it was, so that no two have one form or one key."""

from __future__ import annotations

import datetime
import json
import pickle
import subprocess
import sys
import zoneinfo
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Any, Generic, NamedTuple, TypeVar

import numpy
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from burstcache.core.errors import NoCanonicalFormError
from burstcache.results.codecs import NotKeptError, json_codec
from burstcache.results.errors import CachedErrors
from burstcache.results.forms import CLASS_FORMS
from burstcache.results.keys import KeyMaker, canonical
from burstcache.results.result_classes import ResultClasses
from burstcache.results.type_forms import FORMS
from support import forms
from support.project import ROOT
from support.searches import search


def codec() -> Any:
    return json_codec(ResultClasses(lambda: None))


# Some types are not of this system or version.
@pytest.mark.parametrize("name", [name for name in forms.ALL_FORMS if not forms.values_of(name).is_empty])
@search(20)
@given(data=st.data())
def test_each_type_has_a_form_from_which_a_value_comes_back(name: str, data: st.DataObject) -> None:
    value, read = data.draw(forms.values_of(name)), codec()

    found = read.decode(read.encode(value))

    assert forms.shape(found) == forms.shape(value)
    assert name in CLASS_FORMS or type(value) is forms.type_of(name)


@pytest.mark.slow
@search(1_000)
@given(forms.values())
def test_any_value_comes_back_equal_and_of_the_same_types(value: Any) -> None:
    read = codec()

    assert forms.shape(read.decode(read.encode(value))) == forms.shape(value)


@pytest.mark.slow
@search(1_000)
@given(forms.values(), forms.values())
def test_values_have_one_key_only_if_they_are_the_same(one: Any, other: Any) -> None:
    assert (canonical(one) == canonical(other)) == (forms.shape(one) == forms.shape(other))


@pytest.mark.slow
@search(300)
@given(st.lists(forms.values(), min_size=2, max_size=3), st.lists(forms.values(), min_size=2, max_size=3))
def test_calls_have_one_key_only_if_their_arguments_are_the_same(one: list[Any], other: list[Any]) -> None:
    def function(*positional: Any, **named: Any) -> None: ...

    maker = KeyMaker(function)

    def key(arguments: list[Any], is_named: bool) -> str | None:
        names = {f"n{number}": each for number, each in enumerate(arguments)}
        return maker.make((), names) if is_named else maker.make(tuple(arguments), {})

    assert key(one, True) != key(one, False)
    assert (key(one, False) == key(other, False)) == (forms.shape(one) == forms.shape(other))


@pytest.mark.slow
@search(500)
@given(forms.values())
def test_a_value_that_is_sent_to_another_process_has_the_same_key_there(value: Any) -> None:
    try:
        sent = pickle.dumps(value)
    except (TypeError, pickle.PicklingError):  # a memoryview cannot be sent
        return

    assert canonical(pickle.loads(sent)) == canonical(value)


class Loud(str):
    """A text with a notion of equality of its own."""


class Bag(Mapping[str, Any]):
    def __getitem__(self, name: str) -> Any:
        return name

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


@dataclass(eq=False)
class Identity:
    width: int


@dataclass
class Base:
    width: int


class Undecorated(Base):
    def __init__(self, width: int, height: int) -> None:
        super().__init__(width)
        self.height = height


@dataclass
class Names(dict[str, int]):
    width: int = 1


@dataclass
class OwnEquality:
    width: int

    def __post_init__(self) -> None:
        self.seen = object()

    def __eq__(self, other: object) -> bool:
        return self is other


class Tuple(NamedTuple("Tuple", [("x", int)])):
    """Has a dictionary."""


def _same_name(value: int) -> Any:
    class Hidden(Enum):
        RED = value

    return Hidden.RED


def _with(thing: Any, **attributes: Any) -> Any:
    vars(thing).update(attributes)
    return thing


REFUSED = [
    object(), Loud("a"), Bag(), Identity(1), Undecorated(1, 2), Names(), OwnEquality(1), _with(Tuple(1), y=2),
    _same_name(1), int, len, memoryview(b"ab").cast("H"), zoneinfo.ZoneInfo.no_cache("UTC"),
    datetime.datetime(2026, 1, 1, tzinfo=type("Zone", (datetime.tzinfo,), {})()),
    defaultdict(lambda: 1), type("int", (int,), {})(1), type("Decimal", (), {})(),
]  # fmt: skip


@pytest.mark.parametrize("value", REFUSED, ids=lambda value: type(value).__name__)
def test_what_cannot_be_told_apart_is_refused_by_its_type(value: Any) -> None:
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    for nested in (value, [value], {"a": (value,)}):
        if not isinstance(value, datetime.datetime):
            with pytest.raises(NoCanonicalFormError, match=kind.replace("<", ".")):
                canonical(nested)
        with pytest.raises(NotKeptError):
            codec().encode(nested)


class Found(Enum):
    """Has members that are made as they are asked for."""

    ONE = 1

    @classmethod
    def _missing_(cls, value: Any) -> Any:
        member = object.__new__(cls)
        member._name_, member._value_ = "ONE", value
        return member


class Sized(pydantic.BaseModel):
    width: int


class Broken(Sized):
    """Raises for what it has."""

    def __getattribute__(self, name: str) -> Any:
        if name == "__dict__":
            raise OSError("it is gone")
        return super().__getattribute__(name)


@pytest.mark.parametrize("value", [Found(2), Sized.model_construct(), Broken(width=1)], ids=["enum", "lacks", "raises"])
def test_what_would_not_come_back_is_refused_before_it_is_stored(value: Any) -> None:
    with pytest.raises(NotKeptError, match=type(value).__qualname__):
        codec().encode([value])
    with pytest.raises(NoCanonicalFormError):
        canonical([value])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (numpy.bytes_(b"a\0"), numpy.bytes_(b"a")),
        (numpy.str_("a\0"), numpy.str_("a")),
        (memoryview(b"abcd")[::2], memoryview(b"abcd")[1::2]),
    ],
)
def test_each_byte_of_a_value_counts(one: Any, other: Any) -> None:
    assert canonical(one) != canonical(other)
    assert codec().decode(codec().encode(one)) == one


T = TypeVar("T")


class Page(pydantic.BaseModel, Generic[T]):
    items: list[T]


@dataclass
class Box(Generic[T]):
    item: T


def test_generic_classes_have_names_wherever_their_parameters_are_given() -> None:
    of_int, of_model = Page[int](items=[1]), Page[Sized](items=[Sized(width=1)])

    for value in (of_int, of_model, Page[Page[Sized]](items=[of_model]), Box[int](1)):
        made = codec()
        found = made.decode(made.encode(value))
        assert (type(found), found) == (type(value), value)
    assert canonical(of_int) != canonical(Page[float](items=[1]))
    with pytest.raises(NotKeptError, match="a class that its module does not have under its name"):
        codec().encode(Page[list[int]](items=[[1]]))


def test_a_generic_class_of_the_return_annotation_is_found_in_another_process() -> None:
    def function() -> Page[Sized]:
        return Page[Sized](items=[Sized(width=1)])

    payload = codec().encode(function())

    assert json_codec(ResultClasses(function)).decode(payload) == function()


@dataclass
class Repository:
    table: str

    def __post_init__(self) -> None:
        self.client = object()

    @cached_property
    def title(self) -> str:
        return self.table.title()


def test_fields_alone_decide_a_key_and_what_is_no_field_keeps_a_result_from_being_kept() -> None:
    assert canonical(Repository("a")) == canonical(Repository("a")) != canonical(Repository("b"))
    with pytest.raises(NotKeptError, match="whose attribute 'client' is not a field"):
        codec().encode(Repository("a"))


def test_a_computed_property_is_computed_again() -> None:
    value, made = Repository("a"), codec()
    del value.client
    payload = made.encode(value)
    assert value.title == "A"

    assert made.encode(value) == payload
    assert made.decode(payload) == value


def codec_of(value: Any) -> bytes:
    made: bytes = codec().encode(value)
    return made


@pytest.mark.slow
def test_forms_are_the_same_in_another_process() -> None:
    program = f"""
import sys; sys.path += [{str(ROOT / "tests")!r}, {str(ROOT / "src")!r}]
from support.forms import *; from burstcache.results.keys import canonical
import decimal, fractions, ipaddress
print([canonical(value) for value in [
    frozenset("abcdefgh"), {{Colour.RED, Level.LOW, Size(1)}}, dict(b=1, a={{2, "c", None}}), Model(width=set("abcd")),
    Open(b=1, a=2), decimal.Decimal("1.10"), fractions.Fraction(1, 3), ipaddress.ip_address("::1"), Right(3),
]])
"""

    texts = {
        subprocess.run(
            [sys.executable, "-c", program], env={"PYTHONHASHSEED": seed}, stdout=subprocess.PIPE, check=True
        ).stdout
        for seed in ("1", "2")
    }

    assert len(texts) == 1


class Inner(NamedTuple):
    colour: forms.Colour


@dataclass
class Outer:
    inners: list[Inner]
    size: forms.Size | None = None


class Unrelated(Enum):
    ONE = 1


def annotated() -> dict[str, Outer]:
    return {}


def test_classes_are_those_that_the_return_annotation_leads_to() -> None:
    value = {"a": Outer([Inner(forms.Colour.RED)], forms.Area(1))}
    payload = codec_of(value)

    assert json_codec(ResultClasses(annotated)).decode(payload) == value
    with pytest.raises(LookupError, match=r"Outer is not in the function's .*; annotate it: -> Outer$"):
        codec().decode(payload)


def test_a_class_that_was_returned_in_this_process_is_known() -> None:
    made = codec()
    payload = made.encode(Unrelated.ONE)

    assert made.decode(payload) is Unrelated.ONE


@pytest.mark.parametrize(
    "plain",
    [
        {"$Enum": ["os:PathLike", "x"]}, {"$dataclass": ["subprocess:Popen", {"args": "true"}]}, {"$os.system": "true"},
        {"$dataclass": [f"{__name__}:Outer", {"inners": []}]}, {"$namedtuple": [f"{__name__}:Inner", [1, 2]]},
        {"$model": [f"{__name__}:Outer", {}]}, {"$Enum": [f"{__name__}:Outer", "x"]}, {"$defaultdict": ["eval", {}]},
        {"$set": [{}]}, {"$Decimal": "x"}, {"$Decimal": []}, {"$datetime": []}, {"$": 1}, {"$ZoneInfo": "../../passwd"},
        {"$bytes": "é"}, {"$unknown": 1}, {"$int": "zz"}, {"$UUID": 1}, {"$dict": 1},
    ],
)  # fmt: skip
def test_a_stored_form_runs_and_imports_nothing_of_its_own_choice(plain: Any) -> None:
    before = set(sys.modules)

    with pytest.raises(Exception):  # noqa: B017, PT011  (any error: the result is computed anew)
        json_codec(ResultClasses(annotated)).decode(json.dumps(plain).encode())

    assert {name for name in set(sys.modules) - before if name.partition(".")[0] not in _LIBRARIES} == set()


_LIBRARIES = {each.module.partition(".")[0] for each in FORMS.values()} | {"encodings", "importlib"}


def test_nothing_that_is_nested_too_deep_is_kept() -> None:
    circle: list[Any] = []
    circle.append((circle,))

    with pytest.raises(NotKeptError, match="contains itself"):
        codec().encode(circle)


class Odd(dict[str, Any]):
    pass


class OddNumber(int):
    pass


def test_an_answer_that_becomes_json_in_any_case_is_kept_as_json_has_it() -> None:
    answer = {
        "headers": defaultdict(lambda: "", a="b"),
        "n": OddNumber(2),
        "t": Loud("x"),
        "f": type("F", (float,), {})(-0.0),
    }
    read = json_codec(ResultClasses(lambda: None), is_answer=True)

    found = read.decode(read.encode(Odd(answer)))

    assert found == {"headers": {"a": "b"}, "n": 2, "t": "x", "f": 0.0}
    assert [type(each) for each in (found, *found.values())] == [dict, dict, int, str, float]
    assert json.dumps(found) == json.dumps(answer)


def test_arguments_of_exceptions_have_forms_too() -> None:
    errors = CachedErrors({ValueError: 5}, codec())
    error = ValueError(forms.Colour.RED, (1, 2))

    found = errors.decode(errors.encode(error))

    assert found.args == error.args
