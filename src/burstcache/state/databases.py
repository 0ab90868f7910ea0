"""State databases: plain redis-py clients of databases that run while a lease is held."""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import redis
import redis.asyncio
from redis.backoff import NoBackoff
from redis.retry import Retry

from burstcache.access import RedisAccess, RedisNode, names_of, node_named
from burstcache.adapters.clock import SystemClock
from burstcache.adapters.redis_connection import connection_arguments
from burstcache.adapters.redis_options import WITHOUT_SETINFO
from burstcache.adapters.secrets import Secrets
from burstcache.adapters.state_function import StateFunction
from burstcache.core.databases import database_of_node, node_of_database
from burstcache.core.errors import DatabaseAsleepError, InvalidSettingError, NodeAbsentError
from burstcache.state.configuration import StateConfiguration, configure
from burstcache.state.connections import held
from burstcache.state.lease import HeldLease, new_holder

WAIT_S = 120.0
_CONNECT_S = 2.0
# redis-py's arguments for addresses, credentials and connections, which the stack provides.
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
    """Hold a lease on a database, which starts if necessary and runs until its last lease ends.

    Args:
        database: A name in the stack's parameter StateDatabases.
        stack: Name of the stack. Empty: from the environment variable BURSTCACHE_STATE.
        wait_s: Maximum wait for the database to start [s].
        local: Folder of a local run, such as `.burstcache`, instead of a stack.
        session: A boto3 session. None: a new one from the environment.
        endpoint_urls: Endpoint URLs by service, or by the empty string for all services. Default: AWS's endpoints.
        **options: Further arguments of `redis.Redis`, such as `decode_responses=True`.

    Yields:
        A redis-py client. Once the lease is lost, its commands raise LeaseLostError.

    Raises:
        InvalidSettingError: The stack has no such database, no stack is given, or redis-py has no such option.
        DatabaseAsleepError: The database did not start within `wait_s`.
        NodeFailedError: The database cannot be started.
        LeaseLostError: The lease was lost. Raised on exit from the `with` statement.
    """
    _check_options(options, redis.Redis)
    configuration = configure(stack=stack, local=local, session=session, endpoint_urls=endpoint_urls)
    access = _Access.of(database, configuration)
    lease = access.lease(configuration)
    host = lease.acquire(wait_s=wait_s, answers=access.answers)
    try:
        client = access.at(host).client(lease.check, options)
        try:
            yield client
            lease.check()
        finally:
            lease.end()
            client.close()  # also unblocks threads that wait for a response
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
    """Hold a lease on a database as `state` does, with a client of redis.asyncio."""
    _check_options(options, redis.asyncio.Redis)
    configuration = await asyncio.to_thread(
        configure, stack=stack, local=local, session=session, endpoint_urls=endpoint_urls
    )
    access = await asyncio.to_thread(_Access.of, database, configuration)
    lease = access.lease(configuration)
    try:
        host = await asyncio.to_thread(lease.acquire, wait_s=wait_s, answers=access.answers)
    except asyncio.CancelledError:
        lease.give_up()  # the thread continues, and releases the lease if it acquires one
        raise
    try:
        client = access.at(host).async_client(lease.check, options)
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
    """Return a client of a database that another holder keeps running, such as this function's workflow.

    The call takes no lease and does not wait. See `state` for arguments and errors. A database on Fargate has another
    address in each run, so each new connection asks for it, and raises DatabaseAsleepError if it does not run.
    """
    _check_options(options, redis.Redis)
    configuration = configure(stack=stack, local=local, session=session, endpoint_urls=endpoint_urls)
    access = _Access.of(database, configuration)
    return access.client(_no_check, options, locate=access.locator(configuration))


@dataclass(frozen=True, slots=True)
class _Access:
    """A database's address and credentials."""

    database: str
    node: RedisNode
    access: RedisAccess
    secrets: Secrets

    @classmethod
    def of(cls, database: str, configuration: StateConfiguration) -> _Access:
        """Return a database's address and credentials, or raise NodeAbsentError."""
        settings = configuration.settings
        try:
            node = node_named(node_of_database(database), settings.state_nodes)
        except NodeAbsentError:
            names = ", ".join(map(database_of_node, names_of(settings.state_nodes))) or "none"
            raise NodeAbsentError(
                f"no database {database!r}; the stack's parameter StateDatabases has: {names}"
            ) from None
        access = settings.redis
        if node.is_task:  # its address may be another database's later, which refuses this user
            access = replace(access, user=f"{access.user}-{database}")
        return cls(database, node, access, Secrets(configuration.clients.secrets))

    def at(self, host: str) -> _Access:
        """Return the access to a database at the address of its task, or the same if it runs on an instance."""
        return replace(self, node=replace(self.node, host=host)) if self.node.is_task else self

    def locator(self, configuration: StateConfiguration) -> Callable[[], str] | None:
        """Return a function that looks for a task's address, or None if the database runs on an instance."""
        if not self.node.is_task:
            return None
        function = self._function(configuration, "")

        def locate() -> str:
            held = function.look()
            if host := held.get("host", ""):
                return host
            raise DatabaseAsleepError(f"database {self.database!r} is {held['phase']}: nobody holds it")

        return locate

    def lease(self, configuration: StateConfiguration) -> HeldLease:
        return HeldLease(self._function(configuration, new_holder()), SystemClock())

    def _function(self, configuration: StateConfiguration, holder: str) -> StateFunction:
        functions, name = configuration.clients.functions, configuration.settings.function_name
        return StateFunction(functions, name, self.database, holder)

    def client(
        self, check: Callable[[], None], options: Mapping[str, Any], *, locate: Callable[[], str] | None = None
    ) -> redis.Redis:
        arguments = self._arguments(check, options, is_async=False)
        return redis.Redis.from_pool(redis.ConnectionPool(**arguments, locate=locate))

    def async_client(self, check: Callable[[], None], options: Mapping[str, Any]) -> redis.asyncio.Redis:
        pool = redis.asyncio.ConnectionPool(**self._arguments(check, options, is_async=True))
        return redis.asyncio.Redis.from_pool(pool)

    def answers(self, host: str) -> bool:
        """Return True if Redis responds at an address, empty on EC2, and has loaded its data."""
        if self.node.is_task and not host:
            return False
        with self.at(host).client(_no_check, {"socket_timeout": _CONNECT_S, "retry": Retry(NoBackoff(), 0)}) as client:
            try:
                return bool(client.ping())
            except (redis.ConnectionError, redis.TimeoutError):  # including BusyLoadingError
                return False

    def _arguments(self, check: Callable[[], None], options: Mapping[str, Any], *, is_async: bool) -> dict[str, Any]:
        arguments = {
            "connection_class": redis.asyncio.Connection if is_async else redis.Connection,
            "host": self.node.host,
            "port": self.node.port,
            "socket_connect_timeout": _CONNECT_S,
            **WITHOUT_SETINFO,
            "protocol": 2,
            **connection_arguments(self.access, self.secrets, is_async=is_async),
            **options,
        }
        arguments["connection_class"] = held(arguments["connection_class"], is_async=is_async)
        return arguments | {"check": check}


def _check_options(options: Mapping[str, Any], client: type) -> None:
    """Raise InvalidSettingError for unknown options, before the database is started."""
    parameters = inspect.signature(client.__init__).parameters.keys()  # type: ignore[misc]
    accepted = {name for name in parameters if name not in _OF_THE_STACK and not name.startswith("ssl_")}
    if unknown := sorted(options.keys() - accepted):
        raise InvalidSettingError(f"{unknown[0]!r} is no option of a database; accepted: {', '.join(sorted(accepted))}")


def _no_check() -> None:
    """Do nothing, since there is no lease to check."""
