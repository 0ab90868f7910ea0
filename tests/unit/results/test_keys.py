"""Keys of results: canonical forms, and the arguments of a call that a key includes."""

from __future__ import annotations

import datetime
import functools
import math
import os
import uuid
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from burstcache.core.errors import InvalidSettingError, NoCanonicalFormError
from burstcache.results.expressions import compile_expression
from burstcache.results.keys import KeyMaker, canonical, code_version


class Colour(Enum):
    RED = "red"


@dataclass(frozen=True)
class Size:
    width: int
    unit: str


_UTC_FORM = b'{"$datetime":["2026-01-02T00:00:00",0,{"$timezone":[{"$timedelta":[0,0,0]}]}]}'


@pytest.mark.parametrize(
    ("value", "form"),
    [
        ("a⏎", b"sa\xe2\x8f\x8e"),
        (b"\x00a", b"b\x00a"),
        ({"b": 1, "a": [None, True, 1.5]}, b'{"a":[null,true,1.5],"b":1}'),
        ((1, "é"), '{"$tuple":[1,"é"]}'.encode()),
        ([b"\x0f"], b'[{"$bytes":"Dw=="}]'),
        ({"$bytes": "0f"}, b'{"$$bytes":"0f"}'),
        ({2: "b", 1: "a"}, b'{"$dict":[[1,"a"],[2,"b"]]}'),
        ({3, 1}, b'{"$set":[1,3]}'),
        ([1 << 63, -1 << 63], b'[{"$int":"0x8000000000000000"},{"$int":"-0x8000000000000000"}]'),
        ([math.inf, math.nan], b'[{"$float":"inf"},{"$float":"nan"}]'),
        (Decimal("1.10"), b'{"$Decimal":"1.10"}'),
        (uuid.UUID(int=1), b'{"$UUID":"00000000-0000-0000-0000-000000000001"}'),
        (datetime.date(2026, 1, 2), b'{"$date":"2026-01-02"}'),
        (datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC), _UTC_FORM),
        ([Colour.RED], f'[{{"$Enum":["{__name__}:Colour","RED"]}}]'.encode()),
        (Size(2, "px"), f'{{"$dataclass":["{__name__}:Size",{{"unit":"px","width":2}}]}}'.encode()),
    ],
)
def test_a_value_has_one_canonical_form(value: Any, form: bytes) -> None:
    assert canonical(value) == form


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def _typed(value: Any) -> Any:
    """Return a value that equals another only if the types within are the same, which 1 and True are not."""
    if isinstance(value, dict):
        return {name: _typed(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_typed(each) for each in value]
    return (type(value), repr(value))


@given(_JSON | st.binary(), _JSON | st.binary())
@example("rue", True)
@example("alse", False)
@example("ull", None)
def test_two_values_have_the_same_form_only_if_they_are_the_same(one: Any, other: Any) -> None:
    assert (canonical(one) == canonical(other)) == (_typed(one) == _typed(other))


@given(st.dictionaries(st.text(), st.integers()))
def test_the_order_of_names_does_not_matter(names: dict[str, int]) -> None:
    assert canonical(dict(reversed(names.items()))) == canonical(names)


def test_what_has_no_form_is_named_with_what_is_accepted() -> None:
    with pytest.raises(
        NoCanonicalFormError, match=r"<object.*> of type builtins\.object has no canonical form; accepted"
    ):
        canonical({"deep": [object()]})


def shape(name: str, width: int = 10, *, colour: str = "red") -> None: ...


def variadic(*names: str, **options: int) -> None: ...


def key(maker: KeyMaker, *args: Any, **kwargs: Any) -> str | None:
    return maker.make(args, kwargs)


def test_calls_with_the_same_arguments_have_the_same_key_however_they_are_written() -> None:
    maker = KeyMaker(shape)

    assert key(maker, "a") == key(maker, name="a", width=10) == key(maker, "a", 10, colour="red")
    assert len({key(maker, "a"), key(maker, "b"), key(maker, "a", 11), key(maker, "a", colour="blue")}) == 4


def test_only_chosen_arguments_decide() -> None:
    maker = KeyMaker(shape, arguments=["name", "colour"])

    assert key(maker, "a", 1) == key(maker, "a", 2)
    assert key(maker, "a") != key(maker, "a", colour="blue")


def test_any_number_of_arguments_decides() -> None:
    maker = KeyMaker(variadic)

    keys = {key(maker, "a"), key(maker, "a", "b"), key(maker, "b", "a"), key(maker, a=1), key(maker, a=2)}
    assert len(keys) == 5


def test_a_key_names_its_function() -> None:
    made = key(KeyMaker(shape), "a")

    assert made is not None
    assert made.startswith(f"result:{__name__}.shape:")
    assert len(made.rpartition(":")[2]) == 64


def test_function_version_codec_and_choice_are_part_of_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    def other(name: str, width: int = 10, *, colour: str = "red") -> None: ...

    makers = [
        KeyMaker(shape),
        KeyMaker(other),
        KeyMaker(shape, codec="bytes"),
        KeyMaker(shape, version="1"),
        KeyMaker(shape, version="2"),
        KeyMaker(shape, arguments=["name", "width"]),
        KeyMaker(shape, arguments=["width", "name"]),
    ]
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_VERSION", "7")
    makers.append(KeyMaker(shape))

    assert len({key(maker, "a") for maker in makers}) == len(makers)


def test_a_version_of_ones_own_outlives_a_new_lambda_version(monkeypatch: pytest.MonkeyPatch) -> None:
    before = key(KeyMaker(shape, version="1"), "a")
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_VERSION", "7")

    assert key(KeyMaker(shape, version="1"), "a") == before


def test_another_source_file_is_another_version(tmp_path: Path) -> None:
    def version_of(name: str, text: str) -> list[str]:
        path = tmp_path / name
        path.write_text(text)
        names: dict[str, Any] = {}
        exec(compile(text, str(path), "exec"), names)
        return code_version(names["f"])

    text = "def f(): return helper()\ndef helper(): return 1\n"
    assert version_of("one.py", text) == version_of("two.py", text)
    assert version_of("three.py", text.replace("1", "2")) != version_of("one.py", text)


def test_functions_of_one_name_have_versions_of_their_own() -> None:
    def adder(number: int) -> Any:
        return lambda other: number + other

    def multiplier(number: int) -> Any:
        return lambda other, by=number: by * other

    lambdas = [lambda x: x + 1, lambda x: x + 2, adder(1), adder(2), multiplier(1), multiplier(2)]

    assert len({tuple(code_version(each)) for each in lambdas}) == 6
    assert code_version(adder(1)) == code_version(adder(1))
    assert code_version(multiplier(1)) == code_version(multiplier(1))


def test_what_has_no_form_or_is_not_set_yet_hinders_no_closure() -> None:
    thing = object()

    def outer() -> Any:
        versions = code_version(lambda: (thing, later))
        later = 1
        return versions, later

    assert outer()[0] == outer()[0]


def test_functions_over_instances_of_local_and_derived_classes_have_versions_of_their_own() -> None:
    class Text(str):
        pass

    @dataclass
    class Local:
        number: int

    def over(value: Any) -> Any:
        return lambda: value

    values = [Text("a"), Text("b"), Local(1), Local(2), "c"]
    assert len({tuple(code_version(over(value))) for value in values}) == len(values)


def test_functions_over_other_functions_have_versions_of_their_own() -> None:
    def over(inner: Any) -> Any:
        return lambda x: inner(x)

    def one(x: int) -> int:
        return one(x - 1) if x else 1  # which it closes over

    def other(x: int) -> int:
        return -x

    assert code_version(over(one)) == code_version(over(one))
    assert code_version(over(one)) != code_version(over(other))
    assert code_version(over(over(one))) != code_version(over(over(other)))


def test_a_module_that_is_loaded_again_has_the_version_of_its_new_code(tmp_path: Path) -> None:
    path = tmp_path / "module.py"

    def version_of(text: str, at_ns: int) -> list[str]:
        path.write_text(text)
        os.utime(path, ns=(at_ns, at_ns))
        names: dict[str, Any] = {}
        exec(compile(text, str(path), "exec"), names)
        return code_version(names["f"])

    assert version_of("def f(): return 1", 1_000) != version_of("def f(): return 2", 2_000)
    assert version_of("def f(): return 1", 3_000) == version_of("def f(): return 1", 3_000)


def times(factor: int) -> Any:
    def decorate(function: Any) -> Any:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            return factor * function(*args, **kwargs)

        return call

    return decorate


def test_a_function_beneath_two_decorators_has_two_versions() -> None:
    assert code_version(times(2)(shape)) == code_version(times(2)(shape))
    assert code_version(times(2)(shape)) != code_version(times(3)(shape))
    assert code_version(times(2)(shape)) != code_version(shape)


def with_default(function: Any) -> Any:
    @functools.wraps(function)
    def call(a: int, b: int = 5) -> Any:
        return function(a, b)

    return call


def with_any_default(function: Any) -> Any:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **{"b": 5, **kwargs})

    return call


def pair(a: int, b: int = 1) -> tuple[int, int]:
    return a, b


@pytest.mark.parametrize("decorate", [with_default, with_any_default])
@pytest.mark.parametrize("names", [None, ["a", "b"], ["b.real", "a"]])
def test_a_default_of_a_decorator_is_not_taken_for_that_of_the_function(decorate: Any, names: Any) -> None:
    maker = KeyMaker(decorate(pair), arguments=names)

    assert decorate(pair)(1) == (1, 5)
    assert key(maker, 1) == key(maker, 1) != key(maker, 1, b=1)
    assert names is None or key(maker, a=1) == key(maker, 1)
    assert decorate is with_any_default or key(maker, 1) == key(maker, 1, 5)


def with_session(function: Any) -> Any:
    @functools.wraps(function)
    def call(*args: Any) -> Any:
        return function("session", *args)

    return call


def find(session: str, name: str) -> str:
    return f"{session} {name}"


def test_a_decorator_may_add_arguments() -> None:
    all_decide, one = KeyMaker(with_session(find)), KeyMaker(with_session(find), arguments=["name"])

    assert key(all_decide, "a") == key(all_decide, "a") != key(all_decide, "b")
    assert one.make(("a",), {}) is None  # which of them is the name cannot be known


def test_code_without_a_file_has_a_version_too() -> None:
    names: dict[str, Any] = {}
    exec("def f(): return 1\ndef g(): return 2", names)

    assert code_version(names["f"]) != code_version(names["g"])


EVENT = {"image": {"name": "a", "sizes": [1, 2]}, "body": '{"name": "b"}', "packed": "eyJuYW1lIjogImMifQ=="}


@pytest.mark.parametrize(
    ("expression", "found"),
    [
        ("image.name", "a"),
        ("image.sizes[1]", 2),
        ("[image.name, body]", ["a", '{"name": "b"}']),
        ("json(body).name", "b"),
        ("json(base64(packed)).name", "c"),
        ("json(image.name).name", None),
        ("base64(image.name)", None),
        ("image.name.first", None),
        ("other", None),
        ("json(other)", None),
        ("json(image)", None),
        ("base64(image)", None),
        ("length(other)", None),
    ],
)
def test_an_expression_looks_into_an_event(expression: str, found: Any) -> None:
    assert compile_expression(expression)(EVENT) == found


@pytest.mark.parametrize(
    ("event", "found"),
    [({"a": 1, "b": 2}, [1, 2]), ({"a": "", "b": 2}, None), ({"a": False, "b": 2}, None), ({"a": [], "b": 2}, None),
     ({"a": 0, "b": 2}, [0, 2]), ({"b": 2}, None), ({"a": 1}, None), ({"a": {}, "b": 1}, None)],
)  # fmt: skip
def test_parts_are_no_key_unless_all_are_there(event: dict[str, Any], found: Any) -> None:
    assert compile_expression("a && b && [a, b]")(event) == found


def test_a_condition_that_does_not_hold_is_no_key() -> None:
    search = compile_expression("httpMethod == 'GET' && [path, query]")

    assert search({"httpMethod": "GET", "path": "/", "query": None}) == ["/", None]
    assert search({"httpMethod": "PUT", "path": "/"}) is None


def test_a_plain_path_finds_what_jmespath_finds() -> None:
    for event in (EVENT, None, [1], "text", {"image": ["name"]}):
        assert compile_expression("image.name")(event) == compile_expression("image.name | @")(event)


def test_an_event_that_has_the_property_is_known_by_it_alone() -> None:
    def handler(event: dict[str, Any], context: object) -> None: ...

    maker = KeyMaker(handler, key="image.name")

    assert key(maker, EVENT, object()) == key(maker, {**EVENT, "id": 1}, None)
    assert key(maker, {"image": {}}, None) is None
    assert key(maker, {"image": {"name": False}}, None) is not None


def _rest(method: Any) -> dict[str, Any]:
    return {"id": 1, "httpMethod": method}


def _http(method: Any) -> dict[str, Any]:
    return {"id": 1, "requestContext": {"http": {"method": method}}}


@pytest.mark.parametrize("event", [_rest, _http])
def test_the_method_of_an_http_request_decides_and_one_that_writes_is_not_cached(event: Any) -> None:
    def handler(event: dict[str, Any], context: object = None) -> None: ...

    maker = KeyMaker(handler, key="id")

    kept = [key(maker, event(method)) for method in ("GET", "HEAD", "POST", None)]
    assert None not in kept
    assert len(set(kept)) == 4
    assert key(maker, event("get")) == kept[0]
    assert [key(maker, event(method)) for method in ("PUT", "PATCH", "DELETE", "OPTIONS", "")] == [None] * 5
    assert key(maker, {"id": 1, "requestContext": "none"}) == key(maker, {"id": 1, "requestContext": {"http": 1}})
    assert key(maker, {"id": ["GET", 1]}) != kept[0]


def test_a_key_needs_an_argument_to_look_into() -> None:
    with pytest.raises(InvalidSettingError, match="no argument to search"):
        KeyMaker(lambda: None, key="name")
