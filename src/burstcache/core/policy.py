"""The endpoint scheduler of the thesis (4.2.3) as pure functions: nothing else decides when a key changes its tier.

The live functions and the simulator call the same ones. Times are integer microseconds since any common origin; "now"
is always passed in. "Within" is strict, and so is "no longer within", as `docs/understand/simulation.md` has it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from burstcache.core.parameters import QUEUE_LENGTH, US_PER_S, Parameters

# How late a request's event may be and still start a key: a burst that is over must not start anything.
EVENT_LATENESS_US = 5 * US_PER_S
# After a failed life a key stays with S3 for a minute, doubled by each further failure in a row, up to an hour.
COOL_DOWN_US = 60 * US_PER_S
MAX_COOL_DOWN_US = 3600 * US_PER_S
# Without a node that can take a key, each of its requests would prolong its life, by days after minutes of load.
MAX_SILENT_LIFE_US = 3600 * US_PER_S
# An execution that has not announced itself for this long was perhaps never started.
ANNOUNCE_WITHIN_US = 5 * US_PER_S
# A check waits for the times that proxies are just pushing.
STRAGGLERS_US = 2 * US_PER_S
# How much later than planned a check may come before the node counts as abandoned.
CHECK_LATENESS_US = 600 * US_PER_S
CHECKS_PER_PART = 2000  # nine history events a check, and Step Functions allows 25,000
# It allows an execution a year as well: where checks are further apart than this, each counts as several.
_CHECK_TAKES_US = 4 * 3600 * US_PER_S


@dataclass(frozen=True, slots=True, order=True)
class Request:
    """One GET of a key: its time, and an identity that makes repeated reports harmless. Ordered by time."""

    at_us: int
    request_id: str

    def encode(self) -> str:
        """Return the request as rows and messages hold it: `at_us:request_id`."""
        return f"{self.at_us}:{self.request_id}"

    @classmethod
    def decode(cls, text: str) -> Request:
        """Return the request that `encode` wrote."""
        at_us, _, request_id = text.partition(":")
        return cls(int(at_us), request_id)


def remember(window: Iterable[Request], seen: Iterable[Request], length: int) -> tuple[Request, ...]:
    """Return the newest `length` of both, oldest first, each request once: repeats and disorder change nothing."""
    return tuple(sorted({*window, *seen})[-length:])


def window_span_us(times_us: Sequence[int], parameters: Parameters) -> int | None:
    """Return how far apart the newest `lambda_window_elements` of the times (oldest first) are; None: too few [us]."""
    elements = parameters.lambda_window_elements
    return times_us[-1] - times_us[-elements] if len(times_us) >= elements else None


def is_hot(times_us: Sequence[int], parameters: Parameters) -> bool:
    """Whether the newest `lambda_window_elements` of the times (oldest first) lie within `lambda_threshold`."""
    span_us = window_span_us(times_us, parameters)
    return span_us is not None and span_us < parameters.lambda_threshold_us


def starts(window: Sequence[Request], *, now_us: int, changed_at_us: int, parameters: Parameters) -> bool:
    """Whether a key that S3 serves goes to a faster tier now.

    Args:
        window: The key's newest requests, oldest first.
        now_us: The scheduler's clock [us].
        changed_at_us: When the key last returned to S3 [us]: a late event of its former life starts nothing.
        parameters: The policy's parameters.
    """
    if not window:
        return False
    newest_us = window[-1].at_us
    in_time = now_us - newest_us < parameters.lambda_threshold_us + EVENT_LATENESS_US
    return in_time and newest_us > changed_at_us and is_hot([r.at_us for r in window], parameters)


def may_start(
    window: Sequence[Request],
    *,
    now_us: int,
    changed_at_us: int,
    not_before_us: int,
    size_bytes: int,
    max_object_bytes: int,
    parameters: Parameters,
) -> bool:
    """Whether a key that S3 serves may and should go to a faster tier now.

    Args:
        window: The key's newest requests, oldest first.
        now_us: The scheduler's clock [us].
        changed_at_us: As for `starts` [us].
        not_before_us: The end of the key's cool-down [us].
        size_bytes: The object's size [bytes].
        max_object_bytes: What a faster tier takes [bytes].
        parameters: The policy's parameters.
    """
    return may_take(
        now_us=now_us, not_before_us=not_before_us, size_bytes=size_bytes, max_object_bytes=max_object_bytes
    ) and starts(window, now_us=now_us, changed_at_us=changed_at_us, parameters=parameters)


def may_take(*, now_us: int, not_before_us: int, size_bytes: int, max_object_bytes: int) -> bool:
    """Whether a faster tier may take a key that S3 serves, however hot it is; arguments as for `may_start`."""
    return now_us >= not_before_us and size_bytes <= max_object_bytes


def requests_to_start(window: Sequence[Request], *, now_us: int, changed_at_us: int, parameters: Parameters) -> int:
    """Return how many requests start a key that S3 serves if all of them come now; arguments as for `starts`."""
    for requests in range(1, parameters.lambda_window_elements):
        more = [Request(now_us, f"more-{number}") for number in range(requests)]
        following = remember(window, more, len(window) + requests)
        if starts(following, now_us=now_us, changed_at_us=changed_at_us, parameters=parameters):
            return requests
    return parameters.lambda_window_elements


def is_silent(*, started_at_us: int, now_us: int) -> bool:
    """Whether an execution that has not announced itself should be started again, which is harmless if it runs."""
    return now_us - started_at_us >= ANNOUNCE_WITHIN_US


def cool_down_us(failures: int) -> int:
    """Return how long a key stays with S3 after a failed life; `failures` lives in a row had failed before it [us]."""
    return min(COOL_DOWN_US << failures, MAX_COOL_DOWN_US)


def count_since(trigger: Request, window: Iterable[Request]) -> int:
    """Return how many requests came after the one that triggered the start (which itself does not count)."""
    return sum(request > trigger for request in window)


@dataclass(frozen=True, slots=True)
class LambdaLife:
    """What a running cache function knows of its own end."""

    deadline_us: int  # it ends as idle at this instant, which no longer belongs to it
    count: int  # requests since the trigger
    is_promoted: bool = False  # promotion switches the extension off


def lambda_ready(now_us: int, count: int, parameters: Parameters) -> LambdaLife:
    """Return the life of a cache function that is ready now; `count` requests came while it started."""
    return LambdaLife(deadline_us=now_us + parameters.tick_us, count=count)


def lambda_serves(life: LambdaLife, parameters: Parameters) -> LambdaLife:
    """Return the life after one GET that the cache function served: extended by TICK, cumulatively."""
    deadline_us = life.deadline_us if life.is_promoted else life.deadline_us + parameters.tick_us
    return replace(life, deadline_us=deadline_us, count=life.count + 1)


def lambda_bounded(life: LambdaLife, *, newest_at_us: int, parameters: Parameters) -> LambdaLife:
    """Return the life, which outlasts its newest request by an hour at most, if that is not promoted.

    What comes before a promotion adds a few TICKs, which the bound leaves whole: only a key that no node takes for long
    meets it. In a simulation there is none.
    """
    ticks_us = (parameters.redis_threshold + 2) * parameters.tick_us
    latest_us = newest_at_us + max(MAX_SILENT_LIFE_US, ticks_us)
    return life if life.is_promoted else replace(life, deadline_us=min(life.deadline_us, latest_us))


def wants_promotion(life: LambdaLife, parameters: Parameters) -> bool:
    """Whether the load lasts, so that Redis pays; whether its node can take the key now is another question."""
    return not life.is_promoted and requests_to_promotion(life.count, parameters) == 0


def requests_to_promotion(count: int, parameters: Parameters) -> int:
    """Return how many more requests ask for Redis after `count` since the trigger."""
    return max(parameters.redis_threshold + 1 - count, 0)


def promote(life: LambdaLife, parameters: Parameters) -> LambdaLife:
    """Return the promoted life: kept running while Redis boots, no longer extended (thesis message KeepRunning)."""
    return replace(life, deadline_us=life.deadline_us + parameters.keep_running_us, is_promoted=True)


def unpromote(life: LambdaLife, parameters: Parameters) -> LambdaLife:
    """Return the life without a promotion that was not reported: otherwise each failed attempt would prolong it."""
    if not life.is_promoted:
        return life
    return replace(life, deadline_us=life.deadline_us - parameters.keep_running_us, is_promoted=False)


def newest_queue(times_us: Iterable[int]) -> tuple[int, ...]:
    """Return the last five times, oldest first: what a running Redis is judged by."""
    return tuple(sorted(times_us)[-QUEUE_LENGTH:])


def idle_after_us(queue_us: Sequence[int], parameters: Parameters) -> int:
    """Return after which instant a key with these last five times, oldest first, is idle [us]."""
    return queue_us[0] + parameters.redis_utilization_us


def is_idle(queue_us: Sequence[int], *, check_at_us: int, parameters: Parameters) -> bool:
    """Whether, at a check's nominal instant, the last five requests are no longer within `redis_utilization`."""
    return check_at_us > idle_after_us(queue_us, parameters)


def is_released(queue_us: Sequence[int], *, was_missing: bool, check_at_us: int, parameters: Parameters) -> bool:
    """Whether a node gives a key back at a check.

    Args:
        queue_us: The key's last five times, oldest first [us]; empty if Redis has none (evicted, or not seeded).
        was_missing: The check before found nothing either: a key is missing for one check, then it is released.
        check_at_us: The check's nominal instant [us].
        parameters: The policy's parameters.
    """
    return is_idle(queue_us, check_at_us=check_at_us, parameters=parameters) if queue_us else was_missing


@dataclass(frozen=True, slots=True)
class NodeCheck:
    """The next check of a node."""

    check_at_us: int  # its nominal instant, which decides
    wait_until_s: int  # when it runs: whole seconds, since Step Functions cuts fractions off
    deadline_us: int  # a node that has not been checked by then is abandoned
    is_in_successor: bool  # the execution's history is full by then


def plan_check(check_at_us: int, *, checks: int) -> NodeCheck:
    """Return when a check runs.

    Args:
        check_at_us: Its nominal instant [us].
        checks: How many checks this part of the node's execution has made, by `checks_after`.
    """
    wait_until_s = -(-(check_at_us + STRAGGLERS_US) // US_PER_S)
    return NodeCheck(
        check_at_us=check_at_us,
        wait_until_s=wait_until_s,
        deadline_us=wait_until_s * US_PER_S + CHECK_LATENESS_US,
        is_in_successor=checks >= CHECKS_PER_PART,
    )


def checks_after(checks: int, check_at_us: int, next_at_us: int | None) -> int:
    """Return how many checks a part of a node's execution has made, or would have made in its time, before the next.

    A hold for years takes one part to its end, and not one part after another.

    Args:
        checks: How many before this one.
        check_at_us: This one's nominal instant.
        next_at_us: That of the next one; None: nobody uses the node.
    """
    waits_us = max((next_at_us or check_at_us) - check_at_us, 0)
    return checks + 1 + min(waits_us // _CHECK_TAKES_US, CHECKS_PER_PART // 2)


def check_runs_us(deadline_us: int) -> int:
    """Return when the check runs that a running node's deadline was planned for [us]."""
    return deadline_us - CHECK_LATENESS_US


def next_check_us(
    queues_us: Iterable[Sequence[int]], *, ready_at_us: int, after_us: int, parameters: Parameters
) -> int:
    """Return the first check of a node that can find one of its keys idle; the checks before it cannot.

    Checks come `redis_check` apart, counted from the node's readiness. Skipping those that must fail makes a long wait
    out of a minute ticker without changing one decision.

    Args:
        queues_us: Per key its last five times, oldest first [us]; a key without any (not seeded yet) is asked again at
            the next check.
        ready_at_us: When the node became ready [us].
        after_us: The answer is later than this instant [us].
        parameters: The policy's parameters.
    """
    earliest_us = min(
        (idle_after_us(queue, parameters) if queue else after_us for queue in queues_us), default=after_us
    )
    checks_passed = (max(earliest_us, after_us) - ready_at_us) // parameters.redis_check_us
    return ready_at_us + (max(checks_passed, 0) + 1) * parameters.redis_check_us
