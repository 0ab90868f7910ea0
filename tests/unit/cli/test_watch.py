"""A watch follows a key from one execution to the next and ends when it is told to."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import pytest

from burstcache_cli.history import Step
from burstcache_cli.watch import Entered, Life, Lines, NotReachedError, Watcher, watch

S3 = Life("S3", True, "", 0)


@dataclass
class World:
    """A key's row and the histories of its executions, changed by the test between looks."""

    life: Life = S3
    steps: dict[str, list[Step] | None] = field(default_factory=dict)
    time_s: float = 0.0
    plan: list[object] = field(default_factory=list)  # what happens at each sleep

    def open_history(self, name: str) -> World.Reader:
        return World.Reader(self, name)

    def watcher(self) -> Watcher:
        return Watcher(lambda: self.life, self.open_history, "S3")  # type: ignore[arg-type]

    def sleep(self, seconds: float) -> None:
        self.time_s += seconds
        if self.plan:
            self.plan.pop(0)()  # type: ignore[operator]

    @dataclass
    class Reader:
        world: World
        name: str

        def read_new(self) -> list[Step] | None:
            new = self.world.steps.get(self.name)
            if new is not None:
                self.world.steps[self.name] = []
            return new


def states(entered: list[Entered]) -> list[str]:
    return [one.state for one in entered]


def live(name: str, state: str = "Lambda") -> Life:
    return Life(state, False, name, 50)


def test_first_look_at_a_resting_key_is_s3_since_its_last_change() -> None:
    world = World(Life("S3", True, "k-1", 77), {"k-1": [Step(1, "Lambda"), Step(2, "")]})

    assert world.watcher().look() == [Entered(77, "S3", "")]


def test_first_look_at_a_hot_key_gives_its_life_so_far() -> None:
    world = World(live("k-1"), {"k-1": [Step(1, "IsNodeRunning"), Step(2, "Lambda")]})

    assert world.watcher().look() == [Entered(1, "IsNodeRunning", "k-1"), Entered(2, "Lambda", "k-1")]


def test_watch_follows_a_life_to_its_end_and_into_the_next_one() -> None:
    world = World()
    watcher = world.watcher()
    assert states(watcher.look()) == ["S3"]

    world.life, world.steps = live("k-1"), {"k-1": [Step(1, "Lambda")]}
    assert states(watcher.look()) == ["Lambda"]
    assert watcher.look() == []
    world.life, world.steps = live("k-2"), {"k-1": [Step(5, "ReturnToS3"), Step(6, "")], "k-2": [Step(7, "Lambda")]}

    assert watcher.look() == [
        Entered(5, "ReturnToS3", "k-1"), Entered(6, "S3", ""), Entered(7, "Lambda", "k-2"),
    ]  # fmt: skip


def test_failed_life_says_why_it_returned_to_s3() -> None:
    world = World(live("k-1"), {"k-1": [Step(1, "RedisBootup"), Step(2, "", "NodeFailedError: no ping")]})

    assert world.watcher().look()[-1] == Entered(2, "S3", "", "NodeFailedError: no ping")


def test_end_that_hands_over_to_a_successor_is_no_end() -> None:
    world = World(live("n-1-1"), {"n-1-1": [Step(1, "CheckNodeUse"), Step(2, "StartNodeSuccessor")]})
    watcher = world.watcher()
    watcher.look()

    world.life, world.steps = live("n-1-2"), {"n-1-1": [Step(3, "")], "n-1-2": [Step(4, "RedisNodeRunning")]}

    assert watcher.look() == [Entered(4, "RedisNodeRunning", "n-1-2")]


def test_row_without_an_execution_is_shown_as_its_row_says() -> None:
    world = World(live("k-1"), {"k-1": None})

    assert world.watcher().look() == [Entered(50, "Lambda", "k-1", "no execution of this name (yet)")]


def test_zombie_is_left_for_the_newer_life_after_one_more_look() -> None:
    world = World(live("k-1"), {"k-1": [Step(1, "RedisRunning")]})
    watcher = world.watcher()
    watcher.look()
    world.life, world.steps["k-2"] = live("k-2"), [Step(9, "Lambda")]

    assert watcher.look() == []
    assert watcher.look() == [Entered(9, "Lambda", "k-2")]


def test_expired_row_of_a_zombie_is_back_on_s3_after_one_more_look() -> None:
    world = World(live("k-1"), {"k-1": [Step(1, "RedisRunning")]})
    watcher = world.watcher()
    watcher.look()
    world.life = Life("RedisRunning", True, "k-1", 50)

    assert watcher.look() == []
    assert watcher.look() == [Entered(0, "S3", "", "its deadline has passed, the execution has not ended")]
    assert watcher.look() == []


def test_watch_ends_at_the_awaited_state_and_prints_nothing_behind_it() -> None:
    world = World()

    def promote() -> None:
        world.life, world.steps = (
            live("k-1"),
            {"k-1": [Step(1, "Lambda"), Step(2, "RedisBootup"), Step(3, "SeedRedis")]},
        )

    world.plan = [lambda: None, promote]

    seen = list(watch(world.watcher(), until="RedisBootup", clock_s=lambda: world.time_s, sleep=world.sleep))

    assert states(seen) == ["S3", "Lambda", "RedisBootup"]
    assert world.time_s == 1.0


def test_watch_ends_at_once_if_the_awaited_state_is_the_current_one() -> None:
    world = World(live("k-1"), {"k-1": [Step(1, "Lambda")]})

    assert states(list(watch(world.watcher(), until="Lambda", sleep=world.sleep))) == ["Lambda"]


def test_awaited_state_of_the_past_does_not_end_the_watch() -> None:
    world = World(live("k-1"), {"k-1": [Step(1, "Lambda"), Step(2, "RedisBootup")]})

    with pytest.raises(NotReachedError, match="Lambda was not entered within 3 s; the state is RedisBootup"):
        list(watch(world.watcher(), until="Lambda", timeout_s=3, clock_s=lambda: world.time_s, sleep=world.sleep))


def test_watch_without_an_awaited_state_ends_well_at_its_time() -> None:
    world = World()

    seen = list(watch(world.watcher(), timeout_s=1.2, clock_s=lambda: world.time_s, sleep=world.sleep))

    assert states(seen) == ["S3"]
    assert world.time_s == pytest.approx(1.2)


def test_lines_tell_how_long_the_state_before_took() -> None:
    lines = Lines(as_json=False)
    at_us = 1_785_542_400_250_000

    assert lines.line(Entered(at_us, "Lambda", "k-1")) == "2026-08-01T00:00:00.250Z  Lambda"
    assert lines.line(Entered(at_us + 8_200_000, "RedisBootup", "k-1")) == (
        "2026-08-01T00:00:08.450Z  RedisBootup         after 8.2 s in Lambda"
    )
    assert lines.line(Entered(at_us + 9_200_000, "S3", "", "X: y")) == (
        "2026-08-01T00:00:09.450Z  S3                  after 1 s in RedisBootup  X: y"
    )


def test_line_of_a_state_whose_time_is_not_known_says_so() -> None:
    lines = Lines(as_json=False)

    assert lines.line(Entered(0, "S3", "")) == "-                         S3"
    assert lines.line(Entered(5, "Lambda", "k-1")).endswith("Lambda")


def test_lines_for_machines_are_one_object_each() -> None:
    lines = Lines(as_json=True)
    lines.line(Entered(1_000_000, "Lambda", "k-1"))

    assert json.loads(lines.line(Entered(3_500_000, "S3", ""))) == {
        "at_us": 3_500_000, "state": "S3", "execution_name": "", "note": "",
        "previous_state": "Lambda", "in_previous_s": 2.5,
    }  # fmt: skip
