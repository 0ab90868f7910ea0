"""The break-even policy over one key: `core.breakeven`'s decisions on simulated time."""

from __future__ import annotations

from collections import deque

from burstcache.core.breakeven import BreakevenParameters, boots, invokes, redis_stop_us
from burstcache_sim.world.machine import Machine
from burstcache_sim.world.result import Tier
from burstcache_sim.world.timings import THESIS_TIMINGS, Timings


class BreakevenMachine(Machine):
    """One key under the break-even policy.

    Source:
        `docs/understand/simulation.md`, "The break-even policy".
    """

    def __init__(self, parameters: BreakevenParameters, timings: Timings = THESIS_TIMINGS) -> None:
        super().__init__(timings)
        self.parameters = parameters
        self.window: deque[int] = deque(maxlen=max(2, parameters.boot_requests))
        self.is_bridging = False  # the cache function bridges a boot: requests extend it no more

    def decide(self, at_us: int, tier: Tier) -> None:
        """Extend what serves, or start what pays."""
        self.window.append(at_us)
        if tier == "L" and not self.is_bridging:
            self.lambda_deadline_us = at_us + self.parameters.lambda_gap_us
        if tier == "R":
            self._set_stop()
            return
        is_booting = self.redis_ready_us is not None
        if self.lambda_ready_us is None and not is_booting and invokes(self.window, self.parameters):
            self._start_lambda(at_us, self.parameters.lambda_gap_us)
        if not is_booting and self.redis_stopped_us is None and boots(self.window, self.parameters):
            self.boot_redis(at_us)
            self._bridge(at_us)

    def redis_is_ready(self, at_us: int) -> None:
        """Let Redis run at least as long as it is billed."""
        self._set_stop()

    def look_at_redis(self, at_us: int) -> None:
        """Stop Redis: the look is set to the instant at which it has idled long enough."""
        self.stop_redis(at_us)

    def lambda_timed_out(self, at_us: int) -> None:
        """Change nothing: every request is judged by its predecessors alone."""

    def redis_is_stopped(self, at_us: int) -> None:
        """Change nothing: the next request may boot Redis."""

    def _set_stop(self) -> None:
        assert self.redis_since_us is not None, "only a running Redis stops"
        self.redis_look_us = redis_stop_us(
            since_us=self.redis_since_us, last_us=self.window[-1], parameters=self.parameters
        )

    def _start_lambda(self, at_us: int, life_us: int) -> None:
        ready_us, _ = self.invoke(at_us)
        self.lambda_deadline_us = ready_us + life_us
        self.is_bridging = False

    def _bridge(self, at_us: int) -> None:
        if not self.parameters.uses_lambda:
            return
        if self.lambda_deadline_us is None:
            self._start_lambda(at_us, self.parameters.keep_running_us)
        else:
            self.lambda_deadline_us += self.parameters.keep_running_us
        self.is_bridging = True
