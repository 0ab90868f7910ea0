"""One key with its cache function and its Redis node: what happens at which instant, whatever the policy decides."""

from __future__ import annotations

from abc import ABC, abstractmethod

from burstcache_sim.world.books import Books
from burstcache_sim.world.result import RunResult, Tier
from burstcache_sim.world.timings import THESIS_TIMINGS, Timings


class Machine(ABC):
    """The world of one key. A policy derives from it and decides in the methods that are abstract here.

    Instants are microseconds; None: there is none. Redis is off while its four instants are None.
    """

    def __init__(self, timings: Timings = THESIS_TIMINGS) -> None:
        self.timings = timings
        self.books = Books(timings)
        self.now_us = 0  # the newest request or event
        self.lambda_ready_us: int | None = None
        self.lambda_deadline_us: int | None = None
        self.lambda_ended_us: int | None = None  # the last invocation's end
        self.redis_ready_us: int | None = None  # booting until then
        self.redis_since_us: int | None = None  # running since then …
        self.redis_look_us: int | None = None  # … and the policy looks at it then
        self.redis_stopped_us: int | None = None  # stopping until then

    @abstractmethod
    def decide(self, at_us: int, tier: Tier) -> None:
        """Handle a request that `tier` serves."""

    @abstractmethod
    def look_at_redis(self, at_us: int) -> None:
        """Judge the running Redis: stop it or set the next look."""

    @abstractmethod
    def redis_is_ready(self, at_us: int) -> None:
        """Set the first look at a Redis that runs now; the cache function ends after this."""

    @abstractmethod
    def lambda_timed_out(self, at_us: int) -> None:
        """Follow the end of a cache function by its deadline."""

    @abstractmethod
    def redis_is_stopped(self, at_us: int) -> None:
        """Follow the end of a Redis node's stop."""

    def serve(self, at_us: int) -> None:
        """Handle one request, and before it everything that happens up to its instant."""
        self.advance(at_us)
        tier = self.tier_at(at_us)
        self.books.tiers.append(tier)
        self.now_us = at_us
        self.decide(at_us, tier)

    def tier_at(self, at_us: int) -> Tier:
        """Return who serves a request now."""
        if self.redis_since_us is not None:
            return "R"
        return "L" if self.lambda_ready_us is not None and self.lambda_ready_us <= at_us else "S"

    def advance(self, until_us: int | None) -> None:
        """Let everything happen that is due up to and including `until_us` (None: all there is), in time order.

        At equal instants: the cache function's time-out, Redis ready, Redis stopped, the look at Redis.
        """
        handlers = (self._time_out, self._start_redis, self._redis_stopped, self.look_at_redis)
        while True:
            instants = (self.lambda_deadline_us, self.redis_ready_us, self.redis_stopped_us, self.redis_look_us)
            due = min(((at_us, order) for order, at_us in enumerate(instants) if at_us is not None), default=None)
            if due is None or (until_us is not None and due[0] > until_us):
                return
            self.now_us = due[0]
            handlers[due[1]](due[0])

    def close(self, until_us: int | None) -> RunResult:
        """Return the run's result: at the horizon, what still runs is billed up to there."""
        self.advance(until_us)
        if until_us is not None:
            self.now_us = until_us
            self.end_lambda(until_us)
            if self.redis_since_us is not None:
                self.books.end_redis(self.redis_since_us, until_us)
        return self.result()

    def result(self) -> RunResult:
        """Return what the books hold now."""
        return self.books.close(end_us=self.now_us)

    def invoke(self, at_us: int) -> tuple[int, bool]:
        """Start a cache function; return when it is ready [us] and whether it is cold; its deadline comes later."""
        is_cold = self.lambda_ended_us is None or at_us - self.lambda_ended_us > self.timings.stays_warm_us
        self.lambda_ready_us = at_us + self.books.invoke(is_cold=is_cold)
        return self.lambda_ready_us, is_cold

    def end_lambda(self, at_us: int) -> None:
        """End the cache function if one lives."""
        if self.lambda_ready_us is not None:
            self.books.end_lambda(self.lambda_ready_us, at_us)
            self.lambda_ended_us = at_us
        self.lambda_ready_us = self.lambda_deadline_us = None

    def boot_redis(self, at_us: int) -> None:
        """Boot Redis and fetch the object for it."""
        self.books.redis_starts += 1
        self.books.seeds += 1
        self.redis_ready_us = at_us + self.timings.redis_boot_us

    def stop_redis(self, at_us: int) -> None:
        """Stop the running Redis: it serves no request from now on."""
        assert self.redis_since_us is not None, "only a running Redis is looked at"
        self.books.end_redis(self.redis_since_us, at_us)
        self.redis_since_us = self.redis_look_us = None
        self.redis_stopped_us = at_us + self.timings.redis_stop_us

    def _time_out(self, at_us: int) -> None:
        self.end_lambda(at_us)
        self.lambda_timed_out(at_us)

    def _start_redis(self, at_us: int) -> None:
        self.redis_ready_us, self.redis_since_us = None, at_us
        self.redis_is_ready(at_us)
        self.end_lambda(at_us)

    def _redis_stopped(self, at_us: int) -> None:
        self.redis_stopped_us = None
        self.redis_is_stopped(at_us)
