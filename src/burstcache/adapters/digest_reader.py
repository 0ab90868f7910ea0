"""The digest as a reader knows it: read at most every 1.5 s, while somebody reads, and never older than its bound."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from burstcache.adapters.breaker import FIRST_S, Breakers
from burstcache.adapters.calls import ask
from burstcache.adapters.clock import Clock, Instant, instant, seconds_since
from burstcache.adapters.items import to_plain
from burstcache.adapters.patience import Patience
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
    """Do work in a thread, so that the caller need not wait."""
    threading.Thread(target=work, name="burstcache-reader", daemon=True).start()


def at_once(work: Callable[[], None]) -> None:
    """Do work before the caller goes on."""
    work()


def read_digest(client: DynamoDBClient, table_name: str, *, is_consistent: bool = True) -> Digest:
    """Return the digest: one Query, a read unit per 4 KB of all items, or half of one if it need not be the newest.

    Args:
        client: DynamoDB's.
        table_name: The stack's table.
        is_consistent: Whether all that was written before counts (a strongly consistent read). What memory may serve is
            promised by it; who is asked need not be.

    Raises:
        ServiceError: DynamoDB does not answer.
    """
    sequence, changes, fence_us = 0, [], 0
    routes: dict[str, RoutedKey] = {}
    nodes: dict[str, RunningNode] = {}
    late: dict[str, int] = {}
    for item in _items(client, table_name, is_consistent):
        name = item["sk"]["S"]
        if name == CHANGES_ITEM["sk"]:
            columns = to_plain(item)
            sequence, changes = columns["sequence"], columns["changes"]
        elif name == LATE_ITEM["sk"]:
            late = late_until_us(to_plain(item).get("late", ()))
        elif name == RELAY_ITEM["sk"]:
            fence_us = to_plain(item)["fence_us"]
        elif name.startswith(SHOWN_ROUTE_PREFIX):
            routes[name.removeprefix(SHOWN_ROUTE_PREFIX)] = routed_key(item)
        elif name.startswith(SHOWN_NODE_PREFIX):
            columns = to_plain(item)
            nodes[name.removeprefix(SHOWN_NODE_PREFIX)] = RunningNode(
                columns["life"], columns["phase_rank"], bool(columns["is_running"]), tuple(columns.get("peers", ()))
            )
    return Digest(sequence, [change.hex() for change in changes], routes, nodes, fence_us, late)


def routed_key(item: dict[str, Any]) -> RoutedKey:
    """Return a key as its item in the digest shows it."""
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
        answer = ask(client.query, **query)
        items += answer["Items"]
        if "LastEvaluatedKey" not in answer:
            return items
        query["ExclusiveStartKey"] = answer["LastEvaluatedKey"]


class DigestReader:
    """Keeps the digest while it is used. Threads may share it.

    Up to three quarters of its bound what is known is used as it is, up to the bound while a thread reads it anew, and
    beyond the bound a caller waits for that. If it cannot be read, callers do without it for a while; then one of them
    tries, and the others do not wait for that one.
    """

    def __init__(
        self,
        read: Callable[[], Digest],
        clock: Clock,
        *,
        max_age_s: float = MAX_AGE_S,
        start: Start = in_thread,
        patience: Patience | None = None,
    ) -> None:
        """Know nothing yet.

        Args:
            read: Reads the digest.
            clock: Tells how old it is.
            max_age_s: The bound: nothing older decides where a key is read, above 0 [s].
            start: Runs work while the caller goes on.
            patience: How long a caller waits for another one's reading; `read` keeps to it by itself.
        """
        self._read = read
        self._patience = patience or Patience(clock=clock)
        self._clock = clock
        self._max_age_s = max_age_s
        self._refresh_after_s = max_age_s * REFRESH_AT
        self._start = start
        self._followers: list[Callable[[Digest], None]] = []
        self._digest: Digest | None = None
        self._read_at = Instant(_NEVER_S, 0)
        self._tried_at_s = self._forced_at_s = _NEVER_S
        self._missed: dict[str, RoutedKey] = {}
        self._reading = threading.Lock()
        self._breakers = Breakers(clock, first_s=FIRST_S)
        self._is_lost = False

    def follow(self, follower: Callable[[Digest], None]) -> None:
        """Call `follower` with every digest before anybody else knows of it."""
        self._followers.append(follower)

    @property
    def sequence(self) -> int | None:
        """The number of the last change that is known; None if the digest has not been read."""
        return None if self._digest is None else self._digest.sequence

    @property
    def fence_us(self) -> int:
        """The fence of the copies in cache functions that is known [us]; 0: none was ever raised."""
        return 0 if self._digest is None else self._digest.fence_us

    @property
    def age_s(self) -> float:
        """How old what is known is at most [s]; infinite if nothing is."""
        return self._age_s()

    def is_known_within(self, bound_s: float) -> bool:
        """Whether what is known is at most so old [s]; never waits, but has it read anew in the background."""
        age_s = self._age_s()
        if age_s > min(bound_s, self._max_age_s):
            return False
        self._refresh_if_due(age_s)
        return True

    def is_within(self, bound_s: float) -> bool:
        """Whether what is known, read anew if need be, is at most so old [s]."""
        self._keep_up()
        return self._age_s() <= bound_s

    def route(self, hash_: str) -> Route | None:
        """Return the tier to ask for the key with this hash; None for S3, also if the digest cannot be read."""
        if not self.is_within(self._max_age_s) or self._digest is None:
            return None
        if hash_ in self._missed and self._missed[hash_] == self._digest.routes.get(hash_):
            return None
        return self._digest.route(hash_, now_us=self._clock.now_us())

    def home(self, hash_: str) -> Route | None:
        """Return the node that takes the key with this hash as a guest; None also if too little is known.

        Never reads the digest anew: `route`, which comes first, has.
        """
        if self._digest is None or self._age_s() > self._max_age_s:
            return None
        return self._digest.home(hash_, now_us=self._clock.now_us())

    def places(self) -> set[Route]:
        """Return all tiers that are known to serve; never reads the digest anew."""
        return set() if self._digest is None else self._digest.places(now_us=self._clock.now_us())

    def forget(self, hash_: str) -> None:
        """Leave a route alone that did not lead to the object, until the next digest.

        The digest is read at once, as the key may have moved meanwhile, but only once in three quarters of the bound.
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
            with self._alone() as is_alone:  # what another thread has read meanwhile is new enough
                if is_alone and self._age_s() > self._max_age_s and not self._breakers.is_open(_DIGEST):
                    self._try_refresh()
        else:
            self._refresh_if_due(age_s)

    def _refresh_if_due(self, age_s: float) -> None:
        if age_s >= self._refresh_after_s:
            now_s = self._clock.monotonic_s()
            if now_s - self._tried_at_s >= self._refresh_after_s:
                self._tried_at_s = now_s
                self._start(self._refresh_in_background)

    def _refresh_in_background(self) -> None:
        with self._alone() as is_alone:
            if is_alone and self._age_s() >= self._refresh_after_s:
                with suppress(Exception):  # the read that finds the bound passed tries again, and says so
                    self._refresh()

    @contextmanager
    def _alone(self) -> Iterator[bool]:
        """Let nobody else read the digest during a `with`, or say False: another thread's reading takes too long."""
        with self._patience.waiting():
            is_alone = self._reading.acquire(timeout=0 if self._is_lost else self._patience.wait_s)
        try:
            yield is_alone
        finally:
            if is_alone:
                self._reading.release()

    def _try_refresh(self, *, is_forced: bool = False) -> None:
        was_fair = self._patience.is_fair
        try:
            self._refresh(is_forced=is_forced)
        except Exception as error:  # whatever it is, S3 has the objects
            if self._patience.blames(was_fair=was_fair):
                self._lose(error)
            else:
                self._breakers.release(_DIGEST)

    def _lose(self, error: Exception) -> None:
        """Do without the digest for a while."""
        self._breakers.fail(_DIGEST)
        if not self._is_lost and threading.main_thread().is_alive():  # else the process ends, and nobody is served
            logger().warning("digest not read, S3 serves", reason=repr(error))
        self._is_lost = True

    def _refresh(self, *, is_forced: bool = False) -> None:
        began = instant(self._clock)
        digest = self._read()
        for follower in self._followers:
            follower(digest)
        self._digest, self._read_at, self._is_lost = digest, began, False
        self._breakers.succeed(_DIGEST)
        if not is_forced:
            self._missed = {}
