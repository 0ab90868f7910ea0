"""The thesis's scheduler over one key: the live system's decisions (`core.policy`) on simulated time."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from enum import StrEnum

from burstcache.core.parameters import Parameters
from burstcache.core.policy import (
    LambdaLife,
    is_hot,
    is_idle,
    lambda_ready,
    lambda_serves,
    newest_queue,
    promote,
    wants_promotion,
)
from burstcache_sim.world.machine import Machine
from burstcache_sim.world.result import RunResult, Tier
from burstcache_sim.world.timings import THESIS_TIMINGS, Timings


class State(StrEnum):
    """The states of the thesis's scheduler (figure 4.5)."""

    S3 = "S3"
    LAMBDA = "LAMBDA"
    RESTRICTED_LAMBDA = "RESTRICTEDLAMBDA"  # Redis still stops: it cannot boot
    REDIS_BOOTUP = "REDISBOOTUP"
    REDIS_RUNNING = "REDISRUNNING"
    REDIS_SHUTDOWN = "REDISSHUTDOWN"  # S3 serves while Redis stops


_ON_HOT = {State.S3: State.LAMBDA, State.REDIS_SHUTDOWN: State.RESTRICTED_LAMBDA}
_ON_TIME_OUT = {State.LAMBDA: State.S3, State.RESTRICTED_LAMBDA: State.REDIS_SHUTDOWN}
_ON_STOPPED = {State.REDIS_SHUTDOWN: State.S3, State.RESTRICTED_LAMBDA: State.LAMBDA}


class ThesisMachine(Machine):
    """One key under the thesis's scheduler.

    Source:
        Thesis, section 4.2.3; `docs/understand/simulation.md`, "The thesis policy".
    """

    def __init__(self, parameters: Parameters, timings: Timings = THESIS_TIMINGS) -> None:
        super().__init__(timings)
        self.parameters = parameters
        self.state = State.S3
        self.life: LambdaLife | None = None
        self.window: deque[int] = deque(maxlen=parameters.window_length)
        self.checks = 0
        self.log: list[tuple[int, str, str]] = []

    def decide(self, at_us: int, tier: Tier) -> None:
        """Count the request, and start what it triggers."""
        self.window.append(at_us)
        if self.state in _ON_HOT:
            if is_hot(self.window, self.parameters):
                self._start_lambda(at_us)
        elif self.life is not None:
            # A request that S3 serves while the function starts counts like the others; only what it serves extends.
            served = lambda_serves(self.life, self.parameters)
            self._live(served if tier == "L" else replace(self.life, count=self.life.count + 1))
            if self.state is State.LAMBDA and wants_promotion(self.life, self.parameters):
                self._live(promote(self.life, self.parameters))
                self.boot_redis(at_us)
                self._enter(at_us, State.REDIS_BOOTUP)

    def lambda_timed_out(self, at_us: int) -> None:
        """Leave the Lambda tier."""
        self.log.append((at_us, self.state, "lambda timeout"))
        self.life = None
        self._enter(at_us, _ON_TIME_OUT.get(self.state, self.state))

    def redis_is_ready(self, at_us: int) -> None:
        """Let Redis serve; its checks are counted from now."""
        self.redis_look_us = at_us + self.parameters.redis_check_us
        self.life = None
        self._enter(at_us, State.REDIS_RUNNING)

    def look_at_redis(self, at_us: int) -> None:
        """Stop Redis when its last five requests are no longer within `redis_utilization`."""
        self.checks += 1
        if is_idle(newest_queue(self.window), check_at_us=at_us, parameters=self.parameters):
            self.stop_redis(at_us)
            self._enter(at_us, State.REDIS_SHUTDOWN)
        else:
            self.redis_look_us = at_us + self.parameters.redis_check_us

    def redis_is_stopped(self, at_us: int) -> None:
        """Allow Redis to boot again: the next request may do so at once."""
        self._enter(at_us, _ON_STOPPED[self.state])

    def result(self) -> RunResult:
        """Return what the books hold now, with the scheduler's log."""
        return self.books.close(end_us=self.now_us, checks=self.checks, log=tuple(self.log))

    def _start_lambda(self, at_us: int) -> None:
        self._enter(at_us, _ON_HOT[self.state])
        ready_us, is_cold = self.invoke(at_us)
        self._live(lambda_ready(ready_us, 0, self.parameters))
        self.log.append((at_us, self.state, "invoke cold" if is_cold else "invoke warm"))

    def _live(self, life: LambdaLife) -> None:
        self.life, self.lambda_deadline_us = life, life.deadline_us

    def _enter(self, at_us: int, state: State) -> None:
        if state is not self.state:
            self.state = state
            self.log.append((at_us, state, "->"))
