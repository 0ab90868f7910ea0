"""Results on the nodes of a stack while they run: a key's place is the node that would take an object of that name.

No result starts a node or keeps one awake. While none runs, nothing is kept here, and nobody waits for a lease.
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
from burstcache.adapters.redis_connection import PlainConnection, TlsConnection, arguments_of
from burstcache.adapters.secrets import Secrets
from burstcache.client.configuration import configure
from burstcache.core.digest import MAX_AGE_S
from burstcache.core.errors import PartDownError, ResultStoreDownError
from burstcache.core.keys import key_hash
from burstcache.results.stores.redis_store import OPTIONS, RedisStore
from burstcache.results.stores.store import PING_TIMEOUT_S, LeasingStore
from burstcache.results.threads import OfProcess, Threads
from burstcache.settings.reader import ReaderSettings

T = TypeVar("T")

_OPEN: tuple[bool, bool, bytes | None] = (False, True, None)
_THREADS = 8  # that read the digest or a password; a node itself is asked by the caller


class Stack(NamedTuple):
    """A stack as one process reaches it."""

    digest: DigestReader  # which nodes run
    make_node: Callable[[str], LeasingStore]  # returns the store of a node by the node's name; raises PartDownError
    forget_secrets: Callable[[], None]  # is called when a node did not answer: its password may have been replaced


class StackStore:
    """Bytes on the nodes of one stack."""

    name = "stack"

    def __init__(self, reach: Callable[[], Stack], *, timeout_s: float) -> None:
        """Ask the nodes that the digest shows.

        Args:
            reach: Returns the stack, by new clients of AWS; called anew in the child of a fork, which must not talk on
                its parent's connections.
            timeout_s: How long to wait for the digest or a password [s]; a node has its own time-out.
        """
        self._stack = OfProcess(reach)
        self._timeout_s = timeout_s
        self._nodes: dict[str, LeasingStore] = {}
        self._threads = Threads(_THREADS)

    def get(self, key: str, *, most_bytes: int) -> bytes | None:
        """Return what is kept under a key, or of something larger its start."""
        return self._ask(key, lambda node: node.get(key, most_bytes=most_bytes), None)

    def put(self, key: str, data: bytes, *, kept_ms: int) -> None:
        """Keep bytes for this long [ms], unless no node runs."""
        self._ask(key, lambda node: node.put(key, data, kept_ms=kept_ms), None)

    def forget(self, key: str) -> None:
        """Remove what is kept under a key."""
        self._ask(key, lambda node: node.forget(key), None)

    def prepare(self) -> None:
        """Read the digest and the password of nodes that run, before anybody waits for them; do without if need be."""
        with suppress(ResultStoreDownError):
            self._running()

    def ping(self) -> None:
        """Return if the digest can be read and all nodes that run answer."""
        for name in self._running():
            self._on(name, lambda node: node.ping())

    def close(self) -> None:
        """Close the connections; a later call opens new ones."""
        for node in list(self._nodes.values()):
            node.close()

    def take_lease(self, key: str, token: str, *, lease_ms: int, most_bytes: int) -> tuple[bool, bool, bytes | None]:
        """Take the lease of a key, if nobody has it, and read what is kept; without a node it is open."""
        return self._ask(key, lambda node: node.take_lease(key, token, lease_ms=lease_ms, most_bytes=most_bytes), _OPEN)

    def renew_lease(self, key: str, token: str, *, lease_ms: int) -> None:
        """Hold a lease for longer, if it is still the caller's."""
        self._ask(key, lambda node: node.renew_lease(key, token, lease_ms=lease_ms), None)

    def return_lease(self, key: str, token: str, *, open_ms: int) -> None:
        """Give a lease back, if it is still the caller's; with `open_ms` above 0 it is open for this long [ms]."""
        self._ask(key, lambda node: node.return_lease(key, token, open_ms=open_ms), None)

    def _ask(self, key: str, operation: Callable[[LeasingStore], T], without_node: T) -> T:
        """Return what a key's node answers, or the given answer if none runs."""
        home = self._digest().home(key_hash(key))
        return without_node if home is None else self._on(home.node, operation)

    def _running(self) -> list[str]:
        """Return the names of the nodes that run, all of which are known afterwards."""
        names = [route.node for route in self._digest(PING_TIMEOUT_S).places() if route.is_guest]
        for name in names:
            self._node(name, PING_TIMEOUT_S)
        return names

    def _digest(self, at_least_s: float = 0.0) -> DigestReader:
        """Return the digest, which is known."""
        digest = self._reached(at_least_s).digest
        if not digest.is_known_within(MAX_AGE_S) and not self._in_time(
            partial(digest.is_within, MAX_AGE_S), at_least_s
        ):
            raise ResultStoreDownError("the stack's digest cannot be read")
        return digest

    def _reached(self, at_least_s: float = 0.0) -> Stack:
        return self._stack.made or self._in_time(self._stack.get, at_least_s)

    def _on(self, name: str, operation: Callable[[LeasingStore], T]) -> T:
        node = self._node(name)
        try:
            return operation(node)
        except ResultStoreDownError:
            with suppress(KeyError):  # another thread may have done so
                self._nodes.pop(name).close()
            self._reached().forget_secrets()
            raise

    def _node(self, name: str, at_least_s: float = 0.0) -> LeasingStore:
        if (node := self._nodes.get(name)) is None:
            make_node = self._reached(at_least_s).make_node
            node = self._nodes.setdefault(name, self._in_time(partial(make_node, name), at_least_s))
        return node

    def _in_time(self, call: Callable[[], T], at_least_s: float = 0.0) -> T:
        """Return the answer of what asks AWS, whose libraries know no deadline."""
        timeout_s = max(self._timeout_s, at_least_s)
        try:
            return self._threads.pool().submit(call).result(timeout_s)
        except PartDownError as error:
            raise ResultStoreDownError(str(error)) from error
        except concurrent.futures.TimeoutError as error:
            raise ResultStoreDownError(f"AWS does not answer within {timeout_s} s") from error


def stack_store(stack_name: str, clock: Clock, *, timeout_s: float) -> StackStore:
    """Return the store of a stack, or without a name of the one that the variable BURSTCACHE_READER describes.

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


def _node_store(name: str, *, settings: ReaderSettings, secrets: Secrets, clock: Clock, timeout_s: float) -> RedisStore:
    node = node_named(name, settings.redis_nodes)
    access = arguments_of(settings.redis, secrets)
    access["connection_class"] = TlsConnection if settings.redis.ca_pem else PlainConnection

    def make_pool(deadline: Deadline) -> redis.ConnectionPool:
        return redis.ConnectionPool(host=node.host, port=node.port, deadline=deadline, **access, **OPTIONS)

    return RedisStore(make_pool, clock, timeout_s=timeout_s, name=StackStore.name)
