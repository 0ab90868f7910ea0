"""A watch follows a key from one execution to the next, until its state or its time has come."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from burstcache.core.errors import ServiceTransientError
from burstcache.queries.history import Step
from burstcache.queries.watch import NotReachedError, RowState, StateEntry, Watcher, watch
from support.clock import ManualClock

S3 = RowState("S3", True, "", 0)


@dataclass
class World:
    """A key's row and the histories of its executions, changed by the test between looks."""

    life: RowState = S3
    steps: dict[str, list[Step] | None] = field(default_factory=dict)

    def open_history(self, name: str) -> World.Reader:
        return World.Reader(self, name)

    def watcher(self) -> Watcher:
        return Watcher(lambda: self.life, self.open_history, "S3")  # type: ignore[arg-type]

    @dataclass
    class Reader:
        world: World
        name: str

        def read_new(self) -> list[Step] | None:
            new = self.world.steps.get(self.name)
            if new is not None:
                self.world.steps[self.name] = []
            return new


class Clock(ManualClock):
    """Stands still but for sleeps; at each of them the next of the planned changes happens."""

    def __init__(self, *plan: Callable[[], None]) -> None:
        super().__init__()
        self._plan = list(plan)

    def sleep(self, duration_s: float) -> None:
        super().sleep(duration_s)
        if self._plan:
            self._plan.pop(0)()


def states(entered: list[StateEntry]) -> list[str]:
    return [one.state for one in entered]


def live(name: str, state: str = "Lambda") -> RowState:
    return RowState(state, False, name, 50)


def test_first_look_at_a_resting_key_is_s3_since_its_last_change() -> None:
    world = World(RowState("S3", True, "k-1", 77), {"k-1": [Step(1, "Lambda"), Step(2, "")]})

    assert world.watcher().poll() == [StateEntry(77, "S3", "")]


def test_first_look_at_a_hot_key_gives_its_life_so_far() -> None:
    world = World(live("k-1"), {"k-1": [Step(1, "IsNodeRunning"), Step(2, "Lambda")]})

    assert world.watcher().poll() == [StateEntry(1, "IsNodeRunning", "k-1"), StateEntry(2, "Lambda", "k-1")]


def test_watch_follows_a_life_to_its_end_and_into_the_next_one() -> None:
    world = World()
    watcher = world.watcher()
    assert states(watcher.poll()) == ["S3"]

    world.life, world.steps = live("k-1"), {"k-1": [Step(1, "Lambda")]}
    assert states(watcher.poll()) == ["Lambda"]
    assert watcher.poll() == []
    world.life, world.steps = live("k-2"), {"k-1": [Step(5, "ReturnToS3"), Step(6, "")], "k-2": [Step(7, "Lambda")]}

    assert watcher.poll() == [
        StateEntry(5, "ReturnToS3", "k-1"), StateEntry(6, "S3", ""), StateEntry(7, "Lambda", "k-2"),
    ]  # fmt: skip


def test_failed_life_says_why_it_returned_to_s3() -> None:
    world = World(live("k-1"), {"k-1": [Step(1, "RedisBootup"), Step(2, "", "NodeFailedError: no ping")]})

    assert world.watcher().poll()[-1] == StateEntry(2, "S3", "", "NodeFailedError: no ping")


def test_node_is_at_rest_when_its_row_says_so_though_its_execution_ends_before() -> None:
    world = World(live("n-1-1"), {"n-1-1": [Step(1, "StopNode"), Step(2, "")]})
    watcher = world.watcher()

    assert [entered.state for entered in watcher.poll()] == ["StopNode"]
    assert watcher.poll() == []

    world.life = RowState("S3", True, "n-1-1", 77)
    assert [entered.state for entered in watcher.poll()] == ["S3"]
    assert watcher.poll() == []


def test_end_that_hands_over_to_a_successor_is_no_end() -> None:
    world = World(live("n-1-1"), {"n-1-1": [Step(1, "CheckNodeUse"), Step(2, "Superseded")]})
    watcher = world.watcher()
    watcher.poll()

    world.life, world.steps = live("n-1-2"), {"n-1-1": [Step(3, "")], "n-1-2": [Step(4, "RedisNodeRunning")]}

    assert watcher.poll() == [StateEntry(4, "RedisNodeRunning", "n-1-2")]


def test_row_without_an_execution_is_shown_as_its_row_says() -> None:
    world = World(live("k-1"), {"k-1": None})

    assert world.watcher().poll() == [StateEntry(50, "Lambda", "k-1", doubt="no_execution")]


def test_zombie_is_left_for_the_newer_life_after_one_more_look() -> None:
    world = World(live("k-1"), {"k-1": [Step(1, "RedisRunning")]})
    watcher = world.watcher()
    watcher.poll()
    world.life, world.steps["k-2"] = live("k-2"), [Step(9, "Lambda")]

    assert watcher.poll() == []
    assert watcher.poll() == [StateEntry(9, "Lambda", "k-2")]


def test_expired_row_of_a_zombie_is_back_on_s3_after_one_more_look() -> None:
    world = World(live("k-1"), {"k-1": [Step(1, "RedisRunning")]})
    watcher = world.watcher()
    watcher.poll()
    world.life = RowState("S3", True, "k-1", 50)

    assert watcher.poll() == []
    assert watcher.poll() == [StateEntry(0, "S3", "", doubt="deadline_passed")]
    assert watcher.poll() == []


def test_watch_ends_at_the_awaited_state_and_prints_nothing_behind_it() -> None:
    world = World()

    def promote() -> None:
        world.life, world.steps = (
            live("k-1"),
            {"k-1": [Step(1, "Lambda"), Step(2, "RedisBootup"), Step(3, "SeedRedis")]},
        )

    clock = Clock(lambda: None, promote)

    seen = list(watch(world.watcher(), clock, until="RedisBootup"))

    assert states(seen) == ["S3", "Lambda", "RedisBootup"]
    assert clock.now_s == 1.0


def test_watch_ends_at_once_if_the_awaited_state_is_the_current_one() -> None:
    world = World(live("k-1"), {"k-1": [Step(1, "Lambda")]})

    assert states(list(watch(world.watcher(), Clock(), until="Lambda"))) == ["Lambda"]


def test_awaited_state_of_the_past_does_not_end_the_watch() -> None:
    world = World(live("k-1"), {"k-1": [Step(1, "Lambda"), Step(2, "RedisBootup")]})

    with pytest.raises(NotReachedError, match="Lambda was not entered within 3 s; the state is RedisBootup"):
        list(watch(world.watcher(), Clock(), until="Lambda", timeout_s=3))


def test_watch_without_an_awaited_state_ends_well_at_its_time() -> None:
    world = World()
    clock = Clock()

    seen = list(watch(world.watcher(), clock, timeout_s=1.2))

    assert states(seen) == ["S3"]
    assert clock.now_s == pytest.approx(1.2)


def _refusals(world: World, refused: list[bool]) -> Watcher:
    """Return a watcher whose histories are refused as often as planned, a look at a time."""
    watcher = world.watcher()
    read_new = world.Reader.read_new

    class Refusing(World.Reader):
        def read_new(self) -> list[Step] | None:
            if refused and refused.pop(0):
                raise ServiceTransientError("throttled")
            return read_new(self)

    watcher.open_history = lambda name: Refusing(world, name)  # type: ignore[assignment, return-value]
    return watcher


def test_what_passes_ends_no_watch_and_no_state_is_missed() -> None:
    world = World(live("one"), {"one": [Step(1, "Lambda")]})

    def go_on() -> None:
        world.steps["one"] = [Step(2, "RedisBootup"), Step(3, "")]
        world.life = live("two")
        world.steps["two"] = [Step(4, "Lambda")]

    # The first look reads one history; the second that one and the next life's, which is refused twice.
    watcher = _refusals(world, [False, False, True, True])

    assert states(list(watch(watcher, Clock(go_on), timeout_s=5))) == ["Lambda", "RedisBootup", "S3", "Lambda"]


def test_aws_that_fails_for_a_minute_ends_a_watch() -> None:
    world, clock = World(live("one"), {"one": [Step(1, "Lambda")]}), Clock()

    with pytest.raises(ServiceTransientError, match="throttled"):
        list(watch(_refusals(world, [False] + [True] * 1000), clock, poll_s=1))

    assert clock.now_s == pytest.approx(61)


def test_a_guest_comes_and_goes_with_its_node_and_no_execution() -> None:
    world = World()
    watcher = world.watcher()
    watcher.poll()
    world.life = guest = RowState("Guest", True, "", 77)

    assert watcher.poll() == [StateEntry(77, "Guest", "")]
    assert watcher.poll() == []
    world.life = S3
    assert watcher.poll() == [StateEntry(0, "S3", "")]
    world.life = guest
    assert world.watcher().poll() == [StateEntry(77, "Guest", "")]


def test_a_life_that_ends_while_its_node_runs_leaves_a_guest() -> None:
    world = World(live("k-1"), {"k-1": [Step(1, "RedisRunning"), Step(9, "")]})
    watcher = world.watcher()
    assert states(watcher.poll()) == ["RedisRunning", "S3"]
    world.life = RowState("Guest", True, "k-1", 5)

    assert watcher.poll() == [StateEntry(0, "Guest", "")]
