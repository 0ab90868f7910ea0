"""The decorator for cached functions, with memory alone."""

from __future__ import annotations

import asyncio
import copy
import inspect
import itertools
import logging
import pickle
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from functools import partial
from http import HTTPStatus
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from burstcache import logs
from burstcache.adapters import single_flight
from burstcache.core.errors import InvalidSettingError, NoCanonicalFormError
from burstcache.forks import after_fork
from burstcache.results import Cache, cached, open_cache, steps
from burstcache.results import cache as results_cache
from burstcache.results.keys import KeyMaker
from support.clock import ManualClock
from support.interruptions import interrupt_at
from support.waiting import LIMIT_S, until


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1_000_000.0)


@pytest.fixture
def cache(clock: ManualClock) -> Cache:
    return open_cache("memory://", clock=clock)


class Calls:
    """Recorder of a function's calls."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def __call__(self, argument: Any) -> Any:
        self.calls.append(argument)
        return argument


@pytest.fixture
def calls() -> Calls:
    return Calls()


def test_a_second_call_with_the_same_arguments_is_not_computed(cache: Cache, calls: Calls) -> None:
    @cached(backend=cache)
    def double(number: int, *, by: int = 2) -> int:
        calls(number)
        return number * by

    assert [double(4), double(4), double(number=4), double(4, by=2)] == [8] * 4
    assert calls.calls == [4]
    assert double(4, by=3) == 12


def test_a_result_is_computed_anew_after_its_time(cache: Cache, clock: ManualClock, calls: Calls) -> None:
    echo = cached(backend=cache, ttl_s=10)(lambda text: calls(text))
    echo("a")

    clock.sleep(9.9)
    echo("a")
    assert calls.calls == ["a"]

    clock.sleep(0.1)
    echo("a")
    assert calls.calls == ["a", "a"]


def test_a_stale_result_is_served_while_it_is_computed_anew(cache: Cache, clock: ManualClock) -> None:
    numbers = iter(range(10))
    count = cached(backend=cache, ttl_s=10, stale_s=60)(lambda: next(numbers))
    count()
    clock.sleep(10)

    assert count() == 0
    assert until(lambda: count() == 1)
    assert count.results.stats()["computed"] == 1


def test_what_a_caller_changes_in_a_result_no_other_caller_sees(cache: Cache) -> None:
    @cached(backend=cache)
    def numbers() -> list[int]:
        return [1, 2]

    numbers().append(3)
    numbers().append(4)

    assert numbers() == [1, 2]


@pytest.mark.parametrize("negative_ttl_s", [0, 10])
def test_none_is_kept_only_for_the_time_of_negative_results(cache: Cache, calls: Calls, negative_ttl_s: int) -> None:
    @cached(backend=cache, negative_ttl_s=negative_ttl_s)
    def find(name: str) -> None:
        calls(name)

    find("a")
    find("a")

    assert len(calls.calls) == (1 if negative_ttl_s else 2)


def test_an_exception_is_kept_if_its_class_is_named(cache: Cache, clock: ManualClock, calls: Calls) -> None:
    @cached(backend=cache, exceptions={LookupError: 5})
    def find(name: str) -> str:
        raise calls(KeyError if name == "absent" else ValueError)(name)

    for name, kind in [("absent", KeyError), ("absent", KeyError), ("bad", ValueError), ("bad", ValueError)]:
        with pytest.raises(kind, match=name):
            find(name)
    assert calls.calls == [KeyError, ValueError, ValueError]

    clock.sleep(5)
    with pytest.raises(KeyError):
        find("absent")
    assert calls.calls.count(KeyError) == 2


def test_a_result_of_an_unknown_type_is_returned_and_not_kept(cache: Cache, calls: Calls) -> None:
    thing = cached(backend=cache)(lambda number: [calls(object())])

    assert thing(1) != thing(1)
    assert thing.results.stats() == {"computed": 2, "not_kept": {"type builtins.object": 2}}


def test_an_exception_comes_back_with_arguments_of_the_same_types(cache: Cache) -> None:
    @cached(backend=cache, exceptions={ValueError: 5})
    def fail() -> None:
        raise ValueError(HTTPStatus.NOT_FOUND, Decimal("1.10"))

    for _ in range(2):
        with pytest.raises(ValueError, match="404") as raised:
            fail()
        assert raised.value.args == (HTTPStatus.NOT_FOUND, Decimal("1.10"))
        assert raised.value.args[0] is HTTPStatus.NOT_FOUND
    assert fail.results.stats() == {"computed": 1, "memory": 1}


class StatusError(Exception):
    """An exception whose status is no argument of `Exception`."""

    def __init__(self, message: str, status: int = 500) -> None:
        super().__init__(message)
        self.status = status


@pytest.mark.parametrize(
    ("error", "attribute"), [(StatusError("gone", 404), "status"), (FileNotFoundError(2, "no", "a.txt"), "filename")]
)
def test_an_exception_that_would_lose_an_attribute_is_raised_and_not_kept(
    cache: Cache, error: Exception, attribute: str
) -> None:
    @cached(backend=cache, exceptions={StatusError: 5, OSError: 5})
    def fail() -> None:
        raise error

    for _ in range(2):
        with pytest.raises(type(error)) as raised:
            fail()
        assert getattr(raised.value, attribute) in (404, "a.txt")
    assert fail.results.stats() == {"computed": 2, "not_kept": {f"exception {type(error).__name__}": 2}}


def test_a_result_above_the_limit_is_returned_and_not_kept(cache: Cache) -> None:
    fill = cached(backend=cache, codec="bytes", max_bytes=10)(lambda size: bytes(size))

    assert [len(fill(size)) for size in (10, 10, 11, 11)] == [10, 10, 11, 11]
    assert fill.results.stats() == {"computed": 3, "memory": 1, "not_kept": {"larger than max_bytes=10": 2}}


def test_an_event_without_what_the_key_names_is_not_cached(cache: Cache, calls: Calls) -> None:
    @cached(backend=cache, key="image.name")
    def handler(event: dict[str, Any], context: object) -> Any:
        return calls(event.get("other", 0))

    assert [handler({"other": 1}, None), handler({"other": 2}, None)] == [1, 2]
    assert [handler({"image": {"name": "a"}, "other": each}, object()) for each in (3, 4)] == [3, 3]
    assert handler.results.stats() == {"bypassed": 2, "computed": 1, "memory": 1}


class Shop:
    def __init__(self, name: str) -> None:
        self.name = name

    @cached(arguments=["self.name", "item"])
    def price(self, item: str) -> str:
        return f"{item} at {self.name}"

    @cached()
    def address(self) -> str:
        return self.name


def test_a_methods_self_is_an_argument_whose_attributes_can_be_named() -> None:
    assert [Shop(name).price("tea") for name in ("a", "b", "a")] == ["tea at a", "tea at b", "tea at a"]
    assert Shop.price.results.stats() == {"computed": 2, "memory": 1}


class Market:
    def __init__(self, name: str) -> None:
        self.name = name

    @cached(arguments=["self.name", "item"])
    def price(self, item: str) -> str:
        return f"{item} at {self.name}"

    @cached(arguments=["-self", "page"])
    async def listing(self, page: int = 1) -> str:
        """List items."""
        return f"page {page}"

    @classmethod
    @cached(arguments=["cls.__name__", "number"])
    def branch(cls, number: int = 1) -> str:
        return f"{cls.__name__} {number}"


def test_a_bound_method_forgets_the_result_of_its_own_instance() -> None:
    a, b = Market("a"), Market("b")
    a.price("milk"), b.price("milk")

    assert a.price.results.key("milk") == Market.price.results.key(a, "milk") != b.price.results.key("milk")
    assert a.price.results.forget("milk")

    assert (a.price("milk"), b.price("milk")) == ("milk at a", "milk at b")
    assert a.price.results.stats() == {"computed": 3, "memory": 1}


def test_a_default_beside_self_is_not_taken_for_the_argument_to_forget() -> None:
    market = Market("a")
    asyncio.run(market.listing(1)), asyncio.run(market.listing(2))

    market.listing.results.forget(2)

    asyncio.run(market.listing(1)), asyncio.run(market.listing(2))
    assert Market.listing.results.stats() == {"computed": 3, "memory": 1}


def test_a_method_that_is_not_bound_needs_its_instance_or_class_to_forget() -> None:
    branch: Any = Market.branch
    assert branch(2) == "Market 2"
    with pytest.raises(TypeError, match=r"Market\.listing: self=2; the first argument must be a Market"):
        Market.listing.results.forget(2)
    with pytest.raises(TypeError, match=r"Market\.branch: cls=2; the first argument must be Market or a subclass"):
        branch.results.forget(2)

    assert branch.results.forget(Market, 2)
    branch(2)
    assert branch.results.stats() == {"computed": 2}


def test_a_cached_method_is_as_plain_ones_to_python() -> None:
    market = Market("a")
    is_coroutine: Callable[[Any], bool] = inspect.iscoroutinefunction

    assert market.listing == market.listing != Market("a").listing
    assert len({market.listing, market.listing}) == 1
    assert is_coroutine(market.listing)
    assert is_coroutine(Market.listing)
    assert str(inspect.signature(market.listing)) == "(page: 'int' = 1) -> 'str'"
    assert (market.listing.__name__, market.listing.__doc__) == ("listing", "List items.")  # type: ignore[attr-defined]
    assert pickle.loads(pickle.dumps(Market.listing)) is copy.deepcopy(Market.listing) is Market.listing


def test_a_method_whose_key_lacks_self_warns_once_where_it_is_decorated() -> None:
    with pytest.warns(UserWarning, match=r"Shop\.price: arguments=\['item'\] lacks 'self', so all instances") as warned:

        class Shop:
            @cached(arguments=["item"])
            def price(self, item: str) -> int:
                return id(self)

    one, other = Shop(), Shop()

    assert one.price("tea") == other.price("tea") == id(one)
    assert [Path(each.filename).name for each in warned] == [Path(__file__).name]


def test_a_class_method_whose_key_lacks_the_class_warns() -> None:
    with pytest.warns(UserWarning, match=r"lacks 'cls', so all classes share results; .* '-cls' if they should"):

        class Shop:
            @classmethod
            @cached(arguments=["item"])
            def price(cls, item: str) -> str:
                return item


def test_results_that_instances_share_on_purpose_need_no_warning() -> None:
    class Shop:
        def __init__(self, name: str) -> None:
            self.name = name

        @cached(arguments=["-self", "item"])
        def price(self, item: str) -> str:
            return f"{item} at {self.name}"

        @cached(arguments=["-self"])
        def tax(self) -> str:
            return f"19 % at {self.name}"

        @staticmethod
        @cached(arguments=["item"])
        def weight(item: str) -> str:
            return item

    @cached(arguments=["item"])
    def size(self: Any, item: str) -> str:  # no method
        return f"{item} of {self}"

    a, b = Shop("a"), Shop("b")

    assert [b_or_a.price("tea") for b_or_a in (a, b)] == ["tea at a"] * 2
    assert (a.tax(), b.tax(), Shop.weight("tea"), size(1, "tea"), size(2, "tea")) == (
        "19 % at a",
        "19 % at a",
        "tea",
        "tea of 1",
        "tea of 1",
    )


def test_what_is_left_out_by_name_does_not_change_the_key() -> None:
    class Shop:
        def price(self, item: str) -> str:
            return item

    without, named = (KeyMaker(Shop.price, arguments=names) for names in (["item"], ["-self", "item"]))

    assert without.make((1, "tea"), {}) == named.make((2, "tea"), {})
    with pytest.raises(InvalidSettingError, match="has no argument '-item'"):
        KeyMaker(Shop.price, arguments=["-item"])


def test_a_method_that_does_not_say_what_of_self_decides_is_an_error() -> None:
    with pytest.raises(NoCanonicalFormError, match=r"type .*\.Shop has no .*=\['self\.name'\], or \['-self'\] if all"):
        Shop("a").address()


@pytest.mark.parametrize("context", ["context", "_context", "_"])
def test_a_handler_whose_context_would_be_part_of_the_key_is_refused_where_it_is_decorated(context: str) -> None:
    handler = eval(f"lambda event, {context}: event")

    with pytest.raises(
        InvalidSettingError, match=r"a Lambda context has no canonical form; accepted: key=…, .*'event'"
    ):
        cached(handler)
    assert cached(arguments=["event"])(handler)("a", object()) == "a"


def test_a_context_that_is_no_lambda_context_may_be_part_of_the_key() -> None:
    render = cached(lambda template, context: template.format(**context))

    assert render("{a}", {"a": 1}) == render("{a}", {"a": 1}) == "1"
    assert render.results.stats() == {"computed": 1, "memory": 1}


def test_threads_that_miss_the_same_key_wait_for_one_computation(cache: Cache) -> None:
    may_end, began = threading.Event(), threading.Event()

    @cached(backend=cache)
    def slow(name: str) -> list[str]:
        began.set()
        may_end.wait()
        return [name]

    with ThreadPoolExecutor(8) as threads:
        first = threads.submit(slow, "a")
        began.wait()
        others = [threads.submit(slow, "a") for _ in range(7)]
        may_end.set()
        answers = [each.result() for each in (first, *others)]

    assert answers == [["a"]] * 8
    assert len({id(each) for each in answers}) == 8
    assert slow.results.stats()["computed"] == 1


def test_callers_that_waited_for_what_is_not_kept_get_results_of_their_own(cache: Cache) -> None:
    may_end, began = threading.Event(), threading.Event()

    @cached(backend=cache)
    def slow() -> tuple[list[int], object]:
        began.set()
        may_end.wait()
        return [1], object

    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(slow)
        began.wait()
        second = threads.submit(slow)
        may_end.set()

    assert first.result() == second.result()
    assert first.result()[0] is not second.result()[0]


def test_a_function_that_calls_itself_with_the_same_key_waits_for_nobody(cache: Cache) -> None:
    @cached(key="name", backend=cache)
    def walk(event: dict[str, Any]) -> int:
        return walk({**event, "left": event["left"] - 1}) + 1 if event["left"] else 0

    @cached(key="name", backend=cache)
    async def awaited(event: dict[str, Any]) -> int:
        return await awaited({**event, "left": event["left"] - 1}) + 1 if event["left"] else 0

    with ThreadPoolExecutor(1) as thread:
        assert thread.submit(walk, {"name": "a", "left": 3}).result(LIMIT_S) == 3
    assert asyncio.run(asyncio.wait_for(awaited({"name": "a", "left": 3}), LIMIT_S)) == 3
    assert walk({"name": "a", "left": 0}) == 3


def test_a_function_that_calls_itself_while_it_is_revalidated_waits_for_nobody(
    cache: Cache, clock: ManualClock
) -> None:
    ended: list[int] = []

    @cached(key="name", backend=cache, ttl_s=10, stale_s=60, wait_s=2 * LIMIT_S)
    def walk(event: dict[str, Any]) -> int:
        left: int = event["left"]
        if left:
            clock.sleep(100)  # so that no stale result is left
            left = walk({**event, "left": left - 1}) + 1
        ended.append(left)
        return left

    walk({"name": "a", "left": 0})
    clock.sleep(10)
    stale = walk({"name": "a", "left": 1})
    until(lambda: len(ended) == 3)

    assert (stale, ended) == (0, [0, 0, 1])


@pytest.mark.parametrize("module", [single_flight, results_cache], ids=["single_flight", "cache"])
def test_wherever_a_call_is_interrupted_the_next_one_computes(clock: ManualClock, module: ModuleType) -> None:
    for number in itertools.count():
        cache = open_cache("memory://", clock=clock)
        echo = cached(backend=cache, wait_s=LIMIT_S)(lambda text: text)
        key = str(echo.results.make_key(("a",), {}))
        interrupted = interrupt_at(number, module, partial(echo, "a"))

        assert not cache.is_computing(key), number
        if interrupted is None:
            break

    assert number > 5


def test_a_flow_that_is_interrupted_between_two_steps_is_closed() -> None:
    class Interrupted:
        is_closed = False

        def __next__(self) -> steps.Step:
            return steps.Sleep(0)

        def send(self, _: object) -> steps.Step:
            raise KeyboardInterrupt

        def close(self) -> None:
            self.is_closed = True

    flow: Any = Interrupted()
    with pytest.raises(KeyboardInterrupt):
        steps.run(flow)

    assert flow.is_closed


def test_functions_that_wait_for_each_other_do_so_no_longer_than_they_may(cache: Cache) -> None:
    both_began = threading.Barrier(2)

    def visit(here: str, there: str, is_first: bool) -> Any:
        if is_first:
            both_began.wait(LIMIT_S)
            return here + call(there, here, False)
        return here

    call: Any = cached(arguments=["here"], backend=cache, wait_s=0.05)(visit)
    with ThreadPoolExecutor(2) as threads:
        ends = [threads.submit(call, here, there, True) for here, there in (("a", "b"), ("b", "a"))]

        assert [end.result(LIMIT_S)[0] for end in ends] == ["a", "b"]


def test_an_argument_that_is_too_deep_for_a_key_is_not_cached(cache: Cache, calls: Calls) -> None:
    circle: list[Any] = []
    circle.append(circle)
    echo = cached(backend=cache)(lambda value: calls(value))

    assert echo(circle) is echo(circle)
    assert echo.results.stats() == {"bypassed": 2}


def test_a_generator_is_refused_as_it_can_be_read_once() -> None:
    def numbers() -> Iterator[int]:
        yield 1

    with pytest.raises(InvalidSettingError, match="no generator"):
        cached()(numbers)


def test_tasks_that_miss_the_same_key_wait_for_one_computation(cache: Cache, calls: Calls) -> None:
    @cached(backend=cache)
    async def slow(name: str) -> Any:
        await asyncio.sleep(0)
        return calls(name)

    async def ask() -> list[Any]:
        return await asyncio.gather(*(slow("a") for _ in range(20)))

    assert asyncio.run(ask()) == ["a"] * 20
    assert calls.calls == ["a"]


def test_a_cancelled_computation_is_taken_over_by_who_waited_for_it(cache: Cache) -> None:
    async def ask() -> list[Any]:
        began, may_end = asyncio.Event(), asyncio.Event()
        computed = []

        @cached(backend=cache)
        async def slow() -> int:
            began.set()
            computed.append(1)
            await may_end.wait()
            return len(computed)

        first = asyncio.create_task(slow())
        await began.wait()
        second = asyncio.create_task(slow())
        await asyncio.sleep(0)
        first.cancel()
        may_end.set()
        return list(await asyncio.gather(first, second, return_exceptions=True))

    first, second = asyncio.run(ask())

    assert isinstance(first, asyncio.CancelledError)
    assert second == 2


def test_an_error_that_is_not_kept_reaches_all_who_waited(cache: Cache, calls: Calls) -> None:
    @cached(backend=cache)
    async def fail() -> None:
        await asyncio.sleep(0)
        calls(1)
        raise ValueError("no")

    async def ask() -> list[Any]:
        return list(await asyncio.gather(*(fail() for _ in range(3)), return_exceptions=True))

    assert [str(each) for each in asyncio.run(ask())] == ["no"] * 3
    assert calls.calls == [1]


def test_forget_removes_the_result_of_one_call(cache: Cache, calls: Calls) -> None:
    echo = cached(backend=cache)(lambda text: calls(text))
    echo("a"), echo("b")

    echo.results.forget("a")
    echo("a"), echo("b")

    assert calls.calls == ["a", "b", "a"]


def test_a_call_that_has_no_key_cannot_be_forgotten(cache: Cache) -> None:
    @cached(key="id", backend=cache)
    def handler(event: dict[str, Any], context: object) -> Any:
        return event

    assert handler.results.key({}, None) is None
    assert handler.results.forget({}, None) is False
    assert handler.results.forget({"id": 1}, None) is True


def test_what_is_forgotten_while_it_is_computed_is_neither_kept_nor_waited_for(cache: Cache, calls: Calls) -> None:
    may_end, began = threading.Event(), threading.Event()

    @cached(backend=cache)
    def read(name: str) -> int:
        calls(name)
        version = len(calls.calls)
        if version == 1:
            began.set()
            may_end.wait(LIMIT_S)
        return version

    with ThreadPoolExecutor(1) as thread:
        older = thread.submit(read, "a")
        began.wait()
        read.results.forget("a")
        newer = read("a")
        may_end.set()

        assert (older.result(), newer, read("a")) == (1, 2, 2)


def test_what_a_function_that_calls_itself_returns_is_not_kept_if_it_was_forgotten(cache: Cache) -> None:
    @cached(key="name", backend=cache)
    def read(event: dict[str, Any]) -> int:
        if event["left"]:
            return read({**event, "left": event["left"] - 1})
        read.results.forget(event)
        return 1

    read({"name": "a", "left": 1})
    read({"name": "a", "left": 0})

    assert read.results.stats() == {"computed": 3}


def test_pickle_is_refused_where_others_can_write() -> None:
    with pytest.raises(InvalidSettingError, match="codec='pickle' would run code that others stored"):
        cached(codec="pickle", backend="redis://localhost")(lambda: 1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ttl_s": 0}, "ttl_s=0; accepted"),
        ({"ttl_s": "300"}, "ttl_s='300'; accepted"),
        ({"ttl_s": float("nan")}, "ttl_s=nan; accepted"),
        ({"ttl_s": 1e300}, "ttl_s=1e\\+300; accepted"),
        ({"stale_s": -1}, "stale_s=-1; accepted"),
        ({"wait_s": -1}, "wait_s=-1; accepted"),
        ({"max_bytes": 0}, "max_bytes=0; accepted"),
        ({"max_bytes": "1mb"}, "max_bytes='1mb'; accepted"),
        ({"timeout_ms": 0}, "timeout_ms=0; accepted"),
        ({"timeout_ms": "100"}, "timeout_ms='100'; accepted"),
        ({"version": 2}, "version=2; accepted"),
        ({"codec": "xml"}, "codec='xml'; accepted: json, bytes, pickle"),
        ({"codec": ["json"]}, "codec=\\['json'\\]; accepted: json, bytes, pickle"),
        ({"compress_above_bytes": 1, "compression": "lzw"}, "compression='lzw'; accepted: zlib, zstd"),
        ({"compress_above_bytes": "1kb"}, "compress_above_bytes='1kb'; accepted"),
        ({"compression": "lzw"}, "compression='lzw'; accepted: zlib, zstd"),
        ({"exceptions": {int: 1}}, "exceptions: .*int.*accepted"),
        ({"exceptions": {KeyError: float("inf")}}, "exceptions: .*KeyError.*inf; accepted"),
        ({"key": "a..b"}, "key='a..b' is not JMESPath"),
        ({"key": "digest(a)"}, "key='digest\\(a\\)' is not JMESPath: there is no function digest"),
        ({"key": "[a, sort_by(b, &first(@))]"}, "there is no function first"),
        ({"arguments": ["other"]}, "has no argument 'other'; it has \\['event'\\]"),
        ({"key": "a", "arguments": ["event"]}, "exclude each other"),
        ({"backend": "memcached://host"}, "accepted: memory://"),
        ({"backend": 7}, "backend 7; accepted: URLs"),
        ({"backend": "redis://h memory://"}, "memory:// may occur once, as the first"),
        ({"backend": "memory://?max_bytes=lots"}, "max_bytes='lots'; accepted"),
        ({"backend": "memory://?eviction=fifo"}, "eviction='fifo'; accepted: lru, lfu"),
        ({"backend": "memory://64mb"}, "accepted: memory://, with options"),
        ({"backend": "redis://h?timeout_ms=0"}, "timeout_ms='0'; accepted"),
        ({"backend": "redis://h?timeout_ms=²"}, "timeout_ms='²'; accepted"),
        ({"backend": "redis://h?decode_responses=True"}, "option 'decode_responses'; accepted"),
        ({"backend": "rediss://h?ssl_other=1"}, "redis-py refuses the URL"),
        ({"backend": "unix://"}, "accepted: unix:///PATH"),
    ],
)
def test_an_option_that_is_not_accepted_is_named_with_what_is(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidSettingError, match=message):
        cached(**options)(lambda event: event)


def test_the_decorator_needs_no_parentheses() -> None:
    @cached
    def double(number: int) -> int:
        return 2 * number

    @cached
    async def awaited(number: int) -> int:
        return 2 * number

    class Shop:
        @staticmethod
        @cached
        def price(item: str) -> str:
            return item

    assert [double(1), double(1), Shop.price("a"), asyncio.run(awaited(1))] == [2, 2, "a", 2]
    assert double.results.stats() == {"computed": 1, "memory": 1}
    assert cached(lambda: 1).results.stats() == {}


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("ttl", "ttl_s"), ("TTL", "ttl_s"), ("ttl_seconds", "ttl_s"), ("expire", "ttl_s"), ("max_age", "ttl_s"),
        ("timeout", "timeout_ms"), ("timeout_s", "timeout_ms"), ("maxsize", "max_bytes"), ("stale", "stale_s"),
        ("ttl_ms", "ttl_s"), ("cache", "backend"), ("key_builder", "key"), ("serializer", "codec"), ("lock", "wait_s"),
        ("versions", "version"), ("argument", "arguments"), ("negative_ttl", "negative_ttl_s"), ("wait", "wait_s"),
        ("event_key_jmespath", "key"), ("keys", "key"), ("compress", "compress_above_bytes"), ("errors", "exceptions"),
        ("expires_after_seconds", "ttl_s"), ("expires_in", "ttl_s"), ("stale_after", "ttl_s"), ("region", "version"),
        ("key_prefix", "version"), ("persistence_store", "backend"), ("make_cache_key", "key"),
        ("hash_funcs", "key"), ("noself", "arguments"),
    ],
)  # fmt: skip
def test_the_name_of_another_cache_for_an_argument_is_answered_with_its_name_here(name: str, meant: str) -> None:
    options: dict[str, Any] = {name: 60}

    with pytest.raises(
        TypeError, match=rf"no argument '{name}'; did you mean {meant}\? \(accepted: arguments, "
    ) as raised:
        cached(**options)

    assert "\n" not in str(raised.value)


def test_a_name_that_is_like_no_other_is_answered_with_all() -> None:
    options: dict[str, Any] = {"qqq": 1}

    with pytest.raises(TypeError, match=r"no argument 'qqq' \(accepted: .*ttl_s.*\)"):
        cached(**options)


@pytest.mark.parametrize("value", [60, "redis://localhost", [], 1.5])
def test_a_value_without_its_name_is_answered_with_how_to_give_it(value: Any) -> None:
    with pytest.raises(TypeError, match=r"accepted are arguments by name, as in cached\(ttl_s=60\)"):
        cached(value)


@pytest.mark.parametrize("thing", [len, int, property(len), classmethod(len)])  # type: ignore[arg-type]
def test_what_is_no_function_is_refused_without_parentheses_too(thing: Any) -> None:
    with pytest.raises(InvalidSettingError, match="accepted is a function"):
        cached(thing)


def test_each_reason_why_results_are_not_kept_is_counted_and_warned_of_once_with_a_remedy(
    cache: Cache, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    log = logs.OnceLog(logging.getLogger("burstcache"))
    monkeypatch.setattr("burstcache.results.function_results.logger", lambda: log)
    results = [object(), b"a" * 200, None, object(), {"a": {1j: object()}}]
    give = cached(backend=cache, arguments=["number"], max_bytes=100)(lambda number: results[number])

    for number in range(len(results)):
        give(number)

    assert give.results.stats() == {
        "computed": 5,
        "not_kept": {"type builtins.object": 3, "larger than max_bytes=100": 1, "None": 1},
    }
    unknown, large = caplog.messages
    assert "<lambda>: type builtins.object; accepted are JSON's types, bytes, Decimal" in unknown
    assert "<lambda>: larger than max_bytes=100; raise `max_bytes`" in large


def test_a_wrapped_function_keeps_its_name_and_kind(cache: Cache) -> None:
    @cached(backend=cache)
    async def named() -> None:
        """Say something."""

    is_coroutine: Callable[[Any], bool] = asyncio.iscoroutinefunction
    assert (named.__name__, named.__doc__, is_coroutine(named)) == ("named", "Say something.", True)  # type: ignore[attr-defined]


def test_the_child_of_a_fork_does_as_much_in_the_background_as_its_parent(cache: Cache) -> None:
    may_end, is_done = threading.Event(), threading.Event()
    for _ in range(100):
        cache.submit(may_end.wait)

    after_fork()
    cache.submit(is_done.set)

    may_end.set()
    assert is_done.wait(LIMIT_S)


def test_the_child_of_a_fork_waits_for_no_thread_of_its_parent(cache: Cache, calls: Calls) -> None:
    """Check that locks and computations of the parent's threads, copied by a fork, cannot block the child."""
    began, may_end = threading.Event(), threading.Event()

    @cached(backend=cache)
    def work(name: str) -> str:
        calls(name)
        if len(calls.calls) == 1:
            began.set()
            may_end.wait()
        return name

    memory = cache.layers.memory
    assert memory is not None
    with ThreadPoolExecutor(1) as thread:
        first = thread.submit(work, "a")
        began.wait()
        with memory._lock:
            after_fork()
            assert work("a") == "a"
        may_end.set()
        assert first.result() == "a"

    assert calls.calls == ["a", "a"]
