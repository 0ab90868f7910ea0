"""Lives of keys and runs of nodes, by the states that their executions entered."""

from __future__ import annotations

from burstcache.queries.history import Step
from burstcache_replay.executions import Lives, NodeRun, lives_of, node_runs_of


def steps(*states: str, from_us: int = 10) -> list[Step]:
    return [Step(from_us + number, state) for number, state in enumerate(states)]


def test_lives_are_counted_by_the_states_that_they_entered() -> None:
    promoted = steps("IsNodeRunning", "Lambda", "IsPromoted", "RedisBootup", "SeedRedis", "RedisRunning", "")
    idle = steps("IsNodeRunning", "Lambda", "IsPromoted", "ReturnToS3", "", from_us=50)
    failed = [*steps("IsNodeRunning", "SeedRedis"), Step(99, "", "RedisDownError: no answer")]

    found = lives_of([("a-1", promoted), ("a-2", idle), ("b-1", failed)])

    assert found == Lives(functions_us=(("a-1", 11), ("a-2", 51)), promotions=2, failures=1)


def test_a_run_of_a_node_goes_on_in_further_executions_and_ends_where_it_is_stopped_or_abandoned() -> None:
    first = ("node-1-7-9", steps("BootNode", "NodeReady", "RedisNodeRunning", "CheckNodeUse", ""))
    second = ("node-1-7-10", steps("BootNode", "NodeReady", "RedisNodeRunning", "StopNode", "", from_us=100))
    other = ("node-2-8-1", steps("BootNode", "AbandonNode", "", from_us=5))

    assert node_runs_of([second, other, first]) == (
        NodeRun("node-2", boot_us=5, ready_us=0, stop_us=6),
        NodeRun("node-1", boot_us=10, ready_us=12, stop_us=103),
    )
