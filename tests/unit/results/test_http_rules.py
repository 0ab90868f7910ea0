"""HTTP's rules for a shared cache, by table: what may be kept, for how long, and which requests it answers."""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from burstcache.adapters.clock import Clock
from burstcache.results import Cache, cached, open_cache
from burstcache.results.codecs import NotKeptError
from burstcache.results.http_rules import (
    AnswerLifetime,
    RequestDirectives,
    join_fields,
    life_of_answer,
    may_be_shared,
    request_directives,
    variant,
    varying,
)  # fmt: skip
from burstcache.results.layers import Layers, SharedLayer
from burstcache.results.memory import ResultMemory
from support.clock import ManualClock
from support.result_stores import HeldStore

NOW_S = 1_800_000_000.0
DATE, TEN_S_AGO, IN_A_MINUTE = (
    "Fri, 15 Jan 2027 08:00:00 GMT", "Fri, 15 Jan 2027 07:59:50 GMT", "Fri, 15 Jan 2027 08:01:00 GMT",
)  # fmt: skip


def life(status_code: int = 200, /, **fields: str) -> AnswerLifetime:
    answer = {name.replace("_", "-"): value for name, value in fields.items()}
    return life_of_answer(status_code, answer, ttl_s=300, stale_s=60, now_s=NOW_S)


@pytest.mark.parametrize(
    ("control", "fresh_s", "stale_s"),
    [
        ("", 300, 60),
        ("public", 300, 60),
        ("max-age=10", 10, 60),
        ("MAX-AGE=10", 10, 60),
        ('max-age="10"', 10, 60),
        ("max-age=600", 300, 60),
        ("max-age=600, s-maxage=10", 10, 0),
        ("s-maxage=10, max-age=0", 10, 0),
        ("max-age=10, max-age=20", 10, 60),
        (" , max-age=10 ,, public,", 10, 60),
        ("max-age=10, must-revalidate", 10, 0),
        ("max-age=10, proxy-revalidate", 10, 0),
        ("max-age=10, stale-while-revalidate=5", 10, 5),
        ("max-age=10, stale-while-revalidate=500", 10, 60),
        ("max-age=10, stale-while-revalidate=x", 10, 0),
        ("immutable, no-transform, community=UCI", 300, 60),
    ],
)
def test_an_answer_lives_as_long_as_it_says_and_no_longer_than_the_function(
    control: str, fresh_s: float, stale_s: float
) -> None:
    assert life(cache_control=control) == (fresh_s, stale_s)


@pytest.mark.parametrize(
    ("control", "reason"),
    [
        ("no-store", "no-store"),
        ("NO-STORE", "no-store"),
        ("max-age=10, no-store", "no-store"),
        ("no-store=1", "no-store"),
        ("no-store, must-understand", "no-store"),
        ("private", "private"),
        ('private="x-secret"', "private"),
        ("public, private", "private"),
        ("no-cache", "no-cache"),
        ('no-cache="Set-Cookie, X-A", max-age=10', "no-cache"),
        ("max-age=0", "stale from the start"),
        ("max-age", "stale from the start"),
        ("max-age=", "stale from the start"),
        ("max-age=-1", "stale from the start"),
        ("max-age=1.5", "stale from the start"),
        ("max-age=ten", "stale from the start"),
        ("max-age=600, max-age=x", "stale from the start"),
        ("s-maxage=0, max-age=10", "stale from the start"),
        ("max-age = 10", "no-store"),
        ("max-age=10; no-store", "no-store|stale"),
        ('no-cache="Set-Cookie', "no-store"),
        ("max-age=10 public", "no-store"),
        ("\x00", "no-store"),
    ],
)
def test_an_answer_that_forbids_it_or_cannot_be_parsed_is_not_kept(control: str, reason: str) -> None:
    with pytest.raises(NotKeptError, match=reason):
        life(cache_control=control)


@pytest.mark.parametrize(
    ("fields", "fresh_s"),
    [
        ({"expires": IN_A_MINUTE}, 60),
        ({"expires": "Friday, 15-Jan-27 08:01:00 GMT"}, 60),
        ({"expires": "Fri Jan 15 08:01:00 2027"}, 60),
        ({"expires": IN_A_MINUTE, "date": DATE}, 60),
        ({"expires": IN_A_MINUTE, "date": TEN_S_AGO}, 60),
        ({"expires": IN_A_MINUTE, "cache_control": "max-age=5"}, 5),
        ({"expires": "0", "cache_control": "max-age=5"}, 5),
        ({"cache_control": "max-age=60", "age": "45"}, 15),
        ({"cache_control": "max-age=60", "date": TEN_S_AGO}, 50),
        ({"cache_control": "max-age=60", "date": TEN_S_AGO, "age": "45"}, 15),
        ({"cache_control": "max-age=60", "date": "no date"}, 60),
        ({"date": TEN_S_AGO}, 290),
        ({"age": "45"}, 255),
        ({"cache_control": f"max-age={10**400}"}, 300),
        ({"pragma": "no-cache", "cache_control": "max-age=5"}, 5),
    ],
)
def test_age_date_and_expires_are_counted(fields: dict[str, str], fresh_s: float) -> None:
    assert life(**fields).fresh_s == fresh_s


@pytest.mark.parametrize(
    "fields",
    [
        {"expires": "0"}, {"expires": "-1"}, {"expires": DATE}, {"expires": TEN_S_AGO},
        {"expires": f"{IN_A_MINUTE}, {IN_A_MINUTE}"}, {"expires": IN_A_MINUTE.replace("GMT", "-0100")},
        {"cache_control": "max-age=60", "age": "60"}, {"age": "x"}, {"age": "-1"}, {"age": "1, x"}, {"age": "9" * 20},
        {"pragma": "no-cache"}, {"pragma": "No-Cache"}, {"set_cookie": "a=b"}, {"content_range": "bytes 0-1/9"},
        {"vary": "*"}, {"vary": "accept, *"}, {"vary": "a b"}, {"set_cookie": "", "cache_control": "public"},
    ],
)  # fmt: skip
def test_an_answer_that_is_stale_for_one_client_or_a_part_is_not_kept(fields: dict[str, str]) -> None:
    with pytest.raises(NotKeptError):
        life(**fields)


@pytest.mark.parametrize("status", range(100, 600))
def test_an_answer_is_kept_as_its_status_allows(status: int) -> None:
    def is_kept(**fields: str) -> bool:
        try:
            return life(status, **fields).fresh_s > 0
        except NotKeptError:
            return False

    by_default = status in {200, 203, 204, 300, 301, 308}
    assert is_kept() == by_default
    assert is_kept(cache_control="max-age=10") == (
        by_default or status in {201, 202, 302, 303, 307, 404, 405, 410, 414}
    )
    assert not is_kept(cache_control="max-age=10, no-store")


@pytest.mark.parametrize(
    ("control", "is_shared"),
    [("", False), ("max-age=10", False), ("public", True), ("s-maxage=10", True), ("must-revalidate", True),
     ("proxy-revalidate", False), ('x="public"', False)],
)  # fmt: skip
def test_an_answer_to_one_who_is_authorized_is_shared_only_if_it_says_so(control: str, is_shared: bool) -> None:
    assert may_be_shared({"cache-control": control}) == is_shared


@pytest.mark.parametrize(
    ("answer", "names"),
    [
        ({}, ()),
        ({"vary": ""}, ()),
        ({"vary": "Accept, origin ,ACCEPT"}, ("accept", "origin")),
        ({"content-encoding": "gzip"}, ("accept-encoding",)),
        ({"content-encoding": "identity", "vary": "a"}, ("a",)),
        ({"access-control-allow-origin": "*"}, ()),
        ({"access-control-allow-origin": "https://a"}, ("origin",)),
        ({"content-encoding": "br", "vary": "Accept-Encoding"}, ("accept-encoding",)),
    ],
)
def test_an_answer_names_the_fields_on_which_it_depends(answer: dict[str, str], names: tuple[str, ...]) -> None:
    assert varying(answer) == names


_FIELDS = st.dictionaries(st.sampled_from("ab"), st.sampled_from(["", "x", "y", "x,y", "a:x", "-", "a-"]))


@given(_FIELDS, _FIELDS)
def test_requests_have_one_variant_only_if_they_agree_in_the_fields(one: dict[str, str], other: dict[str, str]) -> None:
    assert (variant("ab", one) == variant("ab", other)) == (one == other)
    assert variant((), one) == "-"


@pytest.mark.parametrize("character", [" ", "\t", '"', "\\", ",", "=", "a"])
def test_a_long_field_is_read_in_linear_time(character: str) -> None:
    begun_s = time.thread_time()
    request_directives({"cache-control": character * 40_000 + "\u00e9"})

    assert time.thread_time() - begun_s < 1  # 7 if each character is looked at for each


def test_white_space_in_a_list_makes_no_variant() -> None:
    assert variant(["a"], {"a": "x, y"}) == variant(["a"], {"a": "x,y"})


def test_fields_of_one_name_are_one_list_whatever_their_case() -> None:
    assert join_fields([("Vary", "a"), ("VARY", "b"), ("Age", "1")]) == {"vary": "a, b", "age": "1"}


@pytest.mark.parametrize(
    ("request_fields", "expected"),
    [
        ({}, RequestDirectives()),
        ({"pragma": "no-cache"}, RequestDirectives(may_use_cached=False)),
        ({"pragma": "no-cache", "cache-control": "max-age=5"}, RequestDirectives(max_age_s=5, max_stale_s=0)),
        ({"cache-control": "no-store"}, RequestDirectives(may_store=False, may_use_cached=False)),
        ({"cache-control": "no-cache"}, RequestDirectives(may_use_cached=False)),
        ({"cache-control": "max-age=0"}, RequestDirectives(may_use_cached=False, max_age_s=0, max_stale_s=0)),
        ({"cache-control": "max-age=x"}, RequestDirectives(may_use_cached=False, max_age_s=0, max_stale_s=0)),
        ({"cache-control": "max-stale"}, RequestDirectives()),
        ({"cache-control": "max-stale=5"}, RequestDirectives(max_stale_s=5)),
        ({"cache-control": "max-age=9, max-stale=5"}, RequestDirectives(max_age_s=9, max_stale_s=5)),
        ({"cache-control": "min-fresh=5"}, RequestDirectives(min_fresh_s=5)),
        ({"cache-control": "min-fresh=x"}, RequestDirectives(min_fresh_s=math.inf)),
        ({"cache-control": "only-if-cached"}, RequestDirectives(only_if_cached=True)),
        ({"cache-control": '"'}, RequestDirectives(may_store=False, may_use_cached=False)),
    ],
)
def test_a_request_says_what_it_wants(request_fields: dict[str, str], expected: RequestDirectives) -> None:
    assert request_directives(request_fields) == expected


@pytest.mark.parametrize(
    ("directives", "age_s", "fresh_s", "is_accepted"),
    [
        (RequestDirectives(), 10, 5, True), (RequestDirectives(), 10, -5, True),
        (RequestDirectives(max_age_s=9), 10, 5, False), (RequestDirectives(max_age_s=10), 10, 5, True),
        (RequestDirectives(min_fresh_s=0), 10, 0, True), (RequestDirectives(min_fresh_s=0), 10, -1, False),
        (RequestDirectives(min_fresh_s=6), 10, 5, False), (RequestDirectives(min_fresh_s=5), 10, 5, True),
        (RequestDirectives(max_stale_s=4), 10, -5, False), (RequestDirectives(max_stale_s=5), 10, -5, True),
    ],
)  # fmt: skip
def test_a_kept_answer_is_what_a_request_wants(
    directives: RequestDirectives, age_s: float, fresh_s: float, is_accepted: bool
) -> None:
    assert directives.accepts(age_s, fresh_s) == is_accepted


class Handler:
    """A cached handler behind API Gateway that answers what it was given, and counts its computations."""

    def __init__(self, clock: Clock | None = None, **options: Any) -> None:
        self.computed: Counter[str] = Counter()

        @cached(key="id", backend=open_cache("memory://", clock=clock), **options)
        def handle(event: dict[str, Any], context: object = None) -> Any:
            self.computed[event["id"]] += 1
            return {**event["answer"], "body": str(event.get("headers"))}

        self.call = handle


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ({"statusCode": 500}, "status 500"),
        ({"statusCode": "500"}, "status 500"),
        ({"statusCode": 404}, "status 404"),
        ({"statusCode": math.inf}, "status 0"),
        ({"statusCode": 10**5000}, "status 0"),
        ({"statusCode": "500 Internal Server Error"}, "status 0"),
        (
            {
                "statusCode": 200,
                "headers": {"Cache-Control": "private"},
                "multiValueHeaders": {"cache-control": ["public"]},
            },
            "Cache-Control: private",
        ),
        ({"statusCode": 206}, "status 206"),
        ({"statusCode": 200, "headers": {"cache-control": "no-store"}}, "Cache-Control: no-store"),
        ({"statusCode": 200, "headers": {"Cache-Control": "private"}}, "Cache-Control: private"),
        (
            {"statusCode": 200, "multiValueHeaders": {"Cache-Control": ["max-age=9", "no-cache"]}},
            "Cache-Control: no-cache",
        ),
        ({"statusCode": 200, "headers": {"Set-Cookie": "a=b"}}, "Set-Cookie"),
        ({"statusCode": 200, "multiValueHeaders": {"set-cookie": ["a=b"]}}, "Set-Cookie"),
        ({"statusCode": 200, "cookies": ["a=b"]}, "Set-Cookie"),
        ({"statusCode": 200, "headers": {"Vary": "*"}}, "Vary: *"),
        ({"statusCode": 200, "headers": {"Cache-Control": "max-age=0"}}, "the answer is stale"),
    ],
)
def test_an_answer_of_a_handler_is_kept_as_http_allows(answer: dict[str, Any], reason: str) -> None:
    handler = Handler()
    for _ in range(2):
        handler.call({"id": "a", "answer": answer})

    assert handler.computed == {"a": 2}
    assert [name for name in handler.call.results.stats()["not_kept"] if name.startswith(reason)]


@pytest.mark.parametrize(
    "answer",
    [
        {"statusCode": 200}, {"statusCode": 200, "headers": None, "multiValueHeaders": None, "cookies": []},
        {"statusCode": 200, "headers": {"Content-Length": 5, "Cache-Control": "max-age=60"}}, {"statusCode": 204},
        {"statusCode": 404, "headers": {"Cache-Control": "max-age=60"}}, {"statusCode": None},
        {"headers": {"Cache-Control": "no-store"}}, {"statusCode": 200, "headers": "none"}, {"status": 500},
    ],
)  # fmt: skip
def test_other_answers_of_a_handler_are_kept(answer: dict[str, Any]) -> None:
    handler = Handler()

    answers = [handler.call({"id": "a", "answer": answer}) for _ in range(2)]

    assert answers[0] == answers[1]
    assert handler.computed == {"a": 1}


def test_clients_that_differ_in_a_field_of_vary_get_answers_of_their_own() -> None:
    handler = Handler()
    answer = {"statusCode": 200, "headers": {"Vary": "Origin"}}

    def ask(origin: str | None, **more: Any) -> str:
        headers = {} if origin is None else {"oRigin": origin}
        body: str = handler.call({"id": "a", "answer": answer, "headers": headers, **more})["body"]
        return body

    for _ in range(3):
        assert [ask(origin) for origin in ("x", "y", None)] == ["{'oRigin': 'x'}", "{'oRigin': 'y'}", "{}"]
    assert handler.computed == {"a": 3}
    assert handler.call.results.stats() == {"computed": 3, "memory": 6}

    handler.call.results.forget({"id": "a"})
    for _ in range(2):
        assert [ask(origin) for origin in ("y", "x", None)] == ["{'oRigin': 'y'}", "{'oRigin': 'x'}", "{}"]
    assert handler.computed == {"a": 6}


def test_cookies_that_an_event_has_apart_from_its_headers_are_a_field_of_vary() -> None:
    handler = Handler()
    answer = {"statusCode": 200, "headers": {"Vary": "Cookie"}}

    for cookies in (["user=a"], ["user=b"], ["user=a"], None, ["user=b", "x=1"], ["user=b"]):
        handler.call({"id": "a", "answer": answer, "cookies": cookies})

    assert handler.computed == {"a": 4}


def test_what_a_client_sends_has_no_answer_of_a_handler_computed_anew() -> None:
    handler = Handler()
    for headers in ({}, {"Cache-Control": "no-cache"}, {"Authorization": "alice"}, {"Pragma": "no-cache"}):
        handler.call({"id": "a", "answer": {"statusCode": 200}, "headers": headers})

    assert handler.computed == {"a": 1}


def test_a_function_without_an_event_returns_what_it_likes() -> None:
    @cached(backend=open_cache("memory://"))
    def status(number: int) -> dict[str, int]:
        return {"statusCode": number}

    status(500), status(500)

    assert status.results.stats() == {"computed": 1, "memory": 1}


def varying_handler(store: HeldStore, calls: list[str], **options: Any) -> Any:
    clock = options.pop("clock", ManualClock(1_000_000.0))
    cache = Cache(Layers(ResultMemory(), [SharedLayer(store, clock)]), clock)

    @cached(key="id", backend=cache, version="1", **options)
    async def handle(event: dict[str, Any], context: object = None) -> Any:
        calls.append(event["headers"]["accept"])
        return {"statusCode": 200, "headers": {"Vary": "Accept"}, "body": event["headers"]["accept"]}

    return handle


def test_another_process_finds_the_answers_to_requests_that_differ() -> None:
    store, calls = HeldStore(), list[str]()
    one, other = varying_handler(store, calls), varying_handler(store, calls)

    async def ask(handler: Any) -> list[str]:
        return [(await handler({"id": 1, "headers": {"accept": each}}))["body"] for each in ("a", "b", "c", "a", "b")]

    assert asyncio.run(ask(one)) == asyncio.run(ask(other)) == ["a", "b", "c", "a", "b"]
    assert calls == ["a", "b", "c"]
    assert one.results.stats() == {"computed": 3, "memory": 2}
    assert other.results.stats() == {"redis": 3, "memory": 2}


def test_requests_that_differ_and_come_at_once_get_answers_of_their_own() -> None:
    calls: list[str] = []
    handler = varying_handler(HeldStore(), calls)

    async def ask() -> list[str]:
        requests = [{"id": 1, "headers": {"accept": each}} for each in "abcabc"]
        return [each["body"] for each in await asyncio.gather(*map(handler, requests))]

    assert asyncio.run(ask()) == list("abcabc")


def test_an_answer_that_must_be_revalidated_is_not_served_stale() -> None:
    clock = ManualClock(1_000_000.0)
    handler = Handler(clock=clock, ttl_s=300, stale_s=60)

    def ask(name: str, control: str) -> None:
        handler.call({"id": name, "answer": {"statusCode": 200, "headers": {"Cache-Control": control}}})

    for _ in range(2):
        ask("strict", "max-age=10, must-revalidate")
        ask("loose", "max-age=10")
        clock.sleep(10)

    assert handler.computed["strict"] == 2
    assert handler.call.results.stats()["stale"] == 1
