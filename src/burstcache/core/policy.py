"""The thesis policy: its endpoint scheduler (4.2.3) as pure functions, and the limits that all policies share.

Under `thesis` these functions alone decide when a key changes its tier. Under `breakeven`, the default, and `hazard`,
the rules are in `node_use` (nodes), `key_use` and `cache_lives` (cache functions) and `boot_loads`. Those policies use
only shared parts of this module, such as `RecordedRequest`, `may_take`, cool-downs and the planning of checks.

The live system and the simulator call the same functions. Times are integer microseconds since any common origin, and
"now" is always an argument. Both "within" and "no longer within" are strict comparisons
(`docs/understand/simulation.md`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from burstcache.core.parameters import QUEUE_LENGTH, US_PER_S, Parameters

# Events older than this start nothing, so a burst that is over has no effect.
EVENT_LATENESS_US = 5 * US_PER_S
# After a failed life, S3 serves the key for a minute. Each further consecutive failure doubles this time, up to an
# hour.
COOL_DOWN_US = 60 * US_PER_S
MAX_COOL_DOWN_US = 3600 * US_PER_S
# While no node can take a key, each request extends its life. Without this limit, minutes of load would add up to days.
MAX_SILENT_LIFE_US = 3600 * US_PER_S
# An execution that has not announced itself by this time may never have started.
ANNOUNCE_WITHIN_US = 5 * US_PER_S
# Delay of a check after its nominal time, for request times that proxies have yet to push.
STRAGGLERS_US = 2 * US_PER_S
# A node counts as abandoned if its check is later than this.
CHECK_LATENESS_US = 600 * US_PER_S
CHECKS_PER_PART = 2000  # a check adds nine history events, and Step Functions allows 25,000
# An execution lasts a year at most. Each period of this length between two checks therefore counts as a further check.
_CHECK_TAKES_US = 4 * 3600 * US_PER_S


@dataclass(frozen=True, slots=True, order=True)
class RecordedRequest:
    """One GET of a key: its time, and an ID that makes repeated reports idempotent. Ordered by time."""

    at_us: int
    request_id: str

    def encode(self) -> str:
        """Encode the request for rows and messages: `at_us:request_id`."""
        return f"{self.at_us}:{self.request_id}"

    @classmethod
    def decode(cls, text: str) -> RecordedRequest:
        """Decode a request that `encode` wrote."""
        at_us, _, request_id = text.partition(":")
        return cls(int(at_us), request_id)


def remember(
    window: Iterable[RecordedRequest], seen: Iterable[RecordedRequest], length: int
) -> tuple[RecordedRequest, ...]:
    """Merge `seen` into `window`, and return the newest `length` requests, oldest first. Idempotent and commutative."""
    return tuple(sorted({*window, *seen})[-length:])


def window_span_us(times_us: Sequence[int], parameters: Parameters) -> int | None:
    """Return the span of the newest `lambda_window_elements` of the times (oldest first), or None if too few [us]."""
    elements = parameters.lambda_window_elements
    return times_us[-1] - times_us[-elements] if len(times_us) >= elements else None


def is_hot(times_us: Sequence[int], parameters: Parameters) -> bool:
    """Return whether the newest `lambda_window_elements` of the times (oldest first) lie within `lambda_threshold`."""
    span_us = window_span_us(times_us, parameters)
    return span_us is not None and span_us < parameters.lambda_threshold_us


def starts(window: Sequence[RecordedRequest], *, now_us: int, changed_at_us: int, parameters: Parameters) -> bool:
    """Return whether the requests for a key that S3 serves start a faster tier now.

    Args:
        window: The key's newest requests, oldest first.
        now_us: The scheduler's clock [us].
        changed_at_us: Time of the key's last return to S3. A late event from its previous life starts nothing [us].
        parameters: The policy's parameters.
    """
    if not window:
        return False
    newest_us = window[-1].at_us
    in_time = now_us - newest_us < parameters.lambda_threshold_us + EVENT_LATENESS_US
    return in_time and newest_us > changed_at_us and is_hot([r.at_us for r in window], parameters)


def may_start(
    window: Sequence[RecordedRequest],
    *,
    now_us: int,
    changed_at_us: int,
    not_before_us: int,
    size_bytes: int,
    max_object_bytes: int,
    parameters: Parameters,
) -> bool:
    """Return whether a faster tier starts now for a key that S3 serves: both `may_take` and `starts` hold.

    Args:
        window: The key's newest requests, oldest first.
        now_us: The scheduler's clock [us].
        changed_at_us: As for `starts` [us].
        not_before_us: The end of the key's cool-down [us].
        size_bytes: The object's size [bytes].
        max_object_bytes: The largest object that a faster tier takes [bytes].
        parameters: The policy's parameters.
    """
    return may_take(
        now_us=now_us, not_before_us=not_before_us, size_bytes=size_bytes, max_object_bytes=max_object_bytes
    ) and starts(window, now_us=now_us, changed_at_us=changed_at_us, parameters=parameters)


def may_take(*, now_us: int, not_before_us: int, size_bytes: int, max_object_bytes: int) -> bool:
    """Return whether a key is past its cool-down and small enough for a faster tier. Arguments as for `may_start`."""
    return now_us >= not_before_us and size_bytes <= max_object_bytes


def requests_to_start(
    window: Sequence[RecordedRequest], *, now_us: int, changed_at_us: int, parameters: Parameters
) -> int:
    """Return the number of requests that would start a faster tier if they came now. Arguments as for `starts`."""
    for requests in range(1, parameters.lambda_window_elements):
        more = [RecordedRequest(now_us, f"more-{number}") for number in range(requests)]
        following = remember(window, more, len(window) + requests)
        if starts(following, now_us=now_us, changed_at_us=changed_at_us, parameters=parameters):
            return requests
    return parameters.lambda_window_elements


def is_silent(*, started_at_us: int, now_us: int) -> bool:
    """Return whether to start an unannounced execution again. The start is idempotent if the execution runs."""
    return now_us - started_at_us >= ANNOUNCE_WITHIN_US


def cool_down_us(failures: int) -> int:
    """Return the cool-down after a failed life, given the number of consecutive failures before it [us]."""
    return min(COOL_DOWN_US << failures, MAX_COOL_DOWN_US)


def count_since(trigger: RecordedRequest, window: Iterable[RecordedRequest]) -> int:
    """Return the number of requests since the trigger of the start, which itself does not count."""
    return sum(request > trigger for request in window)


@dataclass(frozen=True, slots=True)
class LambdaLife:
    """The life of a running cache function."""

    deadline_us: int  # the life ends as idle at this instant (exclusive)
    count: int  # requests since the trigger
    is_promoted: bool = False  # requests no longer extend a promoted life


def lambda_ready(now_us: int, count: int, parameters: Parameters) -> LambdaLife:
    """Return the life of a cache function that is ready now, with `count` requests since the trigger."""
    return LambdaLife(deadline_us=now_us + parameters.tick_us, count=count)


def lambda_serves(life: LambdaLife, parameters: Parameters) -> LambdaLife:
    """Return the life after one served GET. Each GET extends the life by TICK."""
    deadline_us = life.deadline_us if life.is_promoted else life.deadline_us + parameters.tick_us
    return replace(life, deadline_us=deadline_us, count=life.count + 1)


def lambda_bounded(life: LambdaLife, *, newest_at_us: int, parameters: Parameters) -> LambdaLife:
    """Limit a life that is not promoted to an hour after its newest request.

    The limit is never below the few TICKs that precede a promotion, so it affects only keys that wait a long time for a
    node. A simulation has no such limit.
    """
    ticks_us = (parameters.redis_threshold + 2) * parameters.tick_us
    latest_us = newest_at_us + max(MAX_SILENT_LIFE_US, ticks_us)
    return life if life.is_promoted else replace(life, deadline_us=min(life.deadline_us, latest_us))


def wants_promotion(life: LambdaLife, parameters: Parameters) -> bool:
    """Return whether the load has lasted long enough for Redis. Does not check whether the node can take the key."""
    return not life.is_promoted and requests_to_promotion(life.count, parameters) == 0


def requests_to_promotion(count: int, parameters: Parameters) -> int:
    """Return the number of further requests until promotion, after `count` requests since the trigger."""
    return max(parameters.redis_threshold + 1 - count, 0)


def promote(life: LambdaLife, parameters: Parameters) -> LambdaLife:
    """Return the promoted life: extended once for the boot of Redis, then fixed (thesis message KeepRunning)."""
    return replace(life, deadline_us=life.deadline_us + parameters.keep_running_us, is_promoted=True)


def unpromote(life: LambdaLife, parameters: Parameters) -> LambdaLife:
    """Revert a promotion after its report has failed. Otherwise each failed attempt would extend the life."""
    if not life.is_promoted:
        return life
    return replace(life, deadline_us=life.deadline_us - parameters.keep_running_us, is_promoted=False)


def newest_queue(times_us: Iterable[int]) -> tuple[int, ...]:
    """Return the last five request times, oldest first, for the check of a running Redis."""
    return tuple(sorted(times_us)[-QUEUE_LENGTH:])


def idle_after_us(queue_us: Sequence[int], parameters: Parameters) -> int:
    """Return the instant after which a key with these last five request times, oldest first, is idle [us]."""
    return queue_us[0] + parameters.redis_utilization_us


def is_idle(queue_us: Sequence[int], *, check_at_us: int, parameters: Parameters) -> bool:
    """Return whether the last five requests are no longer within `redis_utilization` at a check's nominal instant."""
    return check_at_us > idle_after_us(queue_us, parameters)


def is_released(queue_us: Sequence[int], *, was_missing: bool, check_at_us: int, parameters: Parameters) -> bool:
    """Return whether a node releases a key at a check.

    Args:
        queue_us: The key's last five times, oldest first [us]; empty if Redis has none (evicted, or not seeded).
        was_missing: Whether the previous check found no times either. The second such check releases the key.
        check_at_us: The check's nominal instant [us].
        parameters: The policy's parameters.
    """
    return is_idle(queue_us, check_at_us=check_at_us, parameters=parameters) if queue_us else was_missing


@dataclass(frozen=True, slots=True)
class NodeCheck:
    """The next check of a node."""

    check_at_us: int  # nominal instant, for which the check decides
    wait_until_s: int  # time at which the check runs, in whole seconds, because Step Functions truncates fractions
    deadline_us: int  # a node that has not been checked by this time counts as abandoned
    is_in_successor: bool  # a new execution makes the check, because the history of this one is full


def plan_check(check_at_us: int, *, checks: int) -> NodeCheck:
    """Plan a check of a node.

    Args:
        check_at_us: The check's nominal instant [us].
        checks: Checks that this part of the node's execution has made, as counted by `checks_after`.
    """
    wait_until_s = -(-(check_at_us + STRAGGLERS_US) // US_PER_S)
    return NodeCheck(
        check_at_us=check_at_us,
        wait_until_s=wait_until_s,
        deadline_us=wait_until_s * US_PER_S + CHECK_LATENESS_US,
        is_in_successor=checks >= CHECKS_PER_PART,
    )


def checks_after(checks: int, check_at_us: int, next_at_us: int | None) -> int:
    """Return the number of checks in this part of a node's execution. A long interval counts as several checks.

    An interval counts as at most half of a part's checks, so a hold that lasts years does not start one part after
    another.

    Args:
        checks: Number of checks before this one.
        check_at_us: Nominal instant of this check [us].
        next_at_us: Nominal instant of the next check, or None if the node is not used [us].
    """
    waits_us = max((next_at_us or check_at_us) - check_at_us, 0)
    return checks + 1 + min(waits_us // _CHECK_TAKES_US, CHECKS_PER_PART // 2)


def check_runs_us(deadline_us: int) -> int:
    """Return the time of the check for which a running node's deadline was planned [us]."""
    return deadline_us - CHECK_LATENESS_US


def next_check_us(
    queues_us: Iterable[Sequence[int]], *, ready_at_us: int, after_us: int, parameters: Parameters
) -> int:
    """Return the time of a node's next check that can find one of its keys idle [us].

    Checks are `redis_check` apart, counted from the node's readiness. Skipping the checks that cannot release a key
    replaces a one-minute ticker with one long wait, and changes no decision.

    Args:
        queues_us: Last five times of each key, oldest first [us]. A key without times (not seeded yet) is due at the
            next check.
        ready_at_us: Time at which the node became ready [us].
        after_us: Instant that the result must follow [us].
        parameters: The policy's parameters.
    """
    earliest_us = min(
        (idle_after_us(queue, parameters) if queue else after_us for queue in queues_us), default=after_us
    )
    checks_passed = (max(earliest_us, after_us) - ready_at_us) // parameters.redis_check_us
    return ready_at_us + (max(checks_passed, 0) + 1) * parameters.redis_check_us
