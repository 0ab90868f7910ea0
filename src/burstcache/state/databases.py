"""Databases of state as their holders use them: a plain client of redis-py, awake for as long as it is held."""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any

import redis
import redis.asyncio
from redis.backoff import NoBackoff
from redis.retry import Retry

from burstcache.access import RedisAccess, RedisNode, names_of, node_named
from burstcache.adapters.clock import SystemClock
from burstcache.adapters.redis_connection import arguments_of
from burstcache.adapters.secrets import Secrets
from burstcache.adapters.state_function import StateFunction
from burstcache.core.databases import database_of_node, node_of_database
from burstcache.core.errors import InvalidSettingError, NodeAbsentError
from burstcache.state.configuration import Configuration, configure
from burstcache.state.connections import held
from burstcache.state.lease import HeldLease, new_holder

WAIT_S = 120.0
_CONNECT_S = 2.0
# Arguments of redis-py that say where a server is, as whom to connect, or over which connections: the stack does.
_OF_THE_STACK = {
    "auto_close_connection_pool", "connection_pool", "credential_provider", "host", "password", "port", "self",
    "single_connection_client", "ssl", "unix_socket_path", "username",
}  # fmt: skip


@contextmanager
def state(
    database: str,
    *,
    stack: str = "",
    wait_s: float = WAIT_S,
    local: str | os.PathLike[str] = "",
    session: Any = None,
    endpoint_urls: Mapping[str, str] | None = None,
    **options: Any,
) -> Iterator[redis.Redis]:
    """Hold a database: it wakes up, stays awake while this is held, and falls asleep after the last holder.

    Args:
        database: One of the names in the stack's parameter StateDatabases.
        stack: The stack that has it; empty: the environment says it (variable BURSTCACHE_STATE).
        wait_s: How long to wait until it is awake [s].
        local: Instead of a stack the folder of a local run, such as `.burstcache`.
        session: A boto3 session; None for a new one from the environment.
        endpoint_urls: By service, or by the empty text for all; without an entry AWS's own.
        **options: More arguments of `redis.Redis`, such as `decode_responses=True`.

    Yields:
        A client of redis-py. Once the lease is lost, its commands raise LeaseLostError.

    Raises:
        InvalidSettingError: The stack has no such database, nothing says which stack is meant, or redis-py has no
            such option.
        DatabaseAsleepError: It did not wake up within `wait_s`.
        NodeFailedError: It could not be woken up.
        LeaseLostError: At the end: the lease was lost meanwhile.
    """
    _check_options(options, redis.Redis)
    configuration = configure(stack=stack, local=local, session=session, endpoint_urls=endpoint_urls)
    access = _Access.of(database, configuration)
    lease = access.lease(configuration)
    lease.acquire(wait_s=wait_s, answers=access.answers)
    try:
        client = access.client(lease.check, options)
        try:
            yield client
            lease.check()
        finally:
            lease.end()
            client.close()  # also under threads that wait for an answer
    finally:
        lease.release()


@asynccontextmanager
async def async_state(
    database: str,
    *,
    stack: str = "",
    wait_s: float = WAIT_S,
    local: str | os.PathLike[str] = "",
    session: Any = None,
    endpoint_urls: Mapping[str, str] | None = None,
    **options: Any,
) -> AsyncIterator[redis.asyncio.Redis]:
    """Hold a database as `state` does, with a client of redis.asyncio."""
    _check_options(options, redis.asyncio.Redis)
    configuration = await asyncio.to_thread(
        configure, stack=stack, local=local, session=session, endpoint_urls=endpoint_urls
    )
    access = await asyncio.to_thread(_Access.of, database, configuration)
    lease = access.lease(configuration)
    try:
        await asyncio.to_thread(lease.acquire, wait_s=wait_s, answers=access.answers)
    except asyncio.CancelledError:
        lease.give_up()  # the thread goes on, and gives back what it gets
        raise
    try:
        client = access.async_client(lease.check, options)
        try:
            yield client
            lease.check()
        finally:
            lease.end()
            await client.aclose()
    finally:
        await asyncio.to_thread(lease.release)


def connect(
    database: str,
    *,
    stack: str = "",
    local: str | os.PathLike[str] = "",
    session: Any = None,
    endpoint_urls: Mapping[str, str] | None = None,
    **options: Any,
) -> redis.Redis:
    """Return a client of a database that another holder keeps awake, such as the workflow that runs this function.

    Arguments and errors are those of `state`; nothing is held, and nothing is waited for.
    """
    _check_options(options, redis.Redis)
    configuration = configure(stack=stack, local=local, session=session, endpoint_urls=endpoint_urls)
    return _Access.of(database, configuration).client(_nothing, options)


@dataclass(frozen=True, slots=True)
class _Access:
    """How to connect to a database."""

    database: str
    node: RedisNode
    access: RedisAccess
    secrets: Secrets

    @classmethod
    def of(cls, database: str, configuration: Configuration) -> _Access:
        """Return the access to a database, or raise NodeAbsentError."""
        settings = configuration.settings
        try:
            node = node_named(node_of_database(database), settings.state_nodes)
        except NodeAbsentError:
            known = ", ".join(map(database_of_node, names_of(settings.state_nodes))) or "none"
            raise NodeAbsentError(
                f"no database {database!r}; the stack's parameter StateDatabases has: {known}"
            ) from None
        return cls(database, node, settings.redis, Secrets(configuration.clients.secrets))

    def lease(self, configuration: Configuration) -> HeldLease:
        functions, name = configuration.clients.functions, configuration.settings.function_name
        return HeldLease(StateFunction(functions, name, self.database, new_holder()), SystemClock())

    def client(self, check: Callable[[], None], options: Mapping[str, Any]) -> redis.Redis:
        return redis.Redis.from_pool(redis.ConnectionPool(**self._arguments(check, options, is_async=False)))

    def async_client(self, check: Callable[[], None], options: Mapping[str, Any]) -> redis.asyncio.Redis:
        pool = redis.asyncio.ConnectionPool(**self._arguments(check, options, is_async=True))
        return redis.asyncio.Redis.from_pool(pool)

    def answers(self) -> bool:
        """Whether its Redis answers and has read what it keeps."""
        with self.client(_nothing, {"socket_timeout": _CONNECT_S, "retry": Retry(NoBackoff(), 0)}) as client:
            try:
                return bool(client.ping())
            except (redis.ConnectionError, redis.TimeoutError):  # BusyLoadingError is one of the former
                return False

    def _arguments(self, check: Callable[[], None], options: Mapping[str, Any], *, is_async: bool) -> dict[str, Any]:
        arguments = {
            "connection_class": redis.asyncio.Connection if is_async else redis.Connection,
            "host": self.node.host,
            "port": self.node.port,
            "socket_connect_timeout": _CONNECT_S,
            "driver_info": None,  # two round trips less per connection
            "protocol": 2,
            **arguments_of(self.access, self.secrets, is_async=is_async),
            **options,
        }
        arguments["connection_class"] = held(arguments["connection_class"], is_async=is_async)
        return arguments | {"check": check}


def _check_options(options: Mapping[str, Any], client: type) -> None:
    """Raise InvalidSettingError for what a client does not take, before a database is woken up for it."""
    parameters = inspect.signature(client.__init__).parameters.keys()  # type: ignore[misc]
    accepted = {name for name in parameters if name not in _OF_THE_STACK and not name.startswith("ssl_")}
    if unknown := sorted(options.keys() - accepted):
        raise InvalidSettingError(f"{unknown[0]!r} is no option of a database; accepted: {', '.join(sorted(accepted))}")


def _nothing() -> None:
    """Check nothing."""
