"""A reader's cached digest, refreshed every 1.5 s while in use and never used beyond its maximum age."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from burstcache.adapters.adaptive_timeout import AdaptiveTimeout
from burstcache.adapters.calls import call_aws
from burstcache.adapters.circuit_breaker import FIRST_S, CircuitBreakers
from burstcache.adapters.clock import Clock, Instant, instant, seconds_since
from burstcache.adapters.items import to_plain
from burstcache.core.backlog import Backlog
from burstcache.core.change_log import changes_in
from burstcache.core.digest import MAX_AGE_S, REFRESH_AT, Digest, Route, RoutedKey, RunningNode, late_until_us
from burstcache.core.table import (
    ALL_OF_DIGEST,
    CHANGES_ITEM,
    DIGEST_PARTITION,
    LATE_ITEM,
    RELAY_ITEM,
    SHOWN_NODE_PREFIX,
    SHOWN_ROUTE_PREFIX,
)
from burstcache.logs import logger

if TYPE_CHECKING:
    from types_boto3_dynamodb.client import DynamoDBClient

_DIGEST = "digest"
_NEVER_S = float("-inf")

Start = Callable[[Callable[[], None]], object]


def in_thread(work: Callable[[], None]) -> None:
    """Run work in a background thread."""
    threading.Thread(target=work, name="burstcache-reader", daemon=True).start()


def try_start(start: Start, work: Callable[[], None]) -> bool:
    """Run optional work in the background. Return False if no thread can be created: the caller's read goes on."""
    try:
        start(work)
    except RuntimeError as error:  # the process has too many threads, or the interpreter is exiting
        logger().warning("background work of reads not started", reason=repr(error))
        return False
    return True


def at_once(work: Callable[[], None]) -> None:
    """Run work synchronously."""
    work()


def read_digest(client: DynamoDBClient, table_name: str, *, is_consistent: bool = True) -> Digest:
    """Read the digest with one Query, at one read unit per 4 KB, or half that if eventually consistent.

    Args:
        client: DynamoDB client.
        table_name: The stack's table.
        is_consistent: Use a strongly consistent read. The local cache's freshness depends on this; routing does not.

    Raises:
        ServiceError: DynamoDB fails.
    """
    sequence, fence_us = 0, 0
    changes: list[str] = []
    backlog: Backlog | None = None
    routes: dict[str, RoutedKey] = {}
    nodes: dict[str, RunningNode] = {}
    late: dict[str, int] = {}
    for item in _items(client, table_name, is_consistent):
        name = item["sk"]["S"]
        if name == CHANGES_ITEM["sk"]:
            columns = to_plain(item)
            sequence, changes = columns["sequence"], changes_in(columns.get("log", ()))
            if columns.get("backlog_since_us"):
                backlog = Backlog(columns["backlog_since_us"], columns["backlog_seen_at_us"])
        elif name == LATE_ITEM["sk"]:
            late = late_until_us(to_plain(item).get("late", ()))
        elif name == RELAY_ITEM["sk"]:
            fence_us = to_plain(item)["fence_us"]
        elif name.startswith(SHOWN_ROUTE_PREFIX):
            routes[name.removeprefix(SHOWN_ROUTE_PREFIX)] = routed_key(item)
        elif name.startswith(SHOWN_NODE_PREFIX):
            columns = to_plain(item)
            nodes[name.removeprefix(SHOWN_NODE_PREFIX)] = RunningNode(
                columns["life"],
                columns["phase_rank"],
                bool(columns["is_running"]),
                tuple(columns.get("peers", ())),
                columns.get("host", ""),
            )
    return Digest(sequence, changes, routes, nodes, fence_us, late, backlog)


def routed_key(item: dict[str, Any]) -> RoutedKey:
    """Return the route in a key's digest item."""
    columns = to_plain(item)
    return RoutedKey(
        columns["life"],
        columns["phase_rank"],
        columns["tier"],
        columns.get("node", ""),
        columns.get("generation", 0),
        columns["deadline_at_us"],
    )


def _items(client: DynamoDBClient, table_name: str, is_consistent: bool) -> list[dict[str, Any]]:
    query: Any = {
        "TableName": table_name,
        "KeyConditionExpression": ALL_OF_DIGEST,
        "ExpressionAttributeValues": {":pk": {"S": DIGEST_PARTITION}},
        "ConsistentRead": is_consistent,
    }
    items: list[Any] = []
    while True:
        response = call_aws(client.query, **query)
        items += response["Items"]
        if "LastEvaluatedKey" not in response:
            return items
        query["ExclusiveStartKey"] = response["LastEvaluatedKey"]


class DigestReader:
    """A thread-safe cached digest with background refresh.

    The cached digest is fresh up to three quarters of its maximum age. From then on it is served while a thread
    revalidates it. Beyond the maximum age, callers wait for the refresh. After a failed read a circuit breaker opens.
    Callers then proceed without the digest until one of them retries. The others do not wait for the retry.

    While an event of S3 waits for longer than the maximum backlog, a write straight to the bucket may be unknown for as
    long. Copies then count as unknown, and no route is returned: S3 serves or confirms them.
    """

    def __init__(
        self,
        read: Callable[[], Digest],
        clock: Clock,
        *,
        max_age_s: float = MAX_AGE_S,
        max_backlog_s: float = math.inf,
        start: Start = in_thread,
        adaptive_timeout: AdaptiveTimeout | None = None,
    ) -> None:
        """Start with an empty cache.

        Args:
            read: Reads the digest from the table.
            clock: Source of time for the digest's age.
            max_age_s: Maximum age [s], above 0. An older digest is not used for routing.
            max_backlog_s: Maximum age of S3's oldest event that waits [s].
            start: Runs work in the background.
            adaptive_timeout: Timeout of the wait for another thread's refresh. `read` must enforce its own timeout.
        """
        self._read = read
        self._adaptive_timeout = adaptive_timeout or AdaptiveTimeout(clock=clock)
        self._clock = clock
        self._max_age_s = max_age_s
        self._max_backlog_s = max_backlog_s
        self._refresh_after_s = max_age_s * REFRESH_AT
        self._start = start
        self._followers: list[Callable[[Digest], None]] = []
        self._digest: Digest | None = None
        self._read_at = Instant(_NEVER_S, 0)
        self._tried_at_s = self._forced_at_s = _NEVER_S
        self._missed: dict[str, RoutedKey] = {}
        self._reading = threading.Lock()
        self._breakers = CircuitBreakers(clock, first_s=FIRST_S)
        self._is_lost = False

    def subscribe(self, follower: Callable[[Digest], None]) -> None:
        """Register `follower`, which receives each new digest before any reader does."""
        self._followers.append(follower)

    @property
    def sequence(self) -> int | None:
        """Sequence number of the latest known change. None before the first read."""
        return None if self._digest is None else self._digest.sequence

    @property
    def fence_us(self) -> int:
        """Latest known fence for copies in cache functions [us]. 0: never raised."""
        return 0 if self._digest is None else self._digest.fence_us

    @property
    def age_s(self) -> float:
        """Upper bound on the cached digest's age [s]. Infinite before the first read."""
        return self._age_s()

    @property
    def backlog_s(self) -> float:
        """Age of S3's oldest event that waits, as far as known [s]. 0: none waits."""
        return 0.0 if self._digest is None else self._digest.backlog_s(self._clock.now_us())

    @property
    def is_behind(self) -> bool:
        """True if S3's oldest event waits for too long, so that no tier may be asked."""
        return self.backlog_s > self._max_backlog_s

    def is_known_within(self, bound_s: float) -> bool:
        """Return True if all changes are known up to this age [s], without waiting. Refresh in the background."""
        age_s = self._age_s()
        if age_s > min(bound_s, self._max_age_s):
            return False
        self._refresh_if_due(age_s)
        return not self.is_behind

    def is_within(self, bound_s: float) -> bool:
        """Return True if all changes are known up to this age [s], after a refresh if necessary."""
        self._keep_up()
        return self._age_s() <= bound_s and not self.is_behind

    def route(self, hash_: str) -> Route | None:
        """Return the tier that serves a key, or None for S3. The result is also None if the digest cannot be read."""
        if not self.is_within(self._max_age_s) or self._digest is None:
            return None
        if hash_ in self._missed and self._missed[hash_] == self._digest.routes.get(hash_):
            return None
        return self._digest.route(hash_, now_us=self._clock.now_us())

    def home(self, hash_: str) -> Route | None:
        """Return the node that stores a key as a guest, or None if there is no such node or the digest is too old.

        This does not refresh the digest, since callers first call `route`, which refreshes it.
        """
        if self._digest is None or self._age_s() > self._max_age_s or self.is_behind:
            return None
        return self._digest.home(hash_, now_us=self._clock.now_us())

    def places(self) -> set[Route]:
        """Return all known routes, without refreshing the digest."""
        return set() if self._digest is None else self._digest.places(now_us=self._clock.now_us())

    def forget(self, hash_: str) -> None:
        """Ignore a route that missed, until it changes or the next scheduled refresh.

        The key may have moved, so the digest is refreshed immediately, but at most once per three quarters of the
        maximum age.
        """
        if self._digest is None or (routed := self._digest.routes.get(hash_)) is None:
            return
        self._missed[hash_] = routed
        if self._clock.monotonic_s() - self._forced_at_s >= self._refresh_after_s:
            self._forced_at_s = self._clock.monotonic_s()
            with self._alone() as is_alone:
                if is_alone and not self._breakers.is_open(_DIGEST):
                    self._try_refresh(is_forced=True)

    def _age_s(self) -> float:
        return seconds_since(self._clock, self._read_at)

    def _keep_up(self) -> None:
        age_s = self._age_s()
        if age_s > self._max_age_s:
            with self._alone() as is_alone:  # another thread may have refreshed the digest by now
                if is_alone and self._age_s() > self._max_age_s and not self._breakers.is_open(_DIGEST):
                    self._try_refresh()
        else:
            self._refresh_if_due(age_s)

    def _refresh_if_due(self, age_s: float) -> None:
        if age_s >= self._refresh_after_s:
            now_s = self._clock.monotonic_s()
            if now_s - self._tried_at_s >= self._refresh_after_s:
                self._tried_at_s = now_s
                try_start(self._start, self._refresh_in_background)

    def _refresh_in_background(self) -> None:
        with self._alone() as is_alone:
            if is_alone and self._age_s() >= self._refresh_after_s:
                with suppress(Exception):  # beyond the bound, a caller retries and logs the failure
                    self._refresh()

    @contextmanager
    def _alone(self) -> Iterator[bool]:
        """Hold the refresh lock and yield True. Yield False if another thread's refresh outlasts the timeout."""
        with self._adaptive_timeout.waiting():
            is_alone = self._reading.acquire(timeout=0 if self._is_lost else self._adaptive_timeout.wait_s)
        try:
            yield is_alone
        finally:
            if is_alone:
                self._reading.release()

    def _try_refresh(self, *, is_forced: bool = False) -> None:
        was_fair = self._adaptive_timeout.is_fair
        try:
            self._refresh(is_forced=is_forced)
        except Exception as error:  # after any failure, S3 still serves the objects
            if self._adaptive_timeout.blames(was_fair=was_fair):
                self._lose(error)
            else:
                self._breakers.release(_DIGEST)

    def _lose(self, error: Exception) -> None:
        """Open the circuit breaker."""
        self._breakers.record_failure(_DIGEST)
        if not self._is_lost and threading.main_thread().is_alive():  # otherwise the process is exiting
            logger().warning("digest not read, S3 serves", reason=repr(error))
        self._is_lost = True

    def _refresh(self, *, is_forced: bool = False) -> None:
        began = instant(self._clock)
        digest = self._read()
        for follower in self._followers:
            follower(digest)
        self._digest, self._read_at, self._is_lost = digest, began, False
        self._breakers.record_success(_DIGEST)
        if not is_forced:
            self._missed = {}
