"""Stack store: results on the running nodes of a stack, each on the home node of its key.

Results neither start a node nor keep one running. While no node runs, results are not stored, and leases are open.
"""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import NamedTuple, TypeVar

import redis

from burstcache.access import node_named
from burstcache.adapters.clock import Clock
from burstcache.adapters.deadline import Deadline
from burstcache.adapters.digest_reader import DigestReader, read_digest
from burstcache.adapters.redis_connection import PlainConnection, TlsConnection, connection_arguments
from burstcache.adapters.secrets import Secrets
from burstcache.client.configuration import configure
from burstcache.core.digest import MAX_AGE_S, Route
from burstcache.core.errors import PartDownError, ResultStoreDownError
from burstcache.core.keys import key_hash
from burstcache.results.stores.redis_store import OPTIONS, RedisStore
from burstcache.results.stores.store import PING_TIMEOUT_S, LeasingStore
from burstcache.results.threads import PerProcess, Threads
from burstcache.settings.reader import ReaderSettings

T = TypeVar("T")

_OPEN: tuple[bool, bool, bytes | None] = (False, True, None)
_THREADS = 8  # for reads of the digest or a password; nodes are called from the callers' own threads


class Stack(NamedTuple):
    """The parts of a stack that one process uses."""

    digest: DigestReader  # lists the running nodes
    make_node: Callable[[Route], LeasingStore]  # returns the store of a node; raises PartDownError
    forget_secrets: Callable[[], None]  # called when a node is unreachable: its password may have been rotated


class StackStore:
    """A store on the nodes of one stack."""

    name = "stack"

    def __init__(self, reach: Callable[[], Stack], *, timeout_s: float) -> None:
        """Set up the store without connecting.

        Args:
            reach: Returns the stack, with new AWS clients. A forked child calls it again, since it must not use its
                parent's connections.
            timeout_s: Timeout for reads of the digest and of passwords [s]. Nodes have their own timeout.
        """
        self._stack = PerProcess(reach)
        self._timeout_s = timeout_s
        self._nodes: dict[Route, LeasingStore] = {}
        self._threads = Threads(_THREADS)

    def get(self, key: str, *, most_bytes: int) -> bytes | None:
        """Return the value at a key, or the start of a larger value."""
        return self._call(key, lambda node: node.get(key, most_bytes=most_bytes), None)

    def put(self, key: str, data: bytes, *, kept_ms: int) -> None:
        """Store bytes for `kept_ms` if a node runs."""
        self._call(key, lambda node: node.put(key, data, kept_ms=kept_ms), None)

    def forget(self, key: str) -> None:
        """Remove the value at a key."""
        self._call(key, lambda node: node.forget(key), None)

    def prepare(self) -> None:
        """Read the digest and the passwords of running nodes, so that no caller waits for them. Errors are ignored."""
        with suppress(ResultStoreDownError):
            self._prepare_nodes()

    def ping(self) -> None:
        """Raise an error unless the digest is readable and all running nodes respond."""
        for route in self._prepare_nodes():
            self._on(route, lambda node: node.ping())

    def close(self) -> None:
        """Close the connections. A later call opens new ones."""
        for node in list(self._nodes.values()):
            node.close()

    def take_lease(self, key: str, token: str, *, lease_ms: int, most_bytes: int) -> tuple[bool, bool, bytes | None]:
        """Take the lease of a key, if it is free, and read the value. Without a node, the lease is open."""
        return self._call(
            key, lambda node: node.take_lease(key, token, lease_ms=lease_ms, most_bytes=most_bytes), _OPEN
        )

    def renew_lease(self, key: str, token: str, *, lease_ms: int) -> None:
        """Extend the caller's lease, unless it has expired."""
        self._call(key, lambda node: node.renew_lease(key, token, lease_ms=lease_ms), None)

    def return_lease(self, key: str, token: str, *, open_ms: int) -> None:
        """Release the caller's lease, unless it has expired. `open_ms` above 0 leaves it open for that time [ms]."""
        self._call(key, lambda node: node.return_lease(key, token, open_ms=open_ms), None)

    def _call(self, key: str, operation: Callable[[LeasingStore], T], without_node: T) -> T:
        """Return the operation's result on the key's home node, or `without_node` if no node runs."""
        home = self._digest().home(key_hash(key))
        return without_node if home is None else self._on(home, operation)

    def _prepare_nodes(self) -> list[Route]:
        """Create the stores of all running nodes, and return the routes to the nodes."""
        routes = [route for route in self._digest(PING_TIMEOUT_S).places() if route.is_guest]
        for route in routes:
            self._node(route, PING_TIMEOUT_S)
        return routes

    def _digest(self, at_least_s: float = 0.0) -> DigestReader:
        """Return the digest, after a refresh if it is older than `MAX_AGE_S`."""
        digest = self._reach(at_least_s).digest
        if not digest.is_known_within(MAX_AGE_S) and not self._in_time(
            partial(digest.is_within, MAX_AGE_S), at_least_s
        ):
            raise ResultStoreDownError("the stack's digest cannot be read")
        return digest

    def _reach(self, at_least_s: float = 0.0) -> Stack:
        return self._stack.existing or self._in_time(self._stack.get, at_least_s)

    def _on(self, route: Route, operation: Callable[[LeasingStore], T]) -> T:
        node = self._node(route)
        try:
            return operation(node)
        except ResultStoreDownError:
            with suppress(KeyError):  # another thread may have removed it
                self._nodes.pop(route).close()
            self._reach().forget_secrets()
            raise

    def _node(self, route: Route, at_least_s: float = 0.0) -> LeasingStore:
        if (node := self._nodes.get(route)) is None:
            make_node = self._reach(at_least_s).make_node
            node = self._nodes.setdefault(route, self._in_time(partial(make_node, route), at_least_s))
            self._close_former(route)
        return node

    def _close_former(self, route: Route) -> None:
        """Close the stores of a node's earlier runs, which were at other addresses."""
        for former in [each for each in self._nodes.copy() if each.node == route.node and each.host != route.host]:
            if (node := self._nodes.pop(former, None)) is not None:
                node.close()

    def _in_time(self, call: Callable[[], T], at_least_s: float = 0.0) -> T:
        """Return the result of an AWS call within the timeout, which the AWS libraries cannot enforce."""
        timeout_s = max(self._timeout_s, at_least_s)
        try:
            return self._threads.pool().submit(call).result(timeout_s)
        except PartDownError as error:
            raise ResultStoreDownError(str(error)) from error
        except concurrent.futures.TimeoutError as error:
            raise ResultStoreDownError(f"AWS does not answer within {timeout_s} s") from error


def stack_store(stack_name: str, clock: Clock, *, timeout_s: float) -> StackStore:
    """Return the store of a stack. An empty name selects the stack in the environment variable BURSTCACHE_READER.

    Raises:
        InvalidSettingError: There is no such stack, or the variable is missing or malformed.
    """
    configuration = configure(stack_name=stack_name, bucket="", session=None, endpoint_urls=None)
    settings = configuration.settings

    def reach() -> Stack:
        clients = configuration.make_clients()
        digest = DigestReader(partial(read_digest, clients.dynamodb, settings.table_name), clock)
        secrets = Secrets(clients.secrets)
        make_node = partial(_node_store, settings=settings, secrets=secrets, clock=clock, timeout_s=timeout_s)
        return Stack(digest, make_node, secrets.forget)

    store = StackStore(reach, timeout_s=timeout_s)
    store.prepare()
    return store


def _node_store(
    route: Route, *, settings: ReaderSettings, secrets: Secrets, clock: Clock, timeout_s: float
) -> RedisStore:
    node = node_named(route.node, settings.redis_nodes, host=route.host)
    access = connection_arguments(settings.redis, secrets)
    access["connection_class"] = TlsConnection if settings.redis.ca_pem else PlainConnection

    def make_pool(deadline: Deadline) -> redis.ConnectionPool:
        return redis.ConnectionPool(host=node.host, port=node.port, deadline=deadline, **access, **OPTIONS)

    return RedisStore(make_pool, clock, timeout_s=timeout_s, name=StackStore.name)
