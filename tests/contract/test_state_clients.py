"""Contract of the state database's clients at a real Redis: everything a holder took from one ends with its lease."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest
import redis
import redis.asyncio

from burstcache.access import RedisAccess, RedisNode
from burstcache.core.errors import InvalidSettingError, LeaseLostError
from burstcache.state import async_state, connect, databases, state
from support.redis_in_process import NO_SECRETS
from support.servers import RedisServer
from support.waiting import LIMIT_S, until


class _Function:
    """The state function of a database that is awake."""

    database = "orders"

    def __init__(self, *_: object) -> None:
        """Know nothing."""

    def acquire(self, for_s: int) -> dict[str, Any]:
        return {"phase": "running", "held_until_us": for_s}

    def release(self) -> None:
        """Do nothing."""


@pytest.fixture(autouse=True)
def _stack(server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stack that has this database."""
    nodes = (RedisNode("state-orders", "i-1", "127.0.0.1", server.port),)
    settings = SimpleNamespace(state_nodes=nodes, redis=RedisAccess(), function_name="state")
    clients = SimpleNamespace(functions=None, secrets=None)
    monkeypatch.setattr(databases, "configure", lambda **_: SimpleNamespace(settings=settings, clients=clients))
    monkeypatch.setattr(databases, "StateFunction", _Function)
    monkeypatch.setattr(databases, "Secrets", lambda _: NO_SECRETS)


# What asks no server: it makes something, changes it or says something of it.
_OF_A_CLIENT = ["close", "aclose", "from_pool", "from_url", "get_cache", "get_connection_kwargs", "get_encoder"]
_OF_SETTINGS = ["get_retry", "set_retry", "get_protocol", "parse_response", "set_response_callback", "initialize"]
_MADE = ["pipeline", "batch_indexer", "keyspace_notifications", "lock", "pubsub", "monitor", "sentinel"]
_QUEUED = ["watch", "unwatch", "himport_discard", "himport_discard_all", "himport_prepare", "reset", "get_params_args"]
_OF_FILES = ["load_external_module", "set_file", "set_path"]
_OF_GRAPHS = ["commit", "flush"]  # commands of older versions of redis-py, which send nothing without nodes
_LOCAL = frozenset([*_OF_A_CLIENT, *_OF_SETTINGS, *_MADE, *_QUEUED, *_OF_FILES, *_OF_GRAPHS])
_WORDS = ("x", 1, ["x"], {"x": 1}, [1], True, {"x": {"y": 1}}, ("x", 1), [("x", 1)])


@pytest.mark.parametrize("option", ["decode_response", "host", "ssl", "ssl_ca_certs", "single_connection_client"])
def test_an_option_that_a_client_does_not_take_wakes_up_no_database(
    option: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(databases, "configure", pytest.fail)
    options: dict[str, Any] = {option: True}
    refusal = f"^'{option}' is no option of a database; accepted: .*, db, .*, socket_timeout"
    opened: list[Callable[[], Any]] = [
        lambda: state("orders", **options).__enter__(),
        lambda: connect("orders", **options),
    ]

    for open_ in opened:
        with pytest.raises(InvalidSettingError, match=refusal):
            open_()
    with pytest.raises(InvalidSettingError, match=refusal):
        asyncio.run(async_state("orders", **options).__aenter__())


def test_options_of_redis_py_are_taken() -> None:
    with state("orders", decode_responses=True, max_connections=2, client_name="x", protocol=3) as client:
        assert client.client_getname() == "x"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
def test_whatever_is_called_on_a_client_after_the_with_is_refused() -> None:
    with state("orders") as client:
        client.ping()

    asked = _Asked(client, lambda answer: answer)

    assert (asked.answered, asked.made) == ([], [])
    assert len(asked.refused) > 430, asked.not_sent


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning", "ignore::RuntimeWarning")
def test_whatever_is_called_on_an_asynchronous_client_after_the_with_is_refused() -> None:
    with asyncio.Runner() as runner:

        async def hold() -> redis.asyncio.Redis:
            async with async_state("orders") as client:
                await client.ping()
            return client

        async def first(answer: Any) -> Any:
            if inspect.isasyncgen(answer):
                return await anext(answer)
            return await answer if inspect.isawaitable(answer) else answer

        client = runner.run(hold())

        asked = _Asked(client, lambda answer: runner.run(first(answer)))

    assert (asked.answered, asked.made) == ([], [])
    assert len(asked.refused) > 430, asked.not_sent


def _pipeline(client: Any, *, watches: bool = False) -> Any:
    pipeline = client.pipeline()
    if watches:
        pipeline.watch("x")
        pipeline.multi()
    pipeline.set("x", "1")
    return pipeline


def _subscription(client: Any) -> Any:
    subscription = client.pubsub()
    subscription.subscribe("channel")
    return subscription


def _lock(client: Any) -> Any:
    lock = client.lock(f"lock-{client.incr('locks')}", timeout=60)
    assert lock.acquire()
    return lock


def _iterator(client: Any) -> Any:
    client.mset({f"key-{number}": "" for number in range(1_000)})
    next(iterator := client.scan_iter(count=1))
    return iterator


def _single(client: Any) -> Any:
    single = client.client()
    single.ping()
    return single


def _connection(pool: Any) -> Any:
    """Take a connection from a pool; older versions of redis-py require the name of a command."""
    parameters = inspect.signature(pool.get_connection).parameters
    required = [each.name for each in parameters.values() if each.kind is each.POSITIONAL_OR_KEYWORD]
    return pool.get_connection(*("GET" for name in required if parameters[name].default is inspect.Parameter.empty))


# How an object is taken from a client, and what is done with it after the lease.
_TAKEN: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "pipeline": (_pipeline, lambda taken: taken.execute()),
    "pipeline without a transaction": (
        lambda client: client.pipeline(transaction=False).get("x"),
        lambda taken: taken.execute(),
    ),
    "pipeline that watches": (lambda client: _pipeline(client, watches=True), lambda taken: taken.execute()),
    "pipeline that reads what it watches": (
        lambda client: _pipeline(client, watches=True),
        lambda taken: taken.immediate_execute_command("GET", "x"),
    ),
    "subscription": (_subscription, lambda taken: taken.get_message(timeout=LIMIT_S)),
    "subscription that listens": (_subscription, lambda taken: next(taken.listen())),
    "subscription to more": (_subscription, lambda taken: taken.psubscribe("*")),
    "subscription that begins": (lambda client: client.pubsub(), lambda taken: taken.subscribe("channel")),
    "subscription that pings": (_subscription, lambda taken: taken.ping()),
    "lock": (_lock, lambda taken: taken.release()),
    "lock that is extended": (_lock, lambda taken: taken.extend(1)),
    "lock to acquire": (lambda client: client.lock("other"), lambda taken: taken.acquire(blocking=False)),
    "script": (lambda client: client.register_script("return 1"), lambda taken: taken()),
    "iterator": (_iterator, list),
    "client with a connection of its own": (_single, lambda taken: taken.get("x")),
    "connection": (
        lambda client: _connection(client.connection_pool),
        lambda taken: taken.send_command("GET", "x"),
    ),
    "connection that is made anew": (lambda client: client.connection_pool.make_connection(), lambda t: t.connect()),
    "pool": (lambda client: client.connection_pool, _connection),
    "client of the same pool": (
        lambda client: redis.Redis(connection_pool=client.connection_pool),
        lambda taken: taken.get("x"),
    ),
    "transaction": (
        lambda client: client,
        lambda taken: taken.transaction(lambda pipeline: pipeline.set("x", "1"), "x"),
    ),
    "subscript": (lambda client: client, lambda taken: taken["x"]),
    "membership": (lambda client: client, lambda taken: "x" in taken),
}
if hasattr(redis.Redis, "keyspace_notifications"):  # older versions have none
    _TAKEN["keyspace notifications"] = (
        lambda client: client.keyspace_notifications(),
        lambda taken: taken.subscribe_keyspace("x"),
    )


@pytest.mark.parametrize("name", _TAKEN)
def test_what_is_taken_from_a_client_ends_with_its_lease(name: str) -> None:
    take, use = _TAKEN[name]
    with state("orders") as client:
        taken = take(client)

    with pytest.raises(LeaseLostError, match="was released"):
        use(taken)


def test_a_call_that_waits_as_the_lease_ends_gets_its_error() -> None:
    errors = list[BaseException]()

    def wait(client: redis.Redis) -> None:
        try:
            client.blpop(["never"], timeout=0)
        except BaseException as error:
            errors.append(error)

    with state("orders", socket_timeout=None) as client:
        thread = threading.Thread(target=wait, args=(client,))
        thread.start()
        until(lambda: client.info("clients")["blocked_clients"] == 1)
    thread.join(LIMIT_S)

    assert [type(error) for error in errors] == [LeaseLostError]


def test_what_is_taken_from_an_asynchronous_client_ends_with_its_lease() -> None:
    async def work() -> None:
        client: Any
        async with async_state("orders", socket_timeout=None) as client:
            watching = client.pipeline()
            await watching.watch("x")
            subscription = client.pubsub()
            await subscription.subscribe("channel")
            single = client.client()
            await single.ping()
            script, lock = client.register_script("return 1"), client.lock("async", timeout=60)
            assert await lock.acquire()
            waiting = asyncio.create_task(client.blpop(["never"], timeout=0))
            while (await client.info("clients"))["blocked_clients"] == 0:
                await asyncio.sleep(0)
        uses: list[Callable[[], Any]] = [
            lambda: waiting,
            lambda: watching.immediate_execute_command("GET", "x"),
            lambda: watching.set("x", "1"),
            lambda: client.pipeline().set("x", "1").execute(),
            lambda: subscription.get_message(timeout=LIMIT_S),
            lambda: subscription.subscribe("more"),
            lambda: anext(subscription.listen()),
            lambda: single.get("x"),
            lambda: script(),
            lambda: lock.extend(1),
            lambda: lock.release(),  # last: redis-py 5 forgets the lock's token first
            lambda: client.lock("other").acquire(blocking=False),
            lambda: _connection(client.connection_pool),
        ]
        for use in uses:
            with pytest.raises(LeaseLostError, match="was released"):
                await use()
        await single.aclose()
        with suppress(LeaseLostError):  # it tells the server that it watches no more
            await watching.aclose()
        watching.connection = None  # redis-py 5 keeps it after this error, and warns of it as unclosed

    asyncio.run(asyncio.wait_for(work(), LIMIT_S))


class _Asked:
    """Asks for all that a client and the objects with its commands offer, with words of many types.

    Attributes:
        refused: What a lost lease has refused.
        answered: What has returned something all the same.
        made: What makes an object of another kind, which needs a test of its own.
        not_sent: What takes none of the words.
    """

    def __init__(self, client: Any, run: Callable[[Any], Any]) -> None:
        self.refused, self.answered = list[str](), list[str]()
        self.made, self.not_sent = list[str](), list[str]()
        self._run, self._known = run, set[type]()
        self._ask_all(client, "")

    def _ask_all(self, made: Any, path: str) -> None:
        if type(made) in self._known:
            return
        self._known.add(type(made))
        for name in dir(made):
            if name.startswith(("_", "append_")) or name in _LOCAL:
                continue
            if inspect.isroutine(method := getattr(made, name)):
                self._ask(method, f"{path}{name}")

    def _ask(self, method: Any, path: str) -> None:
        for word in _WORDS:
            try:
                answer = self._run(method(*[word] * _required(method)))
                if inspect.isgenerator(answer):
                    next(answer)
            except LeaseLostError:
                return self.refused.append(path)
            except Exception:  # this word is none that it takes
                continue
            if (module := type(answer).__module__).startswith("redis.commands."):
                return self._ask_all(answer, f"{path}().")
            if module.startswith("redis."):
                return self.made.append(path)
            return self.answered.append(f"{path}: {answer!r}")
        self.not_sent.append(path)


def _required(method: Any) -> int:
    """Return the number of a method's required arguments."""
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(method).parameters.values()
    return sum(
        each.kind is each.VAR_POSITIONAL or (each.kind in positional and each.default is each.empty)
        for each in parameters
    )
