"""Rows of keys as they are shown: state, tier, whether a route is followed."""

from __future__ import annotations

from burstcache.core.policy import Request
from burstcache.core.table import KeyRow, NodeRow
from burstcache_cli.history import Step
from burstcache_cli.keys import key_view, keys_text, route_view, routes_text

NOW_US = 1_785_542_400_000_000  # 2026-08-01T00:00:00Z
HASH = "0123456789abcdef0123456789abcdef"


def window(length: int) -> tuple[Request, ...]:
    return tuple(Request(NOW_US - i, f"id-{i}") for i in reversed(range(length)))


def hot(**changes: object) -> KeyRow:
    fields = {"phase": "lambda", "epoch": 7, "tier": "lambda", "holder": "req-1", "deadline_at_us": NOW_US + 1}
    return KeyRow(HASH, "cars.json", **(fields | changes))  # type: ignore[arg-type]


def test_key_that_was_never_hot_has_no_execution_and_no_time() -> None:
    text = keys_text([key_view(KeyRow(HASH, "cars.json", window=window(2)), NOW_US)])

    assert text == "KEY        STATE  TIER  SINCE  REQUESTS  EXECUTION\ncars.json  S3     s3    -      2         -"


def test_hot_key_shows_its_state_tier_time_and_execution() -> None:
    row = hot(changed_at_us=NOW_US - 5_000_000)

    assert key_view(row, NOW_US).cells() == (
        "cars.json", "Lambda", "lambda", "2026-07-31T23:59:55Z", "0", f"{HASH}-7",
    )  # fmt: skip


def test_count_of_requests_says_when_older_ones_may_be_forgotten() -> None:
    four, five = (key_view(KeyRow(HASH, "k", window=window(length)), NOW_US) for length in (4, 5))

    assert (four.requests, four.is_window_full, four.cells()[4]) == (4, False, "4")
    assert (five.requests, five.is_window_full, five.cells()[4]) == (5, True, "5+")


def test_expired_row_is_marked_and_counts_as_s3() -> None:
    view = key_view(hot(deadline_at_us=NOW_US), NOW_US)

    assert (view.state, view.is_expired, view.tier) == ("Lambda", True, "s3")
    assert view.cells()[1] == "Lambda (expired)"


def test_state_is_dated_by_the_execution_and_by_the_row_until_it_says_so() -> None:
    row = hot(phase="redis_running", changed_at_us=5)
    steps = [Step(10, "RedisBootup"), Step(20, "SeedRedis")]

    assert key_view(row, NOW_US, steps).since_us == 5
    assert key_view(row, NOW_US, [*steps, Step(30, "RedisRunning")]).since_us == 30


def test_key_that_failed_is_cooling_down_until_it_may_start_again() -> None:
    failed = KeyRow(HASH, "k", failures=1, not_before_us=NOW_US + 1)

    assert key_view(failed, NOW_US).cells()[1] == "S3 (cooling down)"
    assert key_view(failed, NOW_US + 1).cells()[1] == "S3"


def test_key_of_s3_does_not_expire() -> None:
    assert not key_view(KeyRow(HASH, "k", deadline_at_us=1), NOW_US).is_expired


def test_key_whose_cache_function_is_not_ready_is_served_by_s3() -> None:
    assert key_view(hot(tier="", holder=""), NOW_US).tier == "s3"


def test_route_to_a_cache_function_is_valid_until_it_expires() -> None:
    assert route_view(hot(), None, NOW_US).is_valid

    expired = route_view(hot(deadline_at_us=NOW_US), None, NOW_US)

    assert (expired.is_valid, expired.reason) == (False, "expired at 2026-08-01T00:00:00Z")


def test_route_to_redis_is_valid_only_while_its_node_runs_in_the_same_generation() -> None:
    row = hot(phase="redis_running", tier="redis", node="node-1", generation=3, holder="")

    def reason(**node: object) -> str:
        return route_view(row, NodeRow("node-1", **node), NOW_US).reason  # type: ignore[arg-type]

    assert reason(phase="running", generation=3) == ""
    assert reason(phase="running", generation=4) == "node-1 runs generation 4"
    assert reason(phase="stopping", generation=3) == "node-1 is stopping"


def test_routes_are_shown_in_columns() -> None:
    redis = hot(phase="redis_running", tier="redis", node="node-1", generation=3, holder="")
    views = [route_view(hot(), None, NOW_US), route_view(redis, NodeRow("node-1"), NOW_US)]

    assert routes_text(views).splitlines() == [
        "KEY        TIER    NODE    GENERATION  HOLDER  VALID",
        "cars.json  lambda  -       -           req-1   yes",
        "cars.json  redis   node-1  3           -       no: node-1 is stopped",
    ]


def test_nothing_to_show_is_said() -> None:
    assert keys_text([]) == "no key has been requested yet"
    assert routes_text([]) == "no routes: S3 serves every key"
