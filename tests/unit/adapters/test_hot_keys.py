"""Hot keys are at most as many as `MaxHotKeys`, and a start is refused only if that many are hot."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from botocore.exceptions import ClientError

from burstcache.adapters.hot_keys import HotKeys
from burstcache.adapters.hot_shards import HotShards
from burstcache.adapters.items import to_plain, to_values
from burstcache.adapters.key_table import KeyTable
from burstcache.core.errors import ContendedRowTransientError, ServiceError, ServiceTransientError
from burstcache.core.keys import key_hash
from burstcache.core.policy import RecordedRequest
from burstcache.core.rows import KeyRow
from burstcache.core.table import HOT_ITEM, KeyColumns, hot_shard_item
from support.aws import TABLE, clients, make_stack, mocked_aws
from support.clock import ManualClock

_NOW_S, _REQUEST = 10**9, RecordedRequest(1, "r")
_NOW_US = _NOW_S * 10**6
_SLOW = pytest.mark.slow


@pytest.fixture(autouse=True)
def stack() -> Iterator[None]:
    with mocked_aws():
        make_stack()
        yield


class Stack:
    """Keys that start and end, as schedulers and executions see them.

    Args:
        most: `MaxHotKeys`.
        name: Names a key's hash by its number.
    """

    def __init__(self, most: int, name: Callable[[int], str] = lambda number: key_hash(f"k{number}")) -> None:
        self._keys = KeyTable(TABLE, clients().dynamodb, ManualClock(_NOW_S))
        self._name = name
        self._epochs: dict[int, int] = {}
        self.shards = HotShards(TABLE, clients().dynamodb, self._keys.clock)
        self.hot: set[int] = set()
        self.set_most(most)

    def set_most(self, most: int) -> None:
        """Deploy another `MaxHotKeys`."""
        self.most = most
        self.admission = HotKeys(self._keys, most, clients().dynamodb, self._keys.clock)

    def start(self, number: int) -> str:
        """Start a key's life."""
        former = self._epochs.get(number, 0)
        life = KeyRow(self._name(number), "k", "lambda", former + 1, deadline_at_us=2**62, trigger=_REQUEST)
        if not former:
            self._keys.append(life.hash, "k", [_REQUEST], etag="", size_bytes=1, keep=2, within_us=0)
        outcome = self.admission.start(life, former_epoch=former, now_us=_NOW_US)
        if outcome == "started":
            self._epochs[number] = former + 1
            self.hot.add(number)
        return outcome

    def end(self, number: int) -> None:
        """End a key's life, which leaves the set of started keys as it is."""
        self._keys.update(self._name(number), epoch=self._epochs[number], set_=KeyColumns(phase="s3"))
        self.hot.discard(number)

    def check(self) -> None:
        """Check that the set holds each hot key, and that rooms add up to what the bank has lent."""
        names = {self._name(number) for number in self.hot}
        assert self.admission.live(_NOW_US) == names
        assert names <= self._keys.started()
        bank = self.shards.read_bank()
        shards = self.shards.read_shards(bank)
        assert bank.lent == sum(shard.room for shard in shards)
        assert all(len(shard.live) <= shard.room for shard in shards)


def in_one_shard(number: int) -> str:
    """Return a hash whose last digits are the same for each key."""
    return f"{number:024x}00000000"


def as_hashed(number: int) -> str:
    return key_hash(f"k{number}")


@pytest.mark.parametrize("name", [as_hashed, in_one_shard])
@pytest.mark.parametrize(
    "most", [1, pytest.param(2, marks=_SLOW), pytest.param(28, marks=_SLOW), pytest.param(35, marks=_SLOW)]
)
def test_keys_are_refused_only_when_as_many_as_allowed_are_hot(most: int, name: Callable[[int], str]) -> None:
    stack, chance = Stack(most, name), random.Random(most)

    for _ in range(4 * most + 10):
        number = chance.randrange(2 * most + 2)
        if number in stack.hot:
            stack.end(number)
        else:
            was_full = len(stack.hot) == most
            assert stack.start(number) == ("full" if was_full else "started")

    stack.check()


@pytest.mark.slow
@pytest.mark.parametrize(("before", "after"), [(40, 33), (40, 3), (3, 40), (40, 70)])
def test_another_limit_counts_for_keys_that_are_hot_already(before: int, after: int) -> None:
    stack = Stack(before)
    for number in range(before - 1):
        assert stack.start(number) == "started"

    stack.set_most(after)
    for number in range(before, before + after):
        had_room = len(stack.hot) < after
        assert stack.start(number) == ("started" if had_room else "full"), number
    stack.check()
    for number in sorted(stack.hot)[: before - after + 5 if before > after else 5]:
        stack.end(number)
        was_full = len(stack.hot) >= after
        assert stack.start(1000 + number) == ("full" if was_full else "started")

    assert len(stack.hot) == after
    stack.check()


@pytest.mark.parametrize("most", [3, pytest.param(33, marks=_SLOW)])
def test_keys_that_a_stack_without_shards_had_started_count_and_drain(most: int) -> None:
    stack = Stack(3)
    for number in range(3):
        stack.start(number)
    stack.end(0)
    columns = {"live": {as_hashed(number) for number in range(3)} | {f"{n:032x}" for n in range(30)}, "starts": 33}
    clients().dynamodb.put_item(TableName=TABLE, Item=to_values({**HOT_ITEM, **columns}))
    stack.set_most(most)

    assert stack.admission.live(_NOW_US) == {as_hashed(1), as_hashed(2)}
    outcomes = [stack.start(number) for number in range(3, most + 3)]

    assert outcomes == ["started"] * (most - 2) + ["full"] * 2
    assert len(stack.shards.read_bank().live) == (3 if most == 3 else 2)
    stack.check()


@pytest.mark.parametrize("most", [2, pytest.param(40, marks=_SLOW)])
def test_schedulers_at_once_never_exceed_the_limit(most: int) -> None:
    stack = Stack(most)
    numbers, lock, highest = iter(range(3 * most)), threading.Lock(), [0]

    def starts() -> None:
        while True:
            with lock:
                number = next(numbers, None)
            if number is None:
                return
            try:
                stack.start(number)
            except ContendedRowTransientError:
                continue  # another delivery of the report tries again
            highest[0] = max(highest[0], len(stack.hot))

    with ThreadPoolExecutor(6) as threads:
        for work in [threads.submit(starts) for _ in range(6)]:
            work.result()

    assert highest[0] == len(stack.hot) == most
    stack.check()


@pytest.mark.parametrize(("name", "starts"), [(in_one_shard, 12), pytest.param(as_hashed, 300, marks=_SLOW)])
def test_started_keys_that_have_gone_cold_are_replaced_before_a_shard_borrows_more(
    name: Callable[[int], str], starts: int
) -> None:
    stack = Stack(5000, name)

    for number in range(starts):
        assert stack.start(number) == "started"
        stack.end(number)

    bank = stack.shards.read_bank()
    assert bank.lent == 8 * len(stack.shards.read_shards(bank))
    assert {len(shard.live) <= 8 for shard in stack.shards.read_shards(bank)} == {True}
    assert not bank.live


@pytest.mark.slow
def test_a_shard_is_below_a_write_unit_with_twice_its_share_of_keys() -> None:
    stack = Stack(100, in_one_shard)

    for number in range(60):
        assert stack.start(number) == "started"

    key = to_values(hot_shard_item(0))
    item = clients().dynamodb.get_item(TableName=TABLE, Key=key)["Item"]
    assert item_bytes(to_plain(item)) < 1024


def item_bytes(item: dict[str, Any]) -> int:
    """Return the size of an item as DynamoDB counts it. A number takes a byte per two digits and up to two more."""

    def size(value: Any) -> int:
        if isinstance(value, set):
            return 3 + sum(map(len, value))
        return len(str(value)) // 2 + 2 if isinstance(value, int) else len(value)

    return sum(len(name) + size(value) for name, value in item.items())


class _Failing:
    """A client of DynamoDB whose transactions fail for one reason."""

    def __init__(self, reason: str) -> None:
        self._client, self._reason, self.calls = clients().dynamodb, reason, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def transact_write_items(self, **_: Any) -> Any:
        self.calls += 1
        reasons: Any = [{"Code": "None"}, {"Code": self._reason}]
        error: Any = {"Error": {"Code": "TransactionCanceledException", "Message": ""}, "CancellationReasons": reasons}
        raise ClientError(error, "TransactWriteItems")


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("ValidationError", ServiceError),
        ("ItemCollectionSizeLimitExceeded", ServiceError),
        ("ThrottlingError", ServiceTransientError),
        ("ProvisionedThroughputExceeded", ServiceTransientError),
    ],
)
def test_a_start_that_dynamodb_refuses_fails_at_once_and_names_the_reason(
    reason: str, kind: type[ServiceError]
) -> None:
    stack, client = Stack(2), _Failing(reason)
    stack.admission.client = client  # type: ignore[assignment]

    with pytest.raises(ServiceError) as raised:
        stack.start(1)

    assert (type(raised.value), raised.value.code, client.calls) == (kind, reason, 1)


def test_a_start_that_collides_is_tried_again_after_pauses_that_grow() -> None:
    stack, client = Stack(2), _Failing("TransactionConflict")
    stack.admission.client, stack.admission.chance = client, lambda: 1.0  # type: ignore[assignment]
    clock = stack.admission.clock
    before_s = clock.monotonic_s()

    with pytest.raises(ContendedRowTransientError):
        stack.start(1)

    assert client.calls == 8
    assert clock.monotonic_s() - before_s == pytest.approx(0.01 * (2**8 - 1))
